//! Help texts and commands with constant output: the files tests/cmd/*.trycmd are run as they are.

#[test]
fn commands_print_the_expected_output() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd").case("tests/cmd/*.toml");
}

/// docs/keys.md equals the output of 'linerate keys'; UPDATE=1 writes it.
#[test]
fn the_page_of_keys_is_current() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/keys.md");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_linerate")).arg("keys").output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == printed, "docs/keys.md is not current: UPDATE=1 cargo test -p linerate-cli --test all help::");
}
