use super::*;

fn found_in(path: &str, text: &str) -> Vec<String> {
    check(&Tree::of(&[(path, text)])).iter().map(Finding::to_string).collect()
}

fn found(text: &str) -> Vec<String> {
    found_in("crates/buf/src/frame.rs", text)
}

#[test]
fn the_word_in_comments_strings_and_lint_names_is_not_a_use() {
    let text = "#![allow(unsafe_code)] // unsafe\n/* unsafe */\nfn a() { b(\"unsafe\") }\n";
    assert_eq!(found_in("crates/inet/src/a.rs", text), Vec::<String>::new());
}

#[test]
fn outside_the_rooms_it_is_found_even_with_a_reason() {
    let found = found_in("crates/inet/src/a.rs", "//! A.\n// SAFETY: fine.\nlet a = unsafe { b() };\n");
    assert!(matches!(&found[..], [one] if one.starts_with("crates/inet/src/a.rs:3: unsafe outside")), "{found:?}");
}

#[test]
fn inside_a_room_a_reason_near_by_is_enough() {
    for text in [
        "// SAFETY: fine.\nlet a = unsafe { b() };\n",
        "// SAFETY: a long\n// reason over\n// some\n// lines.\n#[cfg(a)]\nunsafe impl Send for A {}\nunsafe impl Sync for A {}\n",
        "a().map(\n    // SAFETY: fine.\n    |it| {\n        let b = it;\n        unsafe { c(b) }\n    })\n",
        "let a = unsafe { b() }; // SAFETY: fine.\n",
        "// SAFETY: as the manual page has it.\nunsafe extern \"C\" {\n}\n",
    ] {
        assert_eq!(found(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn inside_a_room_a_missing_or_distant_reason_is_found() {
    for text in [
        "let a = unsafe { b() };\n",
        "unsafe impl Send for A {}\n",
        "// SAFETY: fine.\na();\nb();\nc();\nd();\nunsafe { e() }\n",
        "unsafe extern \"C\" {\n    fn f();\n}\n",
    ] {
        assert!(matches!(&found(text)[..], [one] if one.contains("// SAFETY:")), "{text}");
    }
}

#[test]
fn an_unsafe_fn_needs_a_safety_section() {
    let reported = "/// Reads.\n///\n/// # Safety\n/// `a` is valid.\n#[inline]\npub unsafe fn a() {}\n";
    assert_eq!(found(reported), Vec::<String>::new());
    assert!(found("/// Reads.\nunsafe fn a() {}\n")[0].contains("# Safety"));
    assert!(found("pub unsafe extern \"C\" fn a() {}\n")[0].contains("# Safety"));
}

#[test]
fn attributes_and_pointer_types_need_the_room_only() {
    let text = "#[unsafe(no_mangle)]\ntype A = unsafe extern \"C\" fn(u8);\ntype B = unsafe fn(u8);\n";
    assert_eq!(found_in("crates/rung/src/lib.rs", text), Vec::<String>::new());
    assert_eq!(found_in("crates/inet/src/lib.rs", text).len(), 3);
}
