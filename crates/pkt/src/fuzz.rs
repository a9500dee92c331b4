//! Properties that hold for every script: the body of the fuzz target, which the tests run too.
//! `cargo xtask fuzz` runs it with the corpus in `fuzz/corpus/pkt_script`.

/// Checks that parsing a script does not panic, and that the line number of an error is within the
/// script.
///
/// Short scripts are also run, as sequences of hostile segments. A script that sets no IP version
/// is run with one of the versions, chosen by the length of the script.
///
/// # Panics
/// Panics if a property is violated.
pub fn script(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match crate::parse(text) {
        Ok(script) if script.len() <= 40 && text.len() <= 4096 => {
            let all = crate::IpVersion::ALL;
            let by_length = all.into_iter().nth(text.len() % all.len());
            let ip_version = script.ip_version().ok().flatten().or(by_length);
            if let Err(error) = crate::run_text(text, None, crate::Rules { ip_version, ..crate::Rules::default() }) {
                assert!(error.line <= text.split('\n').count(), "{error}");
            }
        }
        Ok(_) => {}
        Err(error) => assert!((1..=text.split('\n').count()).contains(&error.line), "{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the seeds of the fuzz target, also truncated at several positions and with single bytes
    /// replaced.
    #[test]
    fn corpus_and_mutations_do_not_panic() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/pkt_script");
        let mut scripts = 0;
        for entry in std::fs::read_dir(corpus).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            script(&bytes);
            for at in (0..bytes.len()).step_by(3) {
                script(&bytes[..at]);
                let mut other = bytes.clone();
                other[at] = b"0<>.:(\"`%-+9S~*"[at % 15];
                script(&other);
            }
            scripts += 1;
        }
        assert!(scripts >= 10);
    }
}
