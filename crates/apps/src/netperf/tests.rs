use super::confidence::{ConfidenceGoal, Runs};
use super::report::{self, Style};
use super::*;

fn counted(test: Test, count: u64) -> Options {
    Options { length: Length::Count(count), ..Options::new(test) }
}

#[test]
fn wrong_sizes_are_refused() {
    let refused = |options: Options| options.check().unwrap_err();
    let new = Options::new;
    assert!(refused(Options { request: 0, ..new(Test::TcpRr) }).contains("-r 0"));
    assert!(refused(Options { send_size: Some(65_508), ..new(Test::UdpStream) }).contains("65507"));
    assert!(refused(Options { burst: 3, ..new(Test::TcpCrr) }).contains("-b"));
    assert!(refused(counted(Test::UdpStream, 5)).contains("-l"));
    assert!(refused(counted(Test::TcpRr, 0)).contains("-l"));
}

fn sample(test: Test) -> Outcome {
    Outcome {
        test,
        elapsed: 10.004,
        preempted: 0.0,
        near: sockets::Sizes { send: 16_384, recv: 131_072 },
        far: sockets::Sizes { send: 16_385, recv: 87_380 },
        send_size: 16_384,
        recv_size: 87_380,
        request: 1,
        response: 1,
        burst: 0,
        messages: 123_456,
        errors: 2,
        bytes: 1_176_470_400,
        tally: control::Tally { bytes: 1_000_000_000, messages: 100_000, calls: 20_000, failed: None },
        times: None,
        cut: false,
    }
}

fn style(headers: bool, verbosity: u8) -> Style {
    Style { headers, verbosity, host: "10.0.0.2".to_owned(), address: "10.0.0.2".to_owned() }
}

#[test]
fn columns_match_netperf() {
    let stream = report::figures(&style(true, 1), &sample(Test::TcpStream));
    let expected = "\
Recv   Send    Send                          \n\
Socket Socket  Message  Elapsed              \n\
Size   Size    Size     Time     Throughput  \n\
bytes  bytes   bytes    secs.    10^6bits/sec  \n\
\n\
\x2087380  16384  16384    10.00     940.80   \n";
    assert_eq!(stream, expected);
    let maerts = report::figures(&style(false, 1), &sample(Test::TcpMaerts));
    assert_eq!(maerts, "131072  16385  16384    10.00     940.80   \n");
    let rr = report::figures(&style(false, 1), &sample(Test::TcpRr));
    assert_eq!(rr, "16384  131072 1        1       10.00    12340.66   \n16385  87380 \n");
    let udp = report::figures(&style(false, 1), &sample(Test::UdpStream));
    let lines = [
        " 16384   16384   10.00      123456      2     940.80",
        " 87380           10.00      100000            799.68",
        "",
        "",
    ];
    assert_eq!(udp, lines.join("\n"));
    assert_eq!(report::figures(&style(true, 0), &sample(Test::TcpStream)), " 940.80 \n");
    assert_eq!(report::figures(&style(true, 0), &sample(Test::TcpCrr)), "12340.66\n");
}

#[test]
fn banners_and_the_warning_match_netperf() {
    let wish = ConfidenceGoal { min: 3, max: 10, level: 99, width: 0.05 };
    let options = Options { nodelay: true, burst: 4, ..Options::new(Test::TcpRr) };
    assert_eq!(
        report::banner(&style(true, 1), &options, Some(&wish)),
        "TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.2 (10.0.0.2) port 0 AF_INET \
         : +/-2.500% @ 99% conf.  : nodelay : first burst 4\n"
    );
    let mut runs = Runs::default();
    [100.0, 102.0, 104.0].into_iter().for_each(|figure| runs.add(figure));
    let block = report::warning(&runs, &ConfidenceGoal { level: 95, ..wish });
    assert!(block.contains("!!! Confidence intervals: Throughput      : 9.743%\n"), "{block}");
    // CPU utilization is not measured: no row, and no misleading 0.000 %.
    assert!(block.ends_with(": 9.743%\n\n") && !block.contains("CPU"), "{block}");
    let more = report::figures(&style(false, 2), &sample(Test::TcpStream));
    assert!(more.contains("    8       8      0       0 1.176e+09  9529.47    123456   58823.52  20000\n"), "{more}");
}

#[test]
fn json_contains_all_results() {
    let mut runs = Runs::default();
    runs.add(1.0);
    let found = report::json(&style(true, 1), &sample(Test::UdpStream), &runs, None);
    assert_eq!(
        (&found["test"], &found["errors"], &found["received"]["messages"]),
        (&"UDP_STREAM".into(), &2.into(), &100_000.into())
    );
    let mean = report::mean(&[sample(Test::TcpRr), Outcome { messages: 100_000, ..sample(Test::TcpRr) }]).unwrap();
    assert_eq!(mean.messages, 111_728);
    assert!(report::mean(&[]).is_none());
}
