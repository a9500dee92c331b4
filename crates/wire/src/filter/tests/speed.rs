//! Cost of a match. Run it with
//! `cargo test --release -p linerate-wire filter::tests::speed -- --ignored --nocapture`

use super::frames;
use crate::filter::Filter;
use std::hint::black_box;
use std::time::Instant;

/// Prints the nanoseconds per frame: the median of 25 trials, over frames cut or padded to 64
/// bytes.
#[test]
#[ignore = "a measurement"]
fn cost_of_a_match() {
    let frames: Vec<Vec<u8>> = (frames::whole().into_iter())
        .map(|(_, mut frame)| {
            frame.resize(64, 0);
            frame
        })
        .collect();
    let ten = "tcp port 443 or udp port 53 or icmp or arp or host 10.0.0.1 or net 192.168.0.0/16 or ip6 or vlan 100 \
               or tcp[tcpflags] & tcp-syn != 0 or len > 1500";
    let all = "ip and not host 10.0.0.1 and not net 192.168.0.0/16 and not port 22 and not icmp and greater 60 and \
               not broadcast and ip[8] > 1 and not portrange 5000-5100 and ether src 02:00:00:00:00:01";
    let udp: Vec<Vec<u8>> = frames.iter().take(1).cycle().take(frames.len()).cloned().collect();
    let tcp443 = frames::whole().into_iter().find(|(name, _)| name == "tcp 40000 443").unwrap().1;
    let tcp = vec![tcp443; frames.len()];
    for text in
        ["ip", "tcp port 443", "port 443", "port 22 or 53 or 80 or 443", ten, all, "ip[2:2] - 4 * (ip[0] & 15) > 20"]
    {
        let filter = Filter::compile(text).unwrap();
        for (mix, frames) in [("mixed", &frames), ("all alike, UDP", &udp), ("all alike, TCP 443", &tcp)] {
            let mut trials: Vec<f64> = (0..25)
                .map(|_| {
                    let rounds = 200;
                    let begun = Instant::now();
                    for _ in 0..rounds {
                        for frame in black_box(frames) {
                            black_box(filter.matches(frame));
                        }
                    }
                    begun.elapsed().as_nanos() as f64 / f64::from(rounds) / frames.len() as f64
                })
                .collect();
            trials.sort_by(f64::total_cmp);
            let insns = filter.insns.len();
            println!("{:6.2} ns ({:5.2} least) {insns:3} insns, {mix}: {text}", trials[12], trials[0]);
        }
    }
}
