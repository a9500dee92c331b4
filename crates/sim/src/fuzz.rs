//! What must hold for every script: the body of the fuzz target, run by the tests too. `cargo xtask fuzz` calls it with the
//! corpus under `fuzz/corpus/sim_pkt`.

use crate::pkt;

/// A script: no panic, whatever it says; and an error's line is one of the script's.
///
/// Short scripts are played too, as sequences of hostile segments. One that names no version of IP is
/// played in one of the three, by its length.
///
/// # Panics
/// When an invariant is broken.
pub fn script(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match pkt::parse(text) {
        Ok(script) if script.len() <= 40 && text.len() <= 4096 => {
            let all = pkt::IpVersion::ALL;
            let by_length = all.into_iter().nth(text.len() % all.len());
            let ip_version = script.ip_version().ok().flatten().or(by_length);
            if let Err(error) = pkt::run_text(text, None, pkt::Rules { ip_version, ..pkt::Rules::default() }) {
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

    /// The seeds of the fuzz target; each cut short, and with each byte another, in turn.
    #[test]
    fn the_corpus_and_what_is_near_it() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/sim_pkt");
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
