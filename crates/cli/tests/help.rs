//! Help texts and commands whose output does not depend on the moment: tests/cmd/*.trycmd are run as they stand.

#[test]
fn commands_print_what_the_examples_say() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd").case("tests/cmd/*.toml");
}
