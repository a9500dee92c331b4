//! Checks of invariants that are true for every byte string: the body of a fuzz target, also run by
//! the tests.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken invariant must panic here; built for tests and fuzzing only"
)]

use crate::gate;
use crate::page::Page;
use crate::result::Report;

/// Checks a result file as `report` and `gate` read it.
///
/// Invariants: no panic; a report is unchanged after it is written and read again; its page and its
/// comparison with itself can be created; the page contains no markup from the file.
pub fn results(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut page = Page::default();
    for name in ["a.json", "b.svg", "c.txt"] {
        let _ = page.add(name, text);
    }
    let html = page.html("results");
    assert!(!html.contains("<script"));
    let Ok(report) = Report::from_json(text) else { return };
    let again = Report::from_json(&report.to_json().unwrap()).unwrap();
    assert_eq!(again.to_json().unwrap(), report.to_json().unwrap());
    let found = gate::judge(&report, &[report.clone(), again], 2.0);
    found.to_json().unwrap();
    found.text();
}

#[cfg(test)]
mod tests {
    /// Writes the seeds to the corpus, including the example report, and checks all files of the
    /// corpus.
    #[test]
    fn seeds_hold_and_are_on_disk() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/lab_results");
        let writable = std::fs::create_dir_all(&dir).is_ok();
        let example = crate::result::tests::example().0.to_json().unwrap();
        let seeds = [
            ("example", example.as_str()),
            ("empty", "{}"),
            ("markup", "<script>alert(1)</script>&\"'"),
            ("deep", "[[[[[[[[[[{\"rows\": [null, 1e400, \"\\ud800\"]}]]]]]]]]]]"),
            ("svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"><title>a</title></svg>"),
        ];
        for (name, seed) in seeds {
            super::results(seed.as_bytes());
            let path = dir.join(name);
            if writable && std::fs::read(&path).ok().as_deref() != Some(seed.as_bytes()) {
                std::fs::write(&path, seed).unwrap();
            }
        }
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            super::results(&std::fs::read(entry.path()).unwrap());
        }
        // The example with one byte changed.
        for at in (0..example.len()).step_by(7) {
            for byte in [b'0', b'"', b'}', b'-', 0x80] {
                let mut damaged = example.clone().into_bytes();
                damaged[at] = byte;
                super::results(&damaged);
            }
        }
    }
}
