//! What must hold for every script: the body of the fuzz target, run by the tests too. `cargo xtask fuzz` calls it with the
//! corpus under `fuzz/corpus/sim_pkt`.

use crate::pkt;

/// A script: no panic, whatever it says; and an error's line is one of the script's.
///
/// Short ones are played too: scripts are segments that nobody sane would send.
///
/// # Panics
/// When an invariant is broken.
pub fn script(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match pkt::parse(text) {
        Ok(script) if script.len() <= 40 && text.len() <= 4096 => {
            if let Err(error) = pkt::run_text(text, None, pkt::Rules::default()) {
                assert!(error.line <= text.split('\n').count(), "{error}");
            }
        }
        Ok(_) => {}
        Err(error) => assert!((1..=text.split('\n').count()).contains(&error.line), "{error}"),
    }
}
