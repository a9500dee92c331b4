//! Comments and directions among the options of a packet
//! ([`Record::options`](super::Record::options)), for conversion between pcapng and formats that
//! have no options.

use super::options::append_option;
use super::record::Direction;

const COMMENT: u16 = 1;
const FLAGS: u16 = 2;

/// Returns the comments in order. Invalid UTF-8 is replaced.
pub fn comments(options: &[u8]) -> impl Iterator<Item = String> {
    each(options).filter(|(code, _)| *code == COMMENT).map(|(_, value)| String::from_utf8_lossy(value).into_owned())
}

/// Returns the direction given in the options.
pub fn direction(options: &[u8]) -> Direction {
    let flags = each(options).find_map(|(code, value)| value.first_chunk().filter(|_| code == FLAGS));
    match flags.map_or(0, |flags| u32::from_le_bytes(*flags) & 3) {
        1 => Direction::Inbound,
        2 => Direction::Outbound,
        _ => Direction::Unknown,
    }
}

/// Appends a comment. Returns `false` if the comment is longer than the 65,535 bytes of an option.
pub fn push_comment(options: &mut Vec<u8>, comment: &str) -> bool {
    let fits = comment.len() <= usize::from(u16::MAX);
    if fits {
        append_option(options, COMMENT, comment.as_bytes());
    }
    fits
}

/// Appends the direction, unless it is unknown.
pub fn push_direction(options: &mut Vec<u8>, direction: Direction) {
    let bits: u32 = match direction {
        Direction::Unknown => return,
        Direction::Inbound => 1,
        Direction::Outbound => 2,
    };
    append_option(options, FLAGS, &bits.to_le_bytes());
}

/// Iterates over little-endian options, as pairs of code and value.
fn each(mut options: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let [a, b, c, d] = *options.first_chunk()?;
        let (code, len) = (u16::from_le_bytes([a, b]), usize::from(u16::from_le_bytes([c, d])));
        let value = options.get(4..4 + len).filter(|_| code != 0)?;
        options = options.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appended_options_are_read_back() {
        let mut options = Vec::new();
        assert!(push_comment(&mut options, "first"));
        push_direction(&mut options, Direction::Outbound);
        assert!(push_comment(&mut options, "zweiter: ö"));
        assert_eq!(comments(&options).collect::<Vec<_>>(), ["first", "zweiter: ö"]);
        assert_eq!(direction(&options), Direction::Outbound);
        let before = options.len();
        push_direction(&mut options, Direction::Unknown);
        assert!(!push_comment(&mut options, &"x".repeat(65_536)));
        assert_eq!(options.len(), before);
        // If the input is truncated at any byte, only whole options are read.
        for len in 0..before {
            assert!(comments(&options[..len]).all(|comment| ["first", "zweiter: ö"].contains(&comment.as_str())));
            let _ = direction(&options[..len]);
        }
    }
}
