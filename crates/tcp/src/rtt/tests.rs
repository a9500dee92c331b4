use super::*;

fn sampled(samples: &[u64]) -> Rtt {
    let mut rtt = Rtt::new(&Config::default());
    for (at, ms) in samples.iter().enumerate() {
        let seq = SeqNum(at as u32 * 10);
        rtt.sample(
            u32::try_from(ms.saturating_mul(1000)).unwrap_or(u32::MAX),
            seq,
            seq.plus(5),
            Instant::from_millis(at as u64),
        );
    }
    rtt
}

fn rto(rtt: &Rtt, backoff: u8) -> u128 {
    rtt.rto(backoff).as_millis()
}

#[test]
fn the_initial_rto_is_one_second() {
    let rtt = sampled(&[]);
    assert_eq!((rto(&rtt, 0), rtt.srtt(), rtt.min()), (1000, None, None));
    let mut lost = rtt.clone();
    lost.after_lost_syn();
    assert_eq!(rto(&lost, 0), 3000);
}

#[test]
fn the_first_sample_sets_srtt_and_half_of_it_as_rttvar() {
    let rtt = sampled(&[400]);
    assert_eq!((rtt.srtt(), rto(&rtt, 0)), (Some(Duration::from_millis(400)), 1200));
    assert_eq!(rto(&sampled(&[10]), 0), 210, "the floor is on the margin");
}

#[test]
fn srtt_moves_by_an_eighth() {
    assert_eq!(sampled(&[100, 180]).srtt(), Some(Duration::from_millis(110)));
}

#[test]
fn the_margin_grows_at_once_and_shrinks_by_a_quarter_a_round() {
    let steady = rto(&sampled(&[100; 50]), 0);
    assert_eq!(steady, 300);
    let grown = rto(&sampled(&[[100; 50].as_slice(), &[900]].concat()), 0);
    assert!((990..=1010).contains(&grown), "{grown}");
    let mut again = [100; 50].to_vec();
    again.push(900);
    again.extend([100; 60]);
    assert!(rto(&sampled(&again), 0) < 320);
}

#[test]
fn backoff_doubles_up_to_the_limit_and_overflows_nothing() {
    let rtt = sampled(&[100]);
    assert_eq!([1, 2, 3].map(|n| rto(&rtt, n)), [600, 1200, 2400]);
    assert_eq!(rto(&rtt, 255), 120_000);
    let wild = sampled(&[u64::MAX / 1_000_000, 0, u64::MAX / 1_000_000, 1]);
    assert!((200..=120_000).contains(&rto(&wild, 9)));
}

#[test]
fn the_minimum_expires_after_five_minutes() {
    let mut rtt = Rtt::new(&Config::default());
    let sample = |rtt: &mut Rtt, ms: u32, at| rtt.sample(ms * 1000, SeqNum(0), SeqNum(1), Instant::from_millis(at));
    sample(&mut rtt, 5, 1);
    sample(&mut rtt, 50, 1000);
    assert_eq!(rtt.min(), Some(Duration::from_millis(5)));
    sample(&mut rtt, 50, 302_000);
    assert_eq!(rtt.min(), Some(Duration::from_millis(50)));
}
