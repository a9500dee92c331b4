//! The program in README.md is the one that the guide compiles.

use std::path::Path;

#[test]
fn the_program_in_the_readme_is_that_of_the_guide() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = |file: &str| {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let block = text.split("```rust\n").nth(1).expect("a block of Rust").split("```").next().unwrap();
        block.lines().filter(|line| !line.starts_with("# ")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(program("README.md"), program("docs/guide/README.md"));
}
