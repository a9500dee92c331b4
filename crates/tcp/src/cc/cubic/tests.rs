use super::*;
use crate::SeqNum;

const MSS: u32 = 1460;

fn ack(bytes: u32) -> Ack {
    Ack {
        bytes,
        prior_in_flight: 0,
        limit_growth: true,
        in_flight: 0,
        rtt_us: None,
        round_start: false,
        cwnd_limited: true,
        in_recovery: false,
        snd_una: SeqNum(0),
        snd_nxt: SeqNum(0),
    }
}

/// Returns a connection that had a loss at `w_max` segments and has recovered.
fn reduced(w_max: u32) -> Cubic {
    let mut cc = Cubic::new(MSS as u16, 10 * MSS);
    cc.set_cwnd(w_max * MSS);
    cc.on_congestion(cc.cwnd(), Signal::Loss, Instant::ZERO);
    cc.set_cwnd(cc.ssthresh());
    cc.on_recovery_exit(Instant::ZERO);
    cc
}

/// A path on which one ACK covers two segments and each round trip carries `cwnd` bytes.
struct Path {
    now: Instant,
    rtt: Duration,
}

impl Path {
    fn new(rtt_ms: u64) -> Path {
        Path { now: Instant::from_millis(1), rtt: Duration::from_millis(rtt_ms) }
    }

    fn round(&mut self, cc: &mut Cubic) {
        let acks = (cc.cwnd() / (2 * MSS)).max(1);
        for nth in 0..acks {
            self.now = self.now.after(self.rtt / acks);
            cc.on_ack(
                &Ack { rtt_us: Some(self.rtt.as_micros() as u32), round_start: nth == 0, ..ack(2 * MSS) },
                self.now,
            );
        }
    }

    fn seconds(&mut self, cc: &mut Cubic, seconds: f64) {
        let until = self.now.after(Duration::from_secs_f64(seconds));
        while self.now < until {
            self.round(cc);
        }
    }
}

/// RFC 9438 4.2 in floating point: window in segments at `t` seconds.
fn formula(t: f64, w_max: f64, cwnd_epoch: f64) -> f64 {
    let k = ((w_max - cwnd_epoch) / 0.4).cbrt();
    0.4 * (t - k).powi(3) + w_max
}

#[test]
fn the_curve_follows_its_formula() {
    for (w_max, mss) in [(10u32, 1460u32), (100, 536), (1_000, 1460), (40_000, 8_940), (400, 48)] {
        let (top, begin) = (w_max * mss, w_max * mss / 10 * 7);
        let epoch = Epoch::begin(begin, top, mss);
        for tenths in 0..600u32 {
            let t = f64::from(tenths) / 10.0;
            let expected = formula(t, f64::from(w_max), f64::from(begin) / f64::from(mss)) * f64::from(mss);
            let got = f64::from(epoch.w_cubic(ticks(Duration::from_secs_f64(t).as_nanos() as u64), mss));
            if expected < 4e9 {
                assert!((got / expected - 1.0).abs() < 1e-3, "w_max {w_max} mss {mss} t {t}: {got} for {expected}");
            }
        }
    }
}

#[test]
fn the_window_follows_the_curve_within_a_percent() {
    for (w_max, rtt_ms) in [(2_000, 50), (5_000, 100), (10_000, 20)] {
        let mut cc = reduced(w_max);
        let begin = f64::from(cc.cwnd()) / f64::from(MSS);
        assert!((begin / f64::from(w_max) - 0.7).abs() < 1e-3);
        let mut path = Path::new(rtt_ms);
        cc.on_ack(&ack(1), path.now); // the stage begins with its first ACK
        let start = path.now.nanos() as f64 / 1e9;
        let k = ((f64::from(w_max) - begin) / 0.4).cbrt();
        while (path.now.nanos() as f64 / 1e9) < start + 1.6 * k {
            path.round(&mut cc);
            let t = path.now.nanos() as f64 / 1e9 - start;
            let (got, expected) = (f64::from(cc.cwnd()) / f64::from(MSS), formula(t, f64::from(w_max), begin));
            assert!((got / expected - 1.0).abs() < 0.01, "w_max {w_max}, t {t:.3} of K {k:.3}: {got} for {expected}");
        }
    }
}

#[test]
fn on_a_short_path_it_behaves_like_reno() {
    // 20 segments at 10 ms: K is 2.5 s, in which Reno would grow 100 times
    let mut cc = reduced(20);
    let mut path = Path::new(10);
    path.seconds(&mut cc, 0.5);
    let segments = f64::from(cc.cwnd()) / f64::from(MSS);
    let cubic = formula(0.5, 20.0, 14.0);
    // alpha (0.53) of a segment in each of 50 round trips, a whole segment from 20 segments on
    let reno = 20.0 + (50.0 - 6.0 / (9.0 / 17.0));
    assert!(segments > cubic + 10.0, "{segments} is no more than the curve's {cubic}");
    assert!((segments / reno - 1.0).abs() < 0.05, "{segments} for {reno}");
}

#[test]
fn an_idle_or_recovering_sender_does_not_grow() {
    for mut cc in [Cubic::new(MSS as u16, 10 * MSS), reduced(100)] {
        let before = cc.cwnd();
        for ms in 1..100 {
            cc.on_ack(&Ack { in_recovery: true, ..ack(2 * MSS) }, Instant::from_millis(ms * 50));
            cc.on_ack(&Ack { cwnd_limited: false, ..ack(2 * MSS) }, Instant::from_millis(ms * 50));
        }
        assert_eq!(cc.cwnd(), before);
    }
}

#[test]
fn a_reduction_leaves_seven_tenths_of_the_flight_and_at_least_two_segments() {
    let mut cc = Cubic::new(MSS as u16, 100 * MSS);
    cc.on_congestion(90 * MSS, Signal::Ecn, Instant::ZERO);
    assert_eq!((cc.ssthresh(), cc.cwnd()), (63 * MSS, 100 * MSS), "the window is recovery's to move");
    cc.on_congestion(MSS, Signal::Loss, Instant::ZERO);
    assert_eq!(cc.ssthresh(), 2 * MSS);
}

#[test]
fn fast_convergence_releases_bandwidth() {
    let mut cc = reduced(1_000);
    assert_eq!(cc.w_max, 1_000 * MSS);
    cc.set_cwnd(800 * MSS); // another loss, below the old plateau
    cc.on_congestion(800 * MSS, Signal::Loss, Instant::ZERO);
    assert_eq!((cc.w_max, cc.cwnd_prior), (680 * MSS, 800 * MSS));
    cc.set_cwnd(900 * MSS); // and another, above the new one
    cc.on_congestion(900 * MSS, Signal::Loss, Instant::ZERO);
    assert_eq!(cc.w_max, 900 * MSS);
}

#[test]
fn time_in_which_the_window_is_not_used_does_not_count() {
    let (mut busy, mut lazy) = (reduced(2_000), reduced(2_000));
    let (mut one, mut other) = (Path::new(50), Path::new(50));
    one.seconds(&mut busy, 4.0);
    other.seconds(&mut lazy, 2.0);
    for _ in 0..1_000 {
        other.now = other.now.after(Duration::from_millis(50));
        lazy.on_ack(&Ack { cwnd_limited: false, ..ack(MSS) }, other.now);
    }
    other.seconds(&mut lazy, 2.0);
    let ratio = f64::from(lazy.cwnd()) / f64::from(busy.cwnd());
    assert!((ratio - 1.0).abs() < 0.005, "50 s of little use made a difference: {ratio}");
}

#[test]
fn undo_restores_the_epoch() {
    let mut cc = reduced(2_000);
    let mut path = Path::new(50);
    path.seconds(&mut cc, 8.0);
    let (cwnd, ssthresh, w_max, epoch) = (cc.cwnd(), cc.ssthresh(), cc.w_max, cc.epoch);
    assert!(epoch.is_some());
    for rto in [false, true] {
        match rto {
            true => cc.on_rto(cwnd, true, path.now),
            false => cc.on_congestion(cwnd, Signal::Loss, path.now),
        }
        cc.set_cwnd(cc.cwnd().min(cc.ssthresh()));
        assert!(cc.cwnd() < cwnd);
        cc.undo();
        assert_eq!((cc.cwnd(), cc.ssthresh(), cc.w_max, cc.epoch), (cwnd, ssthresh, w_max, epoch));
    }
    path.now = path.now.after(Duration::from_secs(30));
    path.round(&mut cc);
    assert!(cc.cwnd() < cwnd + cwnd / 50, "the time that the event took is not made up for at once");
}

#[test]
fn after_a_timeout_slow_start_runs_without_a_plateau() {
    let mut cc = reduced(1_000);
    let mut path = Path::new(50);
    cc.on_rto(700 * MSS, true, path.now);
    assert_eq!((cc.cwnd(), cc.ssthresh()), (MSS, 490 * MSS));
    cc.on_rto(MSS, false, path.now);
    assert_eq!((cc.cwnd(), cc.ssthresh()), (MSS, 490 * MSS), "the second in a row does not cut again");
    cc.on_ack(&ack(10 * MSS), path.now);
    assert_eq!(cc.cwnd(), 2 * MSS, "one segment an ACK (RFC 3465 2.3)");
    while cc.cwnd() < cc.ssthresh() {
        path.round(&mut cc);
    }
    path.round(&mut cc);
    let epoch = cc.epoch.unwrap();
    assert_eq!(epoch.k, 0);
    assert!(epoch.origin.get() < 500 * MSS);
}

#[test]
fn slow_start_ends_when_the_round_trip_grows() {
    let mut cc = Cubic::new(MSS as u16, 10 * MSS);
    let mut path = Path::new(40);
    for _ in 0..4 {
        path.round(&mut cc);
    }
    let before = cc.cwnd();
    assert!(before >= 150 * MSS, "doubled four times: {}", before / MSS);
    path.rtt = Duration::from_millis(60);
    let mut rounds = 0;
    while cc.ssthresh() == u32::MAX {
        path.round(&mut cc);
        rounds += 1;
    }
    assert!((6..=7).contains(&rounds), "{rounds} rounds: one to see it, five of care");
    assert!(cc.cwnd() < before * 4, "a quarter of slow start's growth");
}

#[test]
fn idleness_shrinks_the_window_to_the_restart_window() {
    let mut cc = reduced(1_000);
    let rto = Duration::from_millis(300);
    cc.on_idle_restart(Duration::from_millis(700), rto);
    assert_eq!(cc.cwnd(), 175 * MSS, "halved for each RTO");
    assert!(cc.ssthresh() >= 525 * MSS, "and remembers");
    let mut cc = Cubic::new(MSS as u16, 10 * MSS);
    cc.set_cwnd(500 * MSS);
    cc.on_idle_restart(Duration::from_secs(3600), rto);
    assert_eq!(cc.cwnd(), 10 * MSS);
}

#[test]
fn random_input_breaks_no_invariant() {
    for mss in [0, 1, 48, u16::MAX] {
        let mut cc = Cubic::new(mss, 0);
        let mut now = Instant::ZERO;
        for bytes in [0, 1, u32::MAX, 7, u32::MAX, u32::MAX] {
            for rtt_us in [None, Some(0), Some(u32::MAX)] {
                now = now.after(Duration::from_secs(1 << 20));
                cc.on_ack(&Ack { rtt_us, round_start: true, ..ack(bytes) }, now);
                cc.on_congestion(bytes, Signal::Loss, now);
                cc.set_cwnd(cc.ssthresh());
                cc.on_recovery_exit(now);
                cc.on_ack(&Ack { rtt_us, ..ack(bytes) }, now);
                cc.on_ack(&Ack { rtt_us, ..ack(bytes) }, Instant::NEVER);
                cc.on_rto(bytes, true, now);
                cc.undo();
                cc.on_idle_restart(Duration::MAX, Duration::ZERO);
                assert!(cc.cwnd() >= u32::from(mss.max(1)));
            }
        }
    }
}
