use super::*;

fn code(text: &str) -> Vec<String> {
    Source::parse(text).lines.into_iter().map(|line| line.code).collect()
}

#[test]
fn strings_and_comments_are_removed_from_the_code() {
    let text = r##"a("unsafe \" unsafe"); // unsafe
b(r#"unsafe " unsafe"#, b"unsafe", br"unsafe", c"unsafe"); /* unsafe /* unsafe */ unsafe */ c
d('"', '\'', b'"', '\u{41}', &'static e)"##;
    assert_eq!(code(text), [r#"a(""); "#, r#"b("", "", "", "");  c"#, "d('', '', '', '', &'static e)"]);
}

#[test]
fn a_string_or_a_comment_over_several_lines_keeps_the_line_numbers() {
    let text = "a(\"one\ntwo \\\n three\");\n/* four\nfive */ b\nr\"six\nseven\" + c\n";
    assert_eq!(code(text), ["a(\"\"", "", ");", "", " b", "\"\"", " + c"]);
}

#[test]
fn comments_are_kept_apart() {
    let source = Source::parse("/// Doc.\nlet a = 1; // why\n");
    assert_eq!(source.lines[0].comment, "/// Doc.");
    assert_eq!(source.lines[1].comment, "// why");
    assert_eq!(source.lines[1].code.trim(), "let a = 1;");
}

#[test]
fn words_that_start_like_a_string_prefix_are_kept() {
    assert_eq!(code("break; r; brr; crate::b"), ["break; r; brr; crate::b"]);
    assert_eq!(code("for_each(r#type)"), ["for_each(r#type)"]);
}

#[test]
fn items_for_tests_are_marked_to_their_end() {
    let text = "a();\n#[cfg(test)]\nmod tests {\n    fn b() { c() }\n}\nd();\n#[cfg(not(test))]\ne();\n";
    let marked: Vec<bool> = Source::parse(text).lines.iter().map(|line| line.test).collect();
    assert_eq!(marked, [false, true, true, true, true, false, false, false]);
}

#[test]
fn attributes_between_do_not_end_an_item() {
    let text =
        "#[cfg(test)]\n#[allow(dead_code)]\nfn a(b: [u8; 2]) -> u8 {\n    1\n}\nc();\n#[cfg(test)]\nuse d;\ne();\n";
    let marked: Vec<bool> = Source::parse(text).lines.iter().map(|line| line.test).collect();
    assert_eq!(marked, [true, true, true, true, true, false, true, true, false]);
}

#[test]
fn modules_in_files_of_their_own_are_named() {
    let text = "mod a;\n#[cfg(all(test, not(loom)))]\nmod b;\n#[cfg(any(test, fuzzing))]\npub mod c;\n#[cfg(loom)]\nmod d;\n\
                #[cfg(test)] pub(crate) mod e;\n";
    assert_eq!(Source::parse(text).test_modules, ["b", "c", "e"]);
}

#[test]
fn a_token_is_not_a_part_of_a_word() {
    assert!(has_token("let a = unsafe { b }", "unsafe"));
    assert!(!has_token("#![allow(unsafe_code)]", "unsafe"));
    assert!(has_token("std::time::Instant::now()", "Instant::now"));
    assert!(!has_token("MyInstant::nowhere()", "Instant::now"));
    assert!(has_token("dbg!(a)", "dbg!"));
}
