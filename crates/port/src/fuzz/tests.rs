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
fn corpora_pass_whole_truncated_and_damaged() {
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
    for file in corpus("port_frames") {
        (0..=file.len()).for_each(|len| super::frames(&file[..len]));
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 0x01;
            super::frames(&damaged);
        }
    }
    for file in corpus("port_ip") {
        (0..=file.len()).for_each(|len| super::ip_link(&file[..len]));
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 0x01;
            super::ip_link(&damaged);
        }
    }
    for file in corpus("port_spec") {
        (0..=file.len()).for_each(|len| super::spec(&file[..len]));
    }
}

/// Returns a slot of a ring (`struct tpacket2_hdr`) that contains `frame`, and a VLAN tag if
/// `tagged` is true.
fn slot(frame: &[u8], tagged: bool) -> Vec<u8> {
    const MAC: usize = 64;
    let mut slot = vec![0; MAC];
    let status = if tagged { libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID } else { 0 };
    let len = frame.len() as u32;
    let words = [(0, status), (4, len), (8, len)];
    words.iter().for_each(|(place, word)| slot[*place..place + 4].copy_from_slice(&word.to_ne_bytes()));
    let halves = [(12, MAC as u16), (24, 7), (26, 0x8100)];
    halves.iter().for_each(|(place, half)| slot[*place..place + 2].copy_from_slice(&half.to_ne_bytes()));
    slot.extend(frame);
    slot
}

/// Checks the seeds of `port_device`, also truncated and damaged. Writes them to disk if the
/// repository is writable.
#[test]
fn device_frames_pass() {
    let mut udp = vec![2; 12];
    udp.extend([
        8, 0, 0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 7, 0, 12, 0, 0, 1, 2, 3, 4,
    ]);
    let mut tcp = vec![2; 12];
    tcp.extend([8, 0, 0x45, 0, 0, 140, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 8]);
    tcp.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    tcp.extend([7; 100]);
    let vnet = |flags: u8, header: [u8; 10], frame: &[u8]| [&[flags], &header[..], frame].concat();
    let [gso, start, offset] = [40_u16, 34, 16].map(u16::to_ne_bytes);
    let large = [1, 1, 54, 0, gso[0], gso[1], start[0], start[1], offset[0], offset[1]];
    let seeds = [
        ("tagged", [&[0][..], &slot(&udp, true)].concat()),
        ("one", [&[10][..], &slot(&tcp, false)].concat()),
        ("empty", vec![0; 64]),
        ("plain", vnet(1, [0; 10], &udp)),
        ("open", vnet(1, [1, 0, 0, 0, 0, 0, 34, 0, 6, 0], &udp)),
        ("trust", vnet(3 | 8, [1, 0, 0, 0, 0, 0, 34, 0, 6, 0], &udp)),
        ("large", vnet(3 | 4 | 8, large, &tcp)),
        ("large_soft", vnet(5, large, &tcp)),
        ("verified", vnet(1, [2, 0, 0, 0, 0, 0, 0, 0, 0, 0], &tcp)),
    ];
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/port_device");
    let writable = std::fs::create_dir_all(&dir).is_ok();
    for (name, seed) in &seeds {
        super::device(seed);
        if writable && std::fs::read(dir.join(name)).ok().as_ref() != Some(seed) {
            std::fs::write(dir.join(name), seed).unwrap();
        }
    }
    for file in corpus("port_device") {
        (0..file.len()).for_each(|len| super::device(&file[..len]));
        for at in 0..file.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = file.clone();
                damaged[at] ^= flip;
                super::device(&damaged);
            }
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_pass(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        super::pcap(&data);
        super::spec(&data);
        super::text(&data);
        super::device(&data);
    }
}
