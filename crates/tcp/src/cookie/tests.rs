use super::*;
use proptest::prelude::*;
use wire::L4Port;

const KEY: Key = Key(11, 22);
const ENDS: Ends = Ends { local: 1, remote: 2, local_port: L4Port(80), remote_port: L4Port(40_000) };
const IRS: SeqNum = SeqNum(0xdead_beef);
const PLAIN: Remembered = Remembered { mss: 1460, wscale: None, sack: false, ecn: false };
const FULL: Remembered = Remembered { mss: 1460, wscale: Some(7), sack: true, ecn: true };

fn at(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1000)
}

proptest! {
    #[test]
    fn a_cookie_round_trips(
        local: u128, remote: u128, ports: (u16, u16), irs: u32, tsval: Option<u32>, mss in 0u16..,
        wscale in prop::option::of(0u8..=14), flags: (bool, bool), start in 0..1u64 << 40, after in 0..60_000u64,
    ) {
        let cookies = Cookies::new(KEY);
        let ends = Ends { local, remote, local_port: L4Port(ports.0), remote_port: L4Port(ports.1) };
        let syn = Remembered { mss, wscale, sack: flags.0, ecn: flags.1 };
        let now = Instant::from_millis(start);
        let (iss, sent) = cookies.make(&ends, SeqNum(irs), &syn, tsval, now);
        let back = cookies.check(&ends, iss, SeqNum(irs), tsval.map(|_| sent), now.after(Duration::from_millis(after)));
        let back = back.expect("within a minute");
        prop_assert!(MSS_TABLE.contains(&back.mss) && (back.mss <= mss || back.mss == MSS_TABLE[0]));
        match tsval {
            None => prop_assert_eq!(Remembered { mss: back.mss, ..PLAIN }, back),
            Some(tsval) => {
                prop_assert_eq!(Remembered { mss: back.mss, ..syn }, back);
                prop_assert!(tsval.wrapping_sub(sent) < 64, "not ahead of the clock, and not far behind");
            }
        }
    }
}

#[test]
fn a_cookie_lives_for_less_than_two_minutes() {
    let cookies = Cookies::new(KEY);
    for made in [0, 1, 59, 60, 61, 119] {
        let (iss, _) = cookies.make(&ENDS, IRS, &PLAIN, None, at(made));
        let good = |age| cookies.check(&ENDS, iss, IRS, None, at(made + age)) == Some(PLAIN);
        assert!((0..=60).all(good), "made at {made}");
        assert!(!(120..1_000).any(good), "made at {made}");
    }
}

#[test]
fn a_cookie_is_valid_for_one_connection_only() {
    let cookies = Cookies::new(KEY);
    let (iss, ts) = cookies.make(&ENDS, IRS, &FULL, Some(1_000_000), at(5));
    let check = |ends: &Ends, iss, irs, ts| cookies.check(ends, iss, irs, ts, at(5));
    assert_eq!(check(&ENDS, iss, IRS, Some(ts)), Some(FULL));
    let others = [
        Ends { local: 3, ..ENDS },
        Ends { remote: 3, ..ENDS },
        Ends { local_port: L4Port(81), ..ENDS },
        Ends { remote_port: L4Port(40_001), ..ENDS },
    ];
    for other in others {
        assert_eq!(check(&other, iss, IRS, Some(ts)), None);
    }
    assert_eq!(check(&ENDS, iss, IRS.plus(1), Some(ts)), None, "another SYN");
    assert_eq!(check(&ENDS, iss, IRS, None), None, "timestamps were on");
    for bit in 0..6 {
        assert_eq!(check(&ENDS, iss, IRS, Some(ts ^ 1 << bit)), None, "options are not the peer's to choose");
    }
    for bit in 0..32 {
        assert_eq!(check(&ENDS, SeqNum(iss.0 ^ 1 << bit), IRS, Some(ts)), None, "nor the MSS");
    }
}

/// An ACK flood with guessed cookies (no CVE; the attack is as old as SYN cookies).
#[test]
fn guessed_cookies_are_rejected() {
    let cookies = Cookies::new(KEY);
    let guess = |n: u64| SeqNum(Key(5, 6).sip13(&[n]) as u32);
    let taken = (0..1_000_000).filter(|n| cookies.check(&ENDS, guess(*n), IRS, None, at(61)).is_some()).count();
    assert!(taken <= 1, "{taken} of 10^6; one in 2^28 is expected");
}

#[test]
fn cookies_in_flight_survive_a_change_of_secret() {
    let mut cookies = Cookies::new(KEY);
    let (iss, _) = cookies.make(&ENDS, IRS, &PLAIN, None, at(59));
    cookies.rotate(Key(33, 44), at(59));
    let (fresh, _) = cookies.make(&ENDS, IRS, &PLAIN, None, at(59));
    assert_ne!(iss, fresh);
    for cookie in [iss, fresh] {
        assert_eq!(cookies.check(&ENDS, cookie, IRS, None, at(100)), Some(PLAIN));
    }
    cookies.rotate(Key(55, 66), at(100));
    assert_eq!(cookies.check(&ENDS, iss, IRS, None, at(100)), None, "two changes ago");
    assert_eq!(cookies.check(&ENDS, fresh, IRS, None, at(100)), Some(PLAIN));
}

#[test]
fn small_and_absent_mss_are_raised_to_the_floor() {
    let index = |mss| MSS_TABLE[mss_index(mss) as usize];
    assert_eq!(
        [0, 48, 216, 535, 536, 1459, 1460, 9000, u16::MAX].map(index),
        [48, 48, 216, 216, 536, 1440, 1460, 8940, 8940]
    );
}

/// Returns, for each of the low `bits` bits, in how many of 4096 numbers it is set.
fn ones(bits: u32, number: impl Fn(u64) -> u32) -> Vec<u32> {
    let numbers: Vec<u32> = (0..4096).map(number).collect();
    (0..bits).map(|bit| numbers.iter().map(|number| number >> bit & 1).sum()).collect()
}

/// Returns whether each bit is set half of the time, give or take five standard deviations (32
/// each).
fn is_even(ones: &[u32]) -> bool {
    ones.iter().all(|ones| (1888..=2208).contains(ones))
}

/// RFC 4987 3.6: an attacker must guess each bit of the MAC, so no bit may be the same under every
/// key.
#[test]
fn every_bit_of_the_mac_depends_on_the_secret() {
    let key = |n: u64| Key(n, 7).derive(n);
    let mac = |key: Key, ends: &Ends, irs, slot, mss, bits| {
        let cookie = bake(key, ends, irs, slot, mss, bits);
        cookie.since(SeqNum(hash(key, ends, BLIND, 0))) & MAC_MASK
    };
    let by_key = ones(MAC_BITS, |n| mac(key(n), &ENDS, IRS, 3, 5, None));
    assert!(is_even(&by_key), "{by_key:?}");
    assert_eq!(MAC_BITS, 28, "a forged cookie is taken once in 2^28");
    // Under one key each bit depends on each input of the cookie.
    let of = |n: u64, what: usize| match what {
        0 => mac(KEY, &Ends { remote: n.into(), ..ENDS }, IRS, 3, 5, None),
        1 => mac(KEY, &Ends { local: n.into(), ..ENDS }, IRS, 3, 5, None),
        2 => mac(KEY, &Ends { remote_port: L4Port(n as u16), ..ENDS }, IRS, 3, 5, None),
        3 => mac(KEY, &Ends { local_port: L4Port(n as u16), ..ENDS }, IRS, 3, 5, None),
        4 => mac(KEY, &ENDS, SeqNum(n as u32), 3, 5, None),
        5 => mac(KEY, &ENDS, IRS, n, 5, None),
        6 => mac(KEY, &ENDS, SeqNum((n / 8) as u32), 3, (n % 8) as u32, None),
        _ => mac(KEY, &ENDS, SeqNum((n / 64) as u32), 3, 5, Some((n % 64) as u32)),
    };
    for what in 0..8 {
        let by_input = ones(MAC_BITS, |n| of(n, what));
        assert!(is_even(&by_input), "{what}: {by_input:?}");
    }
}

/// A cookie cannot be distinguished from another ISN: each of its 32 bits is set as often as not.
#[test]
fn every_bit_of_a_cookie_is_uniform() {
    let by_key = ones(32, |n| Cookies::new(Key(n, 1).derive(n)).make(&ENDS, IRS, &PLAIN, None, at(5)).0.0);
    assert!(is_even(&by_key), "{by_key:?}");
    let cookies = Cookies::new(KEY);
    let by_peer = ones(32, |n| cookies.make(&Ends { remote: n.into(), ..ENDS }, IRS, &PLAIN, None, at(5)).0.0);
    assert!(is_even(&by_peer), "{by_peer:?}");
}
