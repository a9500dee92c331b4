//! Suggestions for misspelt words.

use strsim::osa_distance;

/// Returns the name with the smallest edit distance from `word`. Returns `None` if the distance is
/// more than half the length in bytes of the longer of the two, or if `word` has more than 64
/// bytes.
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 64 {
        return None;
    }
    let (edits, name) = names.map(|name| (osa_distance(word, name), name)).min_by_key(|&(edits, _)| edits)?;
    (edits * 2 <= name.len().max(word.len())).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_the_most_similar_name_or_none() {
        let names = || ["ifconfig", "ip", "arp", "route", "sysctl"].into_iter();
        assert_eq!(nearest("ifconfg", names()), Some("ifconfig"));
        assert_eq!(nearest("rotue", names()), Some("route"));
        assert_eq!(nearest("zebra", names()), None);
        assert_eq!(nearest(&"x".repeat(10_000), names()), None);
        assert_eq!(nearest("", names()), None);
    }
}
