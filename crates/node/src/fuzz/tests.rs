use super::*;

/// Each seed, each with a byte changed, and all of the corpus hold. The seeds are on disk where the repository can be written.
fn hold(target: &str, seeds: &[(&str, &str)], body: fn(&[u8])) {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let writable = std::fs::create_dir_all(&dir).is_ok();
    for (name, seed) in seeds {
        println!("{name}");
        let seed = seed.as_bytes();
        body(seed);
        let path = dir.join(name);
        if writable && std::fs::read(&path).ok().as_deref() != Some(seed) {
            std::fs::write(&path, seed).unwrap();
        }
        for at in (0..seed.len()).step_by(1 + seed.len() / 40) {
            for byte in [0, b' ', b'9', 0xff] {
                let mut damaged = seed.to_vec();
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
fn words_to_a_switch() {
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
    hold("node_switch", &seeds, switch);
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
