use super::*;

/// Runs `body` on each seed, on each seed with one byte changed, and on the whole corpus. Writes
/// the seeds to disk if the repository is writable.
fn hold(target: &str, seeds: &[(&str, &str)], body: fn(&[u8])) {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let writable = std::fs::create_dir_all(&dir).is_ok();
    for (name, seed) in seeds {
        println!("{name}");
        body(seed.as_bytes());
        let path = dir.join(name);
        if writable && std::fs::read(&path).ok().as_deref() != Some(seed.as_bytes()) {
            std::fs::write(&path, seed).unwrap();
        }
        for at in (0..seed.len()).step_by(1 + seed.len() / 40) {
            for byte in [0, b' ', b'9', 0xff] {
                let mut damaged = seed.as_bytes().to_vec();
                damaged[at] = byte;
                body(&damaged);
            }
        }
    }
    for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
        body(&std::fs::read(entry.path()).unwrap());
    }
}

/// Accepted `ss` filters, each with the sockets that it selects from those on ports 7, 80 and 1024.
const SS_FILTERS: &[(&str, &[u16])] = &[
    ("ss -a sport < :80", &[7]),
    ("ss -a sport <= :80", &[7, 80]),
    ("ss -a sport > 80", &[1024]),
    ("ss -a sport >= 80 and sport lt 1024", &[80]),
    ("ss -a sport = :7 or sport = :1024", &[7, 1024]),
    ("ss -a not sport eq :80", &[7, 1024]),
    ("ss -a ! sport != :80", &[80]),
    ("ss -a ( sport = :7 or sport = :80 ) and not ( sport = :80 )", &[7]),
    ("ss -a (sport < 80 | sport > 80) & dport = :0", &[7, 1024]),
    ("ss '( ( sport gt :7 ) && ! ( sport ge :1024 ) )' state all", &[80]),
    ("ss exclude established src 0.0.0.0:7 || src *:80", &[7, 80]),
    ("-j ss -a not ( not sport = :1024 )", &[1024]),
];
/// Rejected `ss` filters.
const SS_REFUSED: &[&str] = &[
    "ss (",
    "ss ( sport = :7",
    "ss sport = :7 )",
    "ss ( )",
    "ss not",
    "ss or sport = :7",
    "ss sport = :7 or",
    "ss sport < > :7",
    "ss sport <",
    "ss sport < :65536",
    "ss src < 10.0.0.1",
    "ss sport =< :7",
];

#[test]
fn filters_of_ss_select_sockets() {
    let run = |line: &str| {
        let pairs = Pairs::new();
        let host = host_with_sockets(&pairs);
        // The control socket supports only double quotes.
        let split = line::split(line.replace('\'', "\"").as_bytes()).unwrap();
        let words: Vec<&str> = split.iter().map(String::as_str).filter(|word| *word != "-j").collect();
        let outcome = host::run(&host, &pairs, &words, true);
        host.stack.shutdown(host.cx());
        outcome
    };
    for (line, wanted) in SS_FILTERS {
        let sockets: serde_json::Value = serde_json::from_str(&run(line).unwrap()).unwrap();
        let ports = sockets.as_array().unwrap().iter().map(|socket| socket["local_port"].as_u64().unwrap() as u16);
        let mut ports: Vec<u16> = ports.collect();
        ports.sort_unstable();
        assert_eq!(ports, *wanted, "{line}");
    }
    for line in SS_REFUSED {
        assert!(run(line).is_err(), "{line}");
    }
    assert!(run(&format!("ss {}", "( ".repeat(40))).unwrap_err().to_string().contains("nested"));
}

#[test]
fn host_commands_hold() {
    let lines = |lines: &[&str]| lines.iter().map(|line| format!("{}\n", line.replace('\'', "\""))).collect::<String>();
    let accepted = lines(&SS_FILTERS.iter().map(|(line, _)| *line).collect::<Vec<_>>());
    let (refused, nested) =
        (lines(SS_REFUSED), format!("ss {}\nss -a {}sport = :7", "( ".repeat(40), "not ".repeat(31)));
    hold("commands_host", &[("ss_filters", &accepted), ("ss_refused", &refused), ("ss_nested", &nested)], super::host);
}

#[test]
fn switch_commands_hold() {
    let seeds = [
        (
            "members",
            "ifconfig bridge0\nifconfig bridge0 deletem p1\n-j ifconfig bridge0\nshow ports\naudit\n-j audit\n",
        ),
        (
            "addresses",
            "ifconfig bridge0 static p0 02:00:00:00:00:01\nifconfig bridge0 addr\nifconfig bridge0 deladdr 02:00:00:00:00:01\nifconfig bridge0 flushall\nifconfig bridge0 maxaddr 5 timeout 10\n",
        ),
        (
            "flags",
            "ifconfig bridge0 -learn p0\nifconfig bridge0 sticky p1\nifconfig bridge0 private p2\nifconfig bridge0 span p0\nifconfig bridge0 cluster p1 3\n",
        ),
        (
            "tree",
            "ifconfig bridge0 proto rstp\nifconfig bridge0 stp p0 priority 4096 hellotime 2 fwddelay 15 maxage 20\nifconfig bridge0 ifpriority p0 16 ifpathcost p0 100\nifconfig bridge0 edge p1 bpduguard p1\nshow bridge\n",
        ),
        (
            "vlan",
            "ifconfig bridge0 vlanfilter\nbridge vlan add dev p0 vid 2-9 pvid untagged\nbridge vlan\n-j bridge vlan show\nbridge vlan del dev p0 vid 2\nifconfig bridge0 +tagged p1 10-20\n",
        ),
        (
            "bridge",
            "bridge link\nbridge link set dev p0 learning off flood on isolated on\nbridge fdb add 02:00:00:00:00:09 dev p1 static\n-j bridge fdb\nbridge mdb show\n",
        ),
        (
            "guards",
            "ifconfig bridge0 storm p0 broadcast 100 10\nifconfig bridge0 rule p0 in drop tcp port 22\nifconfig bridge0 -rule p0 in drop tcp port 22\nifconfig bridge0 mute 5 10\nshow rules\nshow drops\n",
        ),
        (
            "snoop",
            "ifconfig bridge0 snoop querier 10.0.0.1\nifconfig bridge0 router p0 always\nifconfig bridge0 unknowngroups routers\nbridge mdb\n",
        ),
        (
            "sysctl",
            "sysctl -a\nsysctl kern.polling.mode=clock\n-j sysctl -a\nsysctl -d kern.polling.mode\nhelp\nshow counters\nshow polling\nshow pool\n",
        ),
    ];
    hold("commands_bridge", &seeds, super::bridge);
}

/// Clients may send any text, and their lines may be cut anywhere.
#[test]
fn cut_seeds_hold() {
    for entry in std::fs::read_dir(format!("{}/../../fuzz/corpus/commands_host", env!("CARGO_MANIFEST_DIR"))).unwrap() {
        let seed = std::fs::read(entry.unwrap().path()).unwrap();
        (0..seed.len()).step_by(7).for_each(|cut| super::host(&seed[..cut]));
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 64, ..Default::default() })]
    #[test]
    fn arbitrary_text_holds(text in "\\PC{0,200}") {
        super::host(text.as_bytes());
        super::bridge(text.as_bytes());
    }
}
