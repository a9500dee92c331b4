use super::*;

/// Runs `body` on each seed, on each seed with one byte changed, and on the whole corpus. Writes
/// the seeds to disk if the repository is writable.
fn hold(target: &str, seeds: &[(&str, &str)], body: fn(&[u8])) {
    let seeds: Vec<_> = seeds.iter().map(|(name, seed)| (*name, seed.as_bytes().to_vec())).collect();
    hold_bytes(target, &seeds, body);
}

/// Runs [`hold`] for binary seeds.
pub(crate) fn hold_bytes(target: &str, seeds: &[(&str, Vec<u8>)], body: fn(&[u8])) {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let writable = std::fs::create_dir_all(&dir).is_ok();
    for (name, seed) in seeds {
        println!("{name}");
        body(seed);
        let path = dir.join(name);
        if writable && std::fs::read(&path).ok().as_ref() != Some(seed) {
            std::fs::write(&path, seed).unwrap();
        }
        for at in (0..seed.len()).step_by(1 + seed.len() / 40) {
            for byte in [0, b' ', b'9', 0xff] {
                let mut damaged = seed.clone();
                damaged[at] = byte;
                body(&damaged);
            }
        }
    }
    for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
        body(&std::fs::read(entry.path()).unwrap());
    }
}

#[test]
fn answers_of_a_control_socket() {
    let seeds = [
        ("ok", "ok 5\nhello"),
        ("error", "error 3\nno\n"),
        ("short", "ok 10\nhello"),
        ("empty", "ok 0\n"),
        ("zeros", "ok 0005\nhello"),
        ("large", "ok 99999999999\nhello"),
        ("no_text", "ok +1\n\u{e9}"),
        ("no_answer", "HTTP/1.1 200 OK\r\n\r\n"),
    ];
    hold("node_answer", &seeds, answer);
}

/// Acknowledgments as dnsmasq and the ISC server compose them, and a DHCPv6 reply.
#[test]
fn answers_of_dhcp_servers_hold() {
    let options = |options: &[u8]| {
        let mut message = vec![0; 236];
        message[16..20].copy_from_slice(&[10, 0, 0, 77]);
        [&message[..], &[99, 130, 83, 99], options, &[255]].concat()
    };
    let base = [53, 1, 2, 54, 4, 10, 0, 0, 1, 51, 4, 0, 0, 14, 16];
    let usual = [1, 4, 255, 255, 255, 0, 3, 4, 10, 0, 0, 1, 6, 4, 10, 0, 0, 1, 15, 3, b'l', b'a', b'b', 26, 2, 5, 120];
    let times = [58, 4, 0, 0, 7, 8, 59, 4, 0, 0, 12, 78];
    let routes = [121, 9, 16, 10, 1, 10, 0, 0, 1, 0, 10, 0, 119, 5, 3, b'l', b'a', b'b', 0];
    let reply = [
        &[7, 1, 2, 3, 0, 2, 0, 10, 0, 3, 0, 1, 2, 0, 0, 0, 0, 9, 0, 1, 0, 10, 0, 3, 0, 1, 2, 0, 0, 0, 0, 1][..],
        &[0, 23, 0, 16, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x53],
        &[0, 24, 0, 5, 3, b'l', b'a', b'b', 0, 0, 32, 0, 4, 0, 0, 2, 88],
    ];
    let seeds = [
        ("offer", options(&[&base[..], &usual].concat())),
        ("times", options(&[&base[..], &times].concat())),
        ("routes", options(&[&base[..], &routes].concat())),
        ("nak", options(&[53, 1, 6, 54, 4, 10, 0, 0, 1])),
        ("reply6", reply.concat()),
    ];
    hold_bytes("node_dhcp", &seeds, dhcp);
}
