use super::*;

#[test]
fn test_modules_are_found_by_their_declaration() {
    let tree = Tree::of(&[
        ("crates/a/src/lib.rs", "//! A.\nmod b;\n#[cfg(test)]\nmod testns;\n"),
        ("crates/a/src/b.rs", "//! B.\n#[cfg(test)]\nmod differential;\n"),
        ("crates/a/src/testns.rs", ""),
        ("crates/a/src/testns/deep.rs", ""),
        ("crates/a/src/b/differential.rs", ""),
        ("crates/a/src/b/other.rs", ""),
        ("crates/a/examples/speed.rs", ""),
    ]);
    let tests: Vec<&str> = tree.sources.keys().map(String::as_str).filter(|path| tree.is_test(path)).collect();
    assert_eq!(
        tests,
        [
            "crates/a/examples/speed.rs",
            "crates/a/src/b/differential.rs",
            "crates/a/src/testns.rs",
            "crates/a/src/testns/deep.rs"
        ]
    );
    assert!(!tree.is_test_module("crates/a/examples/speed.rs"));
}

#[test]
fn a_room_is_a_file_and_what_lies_below_it() {
    let rooms = [Room { path: "crates/a/src/os", why: "calls" }];
    assert!(in_room(&rooms, "crates/a/src/os.rs"));
    assert!(in_room(&rooms, "crates/a/src/os/tun.rs"));
    assert!(!in_room(&rooms, "crates/a/src/ostrich.rs"));
}

#[test]
fn a_finding_shows_place_and_text() {
    assert_eq!(Finding::new("a/b.rs", 7, "x; do y").to_string(), "a/b.rs:7: x; do y");
}
