//! Checks that docs/decisions/README.md lists every page of the directory, and only existing pages.

use super::{Finding, Tree};

const PLACE: &str = "docs/decisions/";
const INDEX: &str = "docs/decisions/README.md";

pub fn check(tree: &Tree) -> Vec<Finding> {
    let pages: Vec<&str> = tree
        .texts
        .keys()
        .filter_map(|path| path.strip_prefix(PLACE))
        .filter(|name| name.ends_with(".md") && *name != "README.md")
        .collect();
    let index = tree.texts.get(INDEX).map_or("", String::as_str);
    let listed = listed(index);
    let unlisted = pages.iter().filter(|page| !listed.iter().any(|(_, name)| name == *page)).map(|page| {
        Finding::new(&format!("{PLACE}{page}"), 1, format!("not listed in {INDEX}; add a line with a link to it"))
    });
    let missing = listed.iter().filter(|(_, name)| !pages.contains(name)).map(|(line, name)| {
        Finding::new(INDEX, *line, format!("links to {name}, which does not exist; write the page or remove the line"))
    });
    unlisted.chain(missing).collect()
}

/// Returns the linked pages, `](0001-name.md)`, with their lines.
fn listed(index: &str) -> Vec<(usize, &str)> {
    let lines = index.lines().enumerate();
    lines
        .flat_map(|(at, line)| line.split("](").skip(1).map(move |rest| (at + 1, rest)))
        .filter_map(|(line, rest)| Some((line, rest.split_once(')')?.0)))
        .filter(|(_, name)| name.ends_with(".md") && !name.contains('/'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(index: &str) -> Vec<String> {
        let tree = Tree::of(&[("docs/decisions/README.md", index), ("docs/decisions/0001-a.md", "# A\n")]);
        check(&tree).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_listed_page_is_fine_and_other_links_are_not_pages() {
        assert_eq!(found("[a](0001-a.md) as in [the house](../../ARCHITECTURE.md)\n"), Vec::<String>::new());
    }

    #[test]
    fn a_page_that_is_not_listed_is_found() {
        assert_eq!(
            found(""),
            ["docs/decisions/0001-a.md:1: not listed in docs/decisions/README.md; add a line with a link to it"]
        );
    }

    #[test]
    fn a_broken_link_is_found() {
        let found = found("[a](0001-a.md)\n[b](0002-b.md)\n");
        assert!(
            matches!(&found[..], [one] if one.starts_with("docs/decisions/README.md:2: links to 0002-b.md")),
            "{found:?}"
        );
    }
}
