use super::*;

const ROOT: &str = r#"
[workspace]
members = ["crates/clock", "crates/wire", "crates/inet", "crates/bench", "xtask"]
[workspace.dependencies]
clock = { package = "linerate-clock", path = "crates/clock" }
wire = { package = "linerate-wire", path = "crates/wire" }
inet = { package = "linerate-inet", path = "crates/inet" }
bench = { package = "linerate-bench", path = "crates/bench" }
libc = "0.2"
"#;

const LINTS: &str = "[lints]\nworkspace = true\n";

/// Returns the findings of tidy if `crates/wire/Cargo.toml` is `wire`.
fn found(wire: &str) -> Vec<String> {
    let tree = Tree::of(&[
        ("Cargo.toml", ROOT),
        ("crates/clock/Cargo.toml", LINTS),
        ("crates/wire/Cargo.toml", wire),
        (
            "crates/inet/Cargo.toml",
            "[dependencies]\nwire.workspace = true\nlibc.workspace = true\n[lints]\nworkspace = true\n",
        ),
        ("crates/bench/Cargo.toml", LINTS),
        ("xtask/Cargo.toml", "[dependencies]\nbench.workspace = true\n[lints]\nworkspace = true\n"),
    ]);
    check(&tree).iter().map(Finding::to_string).collect()
}

#[test]
fn dependencies_on_crates_above_are_fine() {
    let wire =
        format!("{LINTS}[dependencies]\nclock.workspace = true\n[target.'cfg(loom)'.dependencies]\nlibc = \"0.2\"\n");
    assert_eq!(found(&wire), Vec::<String>::new());
}

#[test]
fn a_dependency_on_a_crate_below_is_found_on_its_line() {
    let wire = format!("{LINTS}[dependencies]\nclock.workspace = true\ninet.workspace = true\n");
    let found = found(&wire);
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("crates/wire/Cargo.toml:5: crates/wire depends on crates/inet"), "{found:?}");
}

#[test]
fn every_kind_of_dependency_is_checked() {
    for table in [
        "[build-dependencies]\ninet.workspace = true",
        "[dependencies]\ninet = { workspace = true, features = [] }",
        "[dependencies.inet]\nworkspace = true",
        "[dependencies]\nother = { package = \"linerate-inet\", path = \"../inet\" }",
        "[target.'cfg(unix)'.dependencies]\ninet.workspace = true",
    ] {
        let found = found(&format!("{LINTS}{table}\n"));
        assert!(matches!(&found[..], [one] if one.contains("depends on crates/inet")), "{table}: {found:?}");
    }
}

#[test]
fn a_dev_dependency_below_has_to_be_listed() {
    let found = found(&format!("{LINTS}[dev-dependencies]\ninet.workspace = true\n"));
    assert!(matches!(&found[..], [one] if one.contains("DEV_BELOW")), "{found:?}");
}

#[test]
fn no_crate_depends_on_a_tool() {
    let found = found(&format!("{LINTS}[dependencies]\nbench.workspace = true\n"));
    assert!(matches!(&found[..], [one] if one.contains("depends on crates/bench")), "{found:?}");
}

#[test]
fn applications_use_the_library_instead_of_its_parts() {
    let root = "[workspace]\nmembers = [\"crates/inet\", \"crates/linerate\", \"crates/apps\"]\n\
                [workspace.dependencies]\ninet = { path = \"crates/inet\" }\nlinerate = { path = \"crates/linerate\" }\n";
    let found = |apps: &str| {
        let apps = format!("{LINTS}[dependencies]\nlinerate.workspace = true\n{apps}");
        let tree = Tree::of(&[
            ("Cargo.toml", root),
            ("crates/inet/Cargo.toml", LINTS),
            ("crates/linerate/Cargo.toml", LINTS),
            ("crates/apps/Cargo.toml", &apps),
        ]);
        check(&tree).iter().map(Finding::to_string).collect::<Vec<_>>()
    };
    assert_eq!(found(""), Vec::<String>::new());
    let part = found("inet.workspace = true\n");
    assert!(matches!(&part[..], [one] if one.contains("a part of the library")), "{part:?}");
    assert_eq!(found("[dev-dependencies]\ninet.workspace = true\n"), Vec::<String>::new());
}

#[test]
fn missing_lints_are_found() {
    let found = found("[dependencies]\n");
    assert!(matches!(&found[..], [one] if one.contains("workspace's lints")), "{found:?}");
}

#[test]
fn uninformative_names_and_unlisted_crates_are_found() {
    let root = "[workspace]\nmembers = [\"crates/util\", \"crates/gone\"]\n";
    let tree = Tree::of(&[("Cargo.toml", root), ("crates/util/Cargo.toml", LINTS), ("crates/lost/Cargo.toml", LINTS)]);
    let found: Vec<String> = check(&tree).iter().map(Finding::to_string).collect();
    assert!(found[0].contains("crate name 'util'"), "{found:?}");
    assert!(found[1].contains("member crates/gone has no Cargo.toml"), "{found:?}");
    assert!(found[2].starts_with("crates/lost/Cargo.toml:1: not a member"), "{found:?}");
}

#[test]
fn a_manifest_that_does_not_parse_is_a_finding() {
    assert!(found("[dependencies\n")[0].contains("does not parse"));
}

#[test]
fn foreign_stacks_and_c_are_for_tests_only() {
    for table in ["[dependencies]\nsmoltcp = \"0.14\"", "[build-dependencies]\ncc = \"1\""] {
        let found = found(&format!("{LINTS}{table}\n"));
        assert!(matches!(&found[..], [one] if one.contains("must not be part of the program")), "{table}: {found:?}");
    }
    assert_eq!(found(&format!("{LINTS}[dev-dependencies]\nsmoltcp = \"0.14\"\n")), Vec::<String>::new());
}
