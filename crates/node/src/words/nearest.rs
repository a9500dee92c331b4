//! Which of the words that exist was probably meant.

/// The name with the fewest edits from `word`, if they are no more than half its letters.
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 64 {
        return None;
    }
    let (edits, name) = names.map(|name| (edits(word, name), name)).min_by_key(|&(edits, _)| edits)?;
    (edits * 2 <= name.len().max(word.len())).then_some(name)
}

/// Edits between two words: letters put in, taken out, exchanged, or swapped with their neighbor.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new(); // two rows up
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX / 2);
            let mut least = (at(&above, j) + usize::from(x != y)).min(at(&above, j + 1) + 1).min(at(&row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                least = least.min(at(&before, j - 1) + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant_and_does_not_guess_wildly() {
        let names = || ["ifconfig", "ip", "arp", "route", "sysctl"].into_iter();
        assert_eq!(nearest("ifconfg", names()), Some("ifconfig"));
        assert_eq!(nearest("rotue", names()), Some("route"));
        assert_eq!(nearest("zebra", names()), None);
        assert_eq!(nearest(&"x".repeat(10_000), names()), None);
        assert_eq!((edits("ab", "ba"), edits("", "abc"), edits("kitten", "sitting")), (1, 3, 3));
    }
}
