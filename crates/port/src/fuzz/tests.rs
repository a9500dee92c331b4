use proptest::prelude::*;
use std::path::PathBuf;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files: Vec<_> =
        std::fs::read_dir(&dir).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
    assert!(!files.is_empty());
    files
}

#[test]
fn the_corpora_hold_whole_cut_and_damaged() {
    for file in corpus("port_pcap") {
        super::pcap(&file);
        (0..file.len()).for_each(|len| super::pcap(&file[..len]));
        for at in 0..file.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = file.clone();
                damaged[at] ^= flip;
                super::pcap(&damaged);
            }
        }
    }
    for file in corpus("port_text") {
        (0..=file.len()).for_each(|len| super::text(&file[..len]));
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 0x08;
            super::text(&damaged);
        }
    }
    for file in corpus("port_spec") {
        (0..=file.len()).for_each(|len| super::spec(&file[..len]));
    }
}

proptest! {
    #[test]
    fn any_bytes_hold(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        super::pcap(&data);
        super::spec(&data);
        super::text(&data);
    }
}
