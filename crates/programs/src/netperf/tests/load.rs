use super::*;
use apps::load::{Fileload, Files, Kvload, Load, Mix, Proportions, Service};
use apps::netperf::session::{FarEnd, Play, Turn};

const LINK: &str = "pair(slots=1024):p";

/// Runs the workloads one after the other against one service, with both ends on this thread;
/// returns the output of the last one. `look` is called with the service at the end.
fn play<M: Mix, const N: usize>(
    mixes: [M; N],
    clients: usize,
    depth: usize,
    json: bool,
    look: impl FnOnce(&M::App),
) -> String {
    let pairs = Pairs::new();
    let hosts = [host(1, LINK, &pairs), host(2, LINK, &pairs)];
    let (mut near, mut there) = (OurSockets::new(&hosts[0], Rest::Never), OurSockets::new(&hosts[1], Rest::Never));
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let (mut far, port) = Service::<M>::open_for_one(&mut there, any).unwrap();
    let mut round = |sockets: &mut OurSockets<'_, Up>, pace| {
        let now = there.step(pace);
        far.turn(&mut there, now);
        sockets.step(pace)
    };
    let at = SocketAddr::from(([10, 0, 0, 2], port));
    let mut out = Vec::new();
    let time = Duration::from_millis(400); // other processes may take the CPU for a while
    for mix in mixes {
        out.clear();
        Load { mix, time, clients, depth, json, out: &mut out, report: None }.near(&mut near, &mut round, at).unwrap();
    }
    for _ in 0..100 {
        round(&mut near, Pace::Go);
    }
    look(&far.app);
    for host in &hosts {
        assert_eq!(host.stack.audit(host.cx()).imbalance(), 0);
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn the_key_value_workload_fills_and_queries() {
    let proportions = Proportions { keys: 1050, value: 20, ..Proportions::default() };
    let text = play([Kvload::new(proportions)], 3, 4, false, |kv| {
        assert_eq!((kv.keys(), kv.clients(), kv.counts.unserved.get()), (1050, 0, 0));
        assert!(kv.counts.requests.get() > 100);
    });
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "kvload: 90 % GET, 10 % SET, 1050 keys (Zipf 0.99), values of 20 bytes; 3 clients, 4 in flight each"
    );
    let seconds = lines[1].split_once(" requests in ").and_then(|(_, rest)| rest.split_once(" s: ")).unwrap().0;
    assert!(seconds.parse::<f64>().unwrap() >= 0.1 && lines[1].ends_with(" requests/s"), "{text}");
    assert_eq!(
        lines[2].split_whitespace().collect::<Vec<_>>(),
        ["usec", "requests", "p50", "p90", "p99", "p99.9", "p99.99"]
    );
    let heads: Vec<&str> = lines[3..].iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(heads, ["all", "GET", "SET"], "{text}");
    let json = play([Kvload::new(proportions)], 1, 1, true, |_| ());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["workload"], "kvload");
    let (all, gets) =
        (json["times"]["all"]["requests"].as_f64().unwrap(), json["times"]["GET"]["requests"].as_f64().unwrap());
    assert!((0.8..0.97).contains(&(gets / all)), "{json}");
}

/// A client that pauses before each request.
struct Slow(Kvload);

const THINKS: Duration = Duration::from_millis(5);

impl Mix for Slow {
    type App = <Kvload as Mix>::App;

    const PORT: u16 = Kvload::PORT;
    const NAME: &'static str = Kvload::NAME;
    const KINDS: &'static [&'static str] = Kvload::KINDS;

    fn app() -> Self::App {
        Kvload::app()
    }

    fn fill(&mut self, out: &mut Vec<u8>) -> bool {
        self.0.fill(out)
    }

    fn ask(&mut self, client: usize, out: &mut Vec<u8>) -> usize {
        std::thread::sleep(THINKS);
        self.0.ask(client, out)
    }

    fn on_reply(&mut self, client: usize, kind: Option<usize>, bytes: &[u8]) -> anyhow::Result<Option<usize>> {
        self.0.on_reply(client, kind, bytes)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

#[test]
fn latency_is_measured_from_writing_the_request() {
    let mix = Slow(Kvload::new(Proportions { keys: 10, value: 20, ..Proportions::default() }));
    let json: serde_json::Value = serde_json::from_str(&play([mix], 1, 1, true, |_| ())).unwrap();
    let all = &json["times"]["all"];
    assert!(all["requests"].as_u64() > Some(2), "{json}");
    assert!(
        all["p50_us"].as_f64().unwrap() < THINKS.as_micros() as f64,
        "what was thought before is not counted: {json}"
    );
}

#[test]
fn files_of_an_earlier_run_are_reused() {
    let files = |count| Fileload::new(Files { count, transfers: 2 });
    let text = play([files(20), files(30)], 3, 4, false, |filed| {
        assert!(filed.counts.unserved.get() >= 20, "CREATE of what exists");
        assert!((31..31 + 25).contains(&filed.nodes()), "{}", filed.nodes());
    });
    assert!(text.starts_with("fileload: ") && text.contains("; 30 files of 16 KiB"), "{text}");
}

#[test]
fn the_file_workload_fills_and_queries() {
    let text = play([Fileload::new(Files { count: 30, transfers: 2 })], 3, 4, false, |filed| {
        assert_eq!(filed.counts.unserved.get(), 0);
        assert!(filed.counts.requests.get() > 200 && (31..31 + 13).contains(&filed.nodes()), "{}", filed.nodes());
    });
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("fileload: 28 % LOOKUP, 42 % GETATTR, "), "{text}");
    let counts: Vec<(&str, f64)> = lines[3..]
        .iter()
        .map(|line| {
            let mut words = line.split_whitespace();
            (words.next().unwrap(), words.next().unwrap().parse().unwrap())
        })
        .collect();
    let kinds: Vec<&str> = counts.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, ["all", "LOOKUP", "GETATTR", "READ", "WRITE", "CREATE", "REMOVE"]);
    for ((kind, count), share) in counts[1..5].iter().zip([0.28, 0.42, 0.18, 0.10]) {
        let got = count / counts[0].1;
        assert!((got - share).abs() < 0.06, "{kind}: {got} of all, and {share} wanted");
    }
}
