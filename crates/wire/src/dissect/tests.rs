//! Expected lines, and a comparison with Debian's tcpdump where it is installed.

use super::*;
use crate::samples;
use std::{env, fs, process::Command};

fn of(name: &str) -> String {
    let frames = samples::frames();
    let (_, frame) = frames.iter().find(|(found, _)| *found == name).unwrap();
    line(frame).to_string()
}

#[test]
fn golden_lines() {
    let from_a = "02:00:00:00:00:01 > 02:00:00:00:00:02, ethertype";
    let cases = [
        ("rump_udp", "IPv4 (0x0800), length 64: 1.0.0.1.12345 > 1.0.0.2.55443: UDP, length 22"),
        ("arp_request", "ARP (0x0806), length 42: Request who-has 1.0.0.2 tell 1.0.0.1, length 28"),
        ("arp_reply", "ARP (0x0806), length 42: Reply 1.0.0.1 is-at 02:00:00:00:00:01, length 28"),
        ("echo_request", "IPv4 (0x0800), length 98: 1.0.0.1 > 1.0.0.2: ICMP echo request, id 7, seq 1, length 64"),
        (
            "tcp_data",
            "IPv4 (0x0800), length 154: 1.0.0.1.40000 > 1.0.0.2.5001: Flags [P.], seq 16909060:16909160, ack 168496141, win 65535, length 100",
        ),
    ];
    for (name, expected) in cases {
        assert_eq!(of(name), format!("{from_a} {expected}"));
    }
}

/// We print no packet inside a tunnel; tcpdump does.
#[test]
fn tunnels_show_their_header() {
    let expected = [
        ("ipip", "length 84: 1.0.0.1 > 1.0.0.2: IPIP, length 50"),
        ("gre", "length 88: 1.0.0.1 > 1.0.0.2: GREv0, proto IPv4 (0x0800), length 54"),
        ("gre_all", "length 100: 1.0.0.1 > 1.0.0.2: GREv0, key=0x5, seq 9, proto IPv4 (0x0800), length 66"),
        ("etherip", "length 100: 1.0.0.1 > 1.0.0.2: EtherIP, length 66"),
        ("vxlan", "length 114: 1.0.0.1.54321 > 1.0.0.2.4789: VXLAN, flags [I] (0x08), vni 42"),
    ];
    for ((name, frame), (wanted, line_end)) in samples::tunnels().iter().zip(expected) {
        assert_eq!(*name, wanted);
        assert!(line(frame).to_string().ends_with(line_end), "{}", line(frame));
    }
}

#[test]
fn marks_where_bytes_are_missing() {
    let frame = samples::rump_frame();
    let at = |len: usize| line(&frame[..len]).to_string();
    assert_eq!(at(13), "[|ether]");
    assert!(at(14).ends_with("length 14: [|ip]"));
    assert!(at(33).ends_with("[|ip]"));
    assert!(at(34).ends_with("truncated-ip - 30 bytes missing! 1.0.0.1 > 1.0.0.2: [|udp]"));
    assert!(at(63).ends_with("truncated-ip - 1 bytes missing! 1.0.0.1.12345 > 1.0.0.2.55443: UDP, length 22"));
    assert_eq!(packet_line(&frame[14..]).to_string(), "IP 1.0.0.1.12345 > 1.0.0.2.55443: UDP, length 22");
    assert_eq!(packet_line(&[]).to_string(), "[|ip]");
    assert_eq!(packet_line(&[0x70]).to_string(), "[bad IP version 7]");
}

#[test]
fn without_the_link_header_and_with_the_end_cut_off() {
    let of = |name: &str| samples::frames().into_iter().find(|(found, _)| *found == name).unwrap().1;
    let (udp, arp) = (of("rump_udp"), of("arp_request"));
    let short = |frame: &[u8], kept: usize| brief(&frame[..kept], frame.len()).to_string();
    for kept in [udp.len(), 42] {
        assert_eq!(short(&udp, kept), "IP 1.0.0.1.12345 > 1.0.0.2.55443: UDP, length 22");
    }
    assert_eq!(short(&udp, 40), "IP 1.0.0.1 > 1.0.0.2: [|udp]");
    assert_eq!(short(&arp, 42), "ARP, Request who-has 1.0.0.2 tell 1.0.0.1, length 28");
    assert!(
        line_of(&udp[..42], 64, Shown { link: true, verbose: 0 })
            .to_string()
            .ends_with("length 64: 1.0.0.1.12345 > 1.0.0.2.55443: UDP, length 22")
    );
    assert_eq!(short(&[0; 14], 9), "[|ether]");
    assert!(short(&[0xff; 60], 20).ends_with("ethertype Unknown (0xffff), length 60: payload length 46"));
    assert_eq!(brief(&udp, 0).to_string(), short(&udp, udp.len()), "a length below the captured one is ignored");
}

#[test]
fn tags_without_end() {
    let frame = [&[0; 12][..], &[0x81, 0x00, 0, 1].repeat(300)].concat();
    assert!(line(&frame).to_string().len() < 300);
}

/// Builds a classic pcap file: microseconds, Ethernet.
fn pcap<'a>(frames: impl Iterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let mut file = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1].map(u32::to_le_bytes).concat();
    for frame in frames {
        let len = frame.len() as u32;
        file.extend([0, 0, len, len].map(u32::to_le_bytes).concat());
        file.extend(frame);
    }
    file
}

/// Returns tcpdump's lines for these frames, or `None` if it is not installed.
fn tcpdump(options: &str, frames: &[(&str, Vec<u8>)]) -> Option<Vec<String>> {
    let path = env::temp_dir().join(format!("linerate-dissect-{}{options}.pcap", std::process::id()));
    fs::write(&path, pcap(frames.iter().map(|(_, frame)| frame))).unwrap();
    let output = Command::new("tcpdump").args([options, "-r"]).arg(&path).output();
    fs::remove_file(&path).unwrap();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

#[test]
fn output_equals_tcpdumps() {
    let frames = samples::frames();
    let Some(theirs) = tcpdump("-enSt", &frames) else {
        println!("skipped: tcpdump is not installed here");
        return;
    };
    assert_eq!(theirs.len(), frames.len());
    let mut differ = 0;
    for ((name, frame), theirs) in frames.iter().zip(&theirs) {
        let ours = line(frame).to_string();
        if ours != theirs.trim_end() {
            println!("{name}\n  ours    {ours}\n  tcpdump {theirs}");
            differ += 1;
        }
    }
    assert_eq!(differ, 0);
}

/// The samples are valid: tcpdump, which verifies checksums with -vv, reports no error.
#[test]
fn tcpdump_finds_no_bad_checksum() {
    let Some(lines) = tcpdump("-envvt", &samples::frames()) else {
        println!("skipped: tcpdump is not installed here");
        return;
    };
    for line in lines {
        let line = line.to_lowercase();
        assert!(!["bad", "wrong", "incorrect"].iter().any(|word| line.contains(word)), "{line}");
    }
}

/// With -v, correct and wrong checksums are reported as by tcpdump 4.99. Compares the fields that
/// both print.
#[test]
fn tcpdump_verifies_the_same_checksums() {
    let mut frames = samples::frames();
    let damaged: Vec<_> = frames
        .iter()
        .map(|(name, frame)| {
            let mut frame = frame.clone();
            *frame.last_mut().unwrap() ^= 0x40;
            (*name, frame)
        })
        .collect();
    frames.extend(damaged);
    for (flags, verbose) in [("-nvSt", 1), ("-nvvSt", 2)] {
        let Some(lines) = tcpdump(flags, &frames) else {
            println!("skipped: tcpdump is not installed here");
            return;
        };
        // Lines that begin with a blank continue the previous packet.
        let mut theirs: Vec<String> = Vec::new();
        for line in lines {
            match theirs.last_mut().filter(|_| line.starts_with([' ', '\t'])) {
                Some(last) => *last += &format!("\n{line}"),
                None => theirs.push(line),
            }
        }
        assert_eq!(theirs.len(), frames.len());
        let (mut right, mut wrong) = (0, 0);
        for ((name, frame), theirs) in frames.iter().zip(&theirs) {
            let ours = line_of(frame, frame.len(), Shown { link: false, verbose }).to_string();
            // tcpdump also prints lines for the packet inside a tunnel.
            let theirs = theirs.lines().take(2).collect::<Vec<_>>().join("\n");
            assert_eq!(sums(&ours), sums(&theirs), "{name} {flags}\n  ours    {ours}\n  tcpdump {theirs}");
            right += usize::from(theirs.contains("ok]") || theirs.contains("(correct)"));
            wrong += usize::from(["bad", "wrong", "incorrect"].iter().any(|word| theirs.contains(word)));
        }
        assert!(right >= verbose.into() && wrong >= 2, "{flags}: {right} right, {wrong} wrong");
    }
}

/// Returns the parts of a line about checksums, except IGMP's, which are printed without -v too.
fn sums(line: &str) -> Vec<&str> {
    let parts = line.split([',', '[', ']', '(', ')']).filter(|part| !part.to_lowercase().contains("igmp"));
    parts.filter(|part| part.contains("cksum") || part.contains("sum ok")).collect()
}

/// The fields that tcpdump 4.99 prints with -v, in the same order.
#[test]
fn verbose_lines_have_the_ip_headers_fields() {
    let verbose = Shown { link: false, verbose: 1 };
    let mut frame = vec![0; 12];
    frame.extend([8, 0]);
    frame.extend([0x45, 0x10, 0, 29, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 53, 0, 9, 0, 9, 0, 0, 1]);
    assert_eq!(
        line_of(&frame, frame.len(), verbose).to_string(),
        "IP (tos 0x10, ttl 64, id 7, offset 0, flags [DF], proto UDP (17), length 29, bad cksum 0 (->26b7)!)\n    \
         10.0.0.1.53 > 10.0.0.2.9: UDP, length 1"
    );
    assert_eq!(
        line_of(&frame, frame.len(), Shown { link: true, verbose: 1 }).to_string(),
        "00:00:00:00:00:00 > 00:00:00:00:00:00, ethertype IPv4 (0x0800), length 43: \
         (tos 0x10, ttl 64, id 7, offset 0, flags [DF], proto UDP (17), length 29, bad cksum 0 (->26b7)!)\n    \
         10.0.0.1.53 > 10.0.0.2.9: UDP, length 1"
    );
    let mut six = vec![0; 12];
    six.extend([0x86, 0xdd, 0x60, 1, 2, 3, 0, 9, 17, 255]);
    six.extend([0; 15]);
    six.push(1);
    six.extend([0; 15]);
    six.push(2);
    six.extend([0, 53, 0, 9, 0, 9, 0, 0, 1]);
    assert_eq!(
        line_of(&six, six.len(), verbose).to_string(),
        "IP6 (flowlabel 0x10203, hlim 255, next-header UDP (17) payload length: 9) ::1.53 > ::2.9: [no cksum] UDP, length 1"
    );
}
