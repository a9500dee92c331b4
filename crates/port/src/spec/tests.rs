use super::*;
use proptest::prelude::*;

fn error(text: &str) -> String {
    Spec::parse(text).unwrap_err().to_string()
}

#[test]
fn the_documents_examples_parse() {
    let spec = Spec::parse("impair(loss=1%,delay=10ms):tap:tap0").unwrap();
    assert_eq!((spec.port.kind, spec.name.as_str(), spec.wrappers.len()), (Kind::Tap, "tap0", 1));
    assert_eq!(spec.wrappers[0].percent("loss").billionths(), 10_000_000);
    assert_eq!(spec.wrappers[0].duration("delay"), Duration::from_millis(10));
    assert_eq!(spec.wrappers[0].count("limit"), 1000, "the default");

    let spec = Spec::parse("tracer(file=x.pcapng):pktgen(size=22,rate=1M,flows=100):pg0").unwrap();
    assert_eq!(spec.wrappers[0].get_text("file").unwrap(), "x.pcapng");
    assert_eq!((spec.port.count("rate"), spec.port.count("flows")), (1_000_000, 100));

    for text in
        ["null:", "pair:a", "pktgen:pg0", "pcap:trace.pcapng", "pcap:-", "text:-", "text(write=a.out):a.in", "null():x"]
    {
        Spec::parse(text).unwrap();
    }
}

#[test]
fn a_name_may_hold_anything_after_the_last_kind() {
    let spec = Spec::parse("pcap(read=off):/tmp/a:b(c,d).pcap").unwrap();
    assert_eq!(spec.name, "/tmp/a:b(c,d).pcap");
    assert_eq!(Spec::parse("pcap:impair:x").unwrap().name, "impair:x");
}

#[test]
fn use_of_standard_output_is_detected() {
    for text in ["text:-", "text(write=-):in", "text(read=off):-", "pcap(write=-):a", "pcap(read=off):-"] {
        assert!(Spec::parse(text).unwrap().writes_stdout(), "{text}");
    }
    assert!(Spec::parse("impair:tracer(file=-):null:").unwrap().writes_stdout());
    for text in ["pcap:-", "text:in", "text(write=out):-", "null:-", "tracer(file=a):tap:x"] {
        assert!(!Spec::parse(text).unwrap().writes_stdout(), "{text}");
    }
}

#[test]
fn errors_name_position_and_expectation() {
    for (text, says) in [
        (
            "",
            "at byte 0: expected a kind of port: pktgen, null, pair, nic, tap, tun, packet, xdp, unix, pcap, text, tracer, impair",
        ),
        (
            "pktgn:x",
            "at byte 0: unknown kind 'pktgn' (did you mean 'pktgen'?); kinds: pktgen, null, pair, nic, tap, tun, packet, xdp, unix, pcap, text, tracer, impair",
        ),
        (
            "zebra:x",
            "at byte 0: unknown kind 'zebra'; kinds: pktgen, null, pair, nic, tap, tun, packet, xdp, unix, pcap, text, tracer, impair",
        ),
        (
            "impair:tpa:x",
            "at byte 7: unknown kind 'tpa' (did you mean 'tap'?); kinds: pktgen, null, pair, nic, tap, tun, packet, xdp, unix, pcap, text, tracer, impair",
        ),
        (
            "impair(los=1%):null:",
            "at byte 7: impair has no option 'los' (did you mean 'loss'?); options: loss, dup, corrupt, reorder, gap, delay, jitter, rate, limit, seed, dir",
        ),
        ("impair(loss=1):null:", "at byte 12: impair loss='1': expected a percentage such as 1% or 0.01%"),
        ("impair(loss=101%):null:", "at byte 12: impair loss='101%': expected a percentage such as 1% or 0.01%"),
        ("impair(delay=10):null:", "at byte 13: impair delay='10': expected a time such as 10us, 1.5ms or 2s"),
        ("impair(dir=up):null:", "at byte 11: impair dir='up': expected one of rx, tx, both"),
        ("pktgen(ttl=256):x", "at byte 11: pktgen ttl='256': expected a count from 0 to 255"),
        ("pktgen(count=1.0005k):x", "at byte 13: pktgen count='1.0005k': expected a count such as 100, 10k or 1M"),
        ("pktgen(id=yes):x", "at byte 10: pktgen id='yes': expected on or off"),
        ("pktgen(size):x", "at byte 7: expected option=value for pktgen, found 'size'"),
        ("pktgen(size=1,size=2):x", "at byte 19: pktgen size is given twice"),
        ("pktgen(size=1", "at byte 6: unbalanced '('"),
        ("pktgen(size=1(:x", "at byte 13: unbalanced '('"),
        ("pktgen):x", "at byte 6: unbalanced ')'"),
        ("pktgen(size=1)):x", "at byte 14: unbalanced ')'"),
        ("tracer(file=\"x):null:", "at byte 12: unbalanced '\"'"),
        ("pktgen", "at byte 6: expected ':' after pktgen, as in pktgen:NAME"),
        ("pktgen(size=1)x", "at byte 14: expected ':' after pktgen, as in pktgen:NAME"),
        ("tracer:null:", "tracer requires file=..."),
        (
            "impair:",
            "at byte 7: expected a kind of port: pktgen, null, pair, nic, tap, tun, packet, xdp, unix, pcap, text, tracer, impair",
        ),
        ("tap:", "tap cannot be named '': expected an interface name of 1 to 15 characters without / : and spaces"),
        (
            "tap:a/b",
            "tap cannot be named 'a/b': expected an interface name of 1 to 15 characters without / : and spaces",
        ),
        ("pcap:", "pcap cannot be named '': expected a file name, or - for standard input or output"),
        ("text:", "text cannot be named '': expected a file name, or - for standard input or output"),
        (
            "text(wirte=x):y",
            "at byte 5: text has no option 'wirte' (did you mean 'write'?); options: read, write, strict",
        ),
        ("unix:", "unix cannot be named '': expected the path of a socket, of at most 107 bytes"),
        ("unix(type=seqpacket):s", "at byte 10: unix type='seqpacket': expected one of stream, dgram"),
        ("null:a\nb", "null cannot be named 'a\\nb': expected a name without control characters, or none"),
    ] {
        assert_eq!(error(text), says, "{text}");
    }
    assert_eq!(error(&"x".repeat(5000)), "port name has 5000 bytes: at most 4096 are allowed");
    assert_eq!(error(&format!("{}null:", "impair:".repeat(9))), "at byte 56: more than 8 wrappers");
}

#[test]
fn unknown_kinds_are_rejected() {
    for kind in ["warp", "l2tp"] {
        assert!(matches!(Spec::parse(&format!("{kind}:x")), Err(SpecError::UnknownKind { .. })));
    }
}

#[test]
fn every_default_has_the_form_of_its_option() {
    for kind in Kind::ALL {
        for option in kind.info().options {
            match option.fallback {
                Fallback::Is(text) => {
                    let value = option.default().unwrap_or_else(|| panic!("{kind} {}={text}", option.name));
                    assert_eq!(option.form.parse(&value.to_string()), Some(value));
                }
                Fallback::Open | Fallback::Required => assert_eq!(option.default(), None),
            }
        }
    }
}

#[test]
fn values_print_in_their_largest_whole_unit() {
    let spec = Spec::parse("impair(delay=1500us,jitter=2000ms,rate=1.5M,limit=1000,loss=0.0100%):null:").unwrap();
    assert_eq!(spec.to_string(), "impair(delay=1500us,jitter=2s,rate=1500k,limit=1k,loss=0.01%):null:");
    let spec = Spec::parse("tracer( file = \"a,b (1).pcapng\" , snaplen=64 ):null:").unwrap();
    assert_eq!(spec.to_string(), "tracer(file=\"a,b (1).pcapng\",snaplen=64):null:");
}

#[test]
fn percentages_happen_at_their_rate() {
    assert!(!Percent::ZERO.happens(0) && Percent::ALL.happens(u64::MAX));
    assert!(Percent::from_billionths(500_000_000).happens(u64::MAX / 2));
    assert!(!Percent::from_billionths(500_000_000).happens(u64::MAX / 2 + 1));
}

fn value(form: Form) -> BoxedStrategy<Value> {
    match form {
        Form::Count { min, max } => (min..=max).prop_map(Value::Count).boxed(),
        Form::Rate => any::<u64>().prop_map(Value::Count).boxed(),
        Form::Duration => any::<u64>().prop_map(|ns| Value::Duration(Duration::from_nanos(ns))).boxed(),
        Form::Percent => (0..=1_000_000_000u32).prop_map(|n| Value::Percent(Percent::from_billionths(n))).boxed(),
        Form::Switch => any::<bool>().prop_map(Value::Switch).boxed(),
        Form::Mac => any::<[u8; 6]>().prop_map(|mac| Value::Mac(Mac(mac))).boxed(),
        Form::Ip => prop_oneof![
            any::<[u8; 4]>().prop_map(|ip| Value::Ip(ip.into())),
            any::<[u8; 16]>().prop_map(|ip| Value::Ip(ip.into())),
        ]
        .boxed(),
        Form::Word(words) => proptest::sample::select(words).prop_map(Value::Word).boxed(),
        Form::Text => "[ a-z,()=:%\"\\\\\u{e9}]{0,12}".prop_map(Value::Text).boxed(),
    }
}

fn layer(wrapper: bool) -> impl Strategy<Value = Layer> {
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kind.info().wrapper == wrapper).collect();
    proptest::sample::select(kinds).prop_flat_map(|kind| {
        let options: Vec<_> = kind
            .info()
            .options
            .iter()
            .map(|option| {
                let chance = if option.fallback == Fallback::Required { 0.999_999 } else { 0.4 };
                proptest::option::weighted(chance, value(option.form)).prop_map(move |v| v.map(|v| (option, v)))
            })
            .collect();
        options.prop_map(move |options| Layer { kind, options: options.into_iter().flatten().collect() })
    })
}

proptest! {
    #[test]
    fn printed_specs_parse_to_the_same(
        wrappers in proptest::collection::vec(layer(true), 0..4), port in layer(false), name in "[a-z0-9_.-]{1,15}"
    ) {
        prop_assume!(name != "." && name != "..");
        prop_assume!(wrappers.iter().all(|wrapper| wrapper.check_required().is_ok()));
        let spec = Spec { wrappers, port, name };
        prop_assert_eq!(Spec::parse(&spec.to_string()), Ok(spec));
    }

    #[test]
    fn any_text_parses_or_is_rejected(text in "([a-z]{0,6}|impair|tracer|null|[(),:=\"\\\\%0-9kM. \u{e9}]){0,24}") {
        if let Ok(spec) = Spec::parse(&text) {
            prop_assert_eq!(Spec::parse(&spec.to_string()), Ok(spec));
        }
    }
}
