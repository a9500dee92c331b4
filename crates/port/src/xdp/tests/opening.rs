use super::*;

fn says(name: &str, config: &XdpConfig, pool: &Pool) -> String {
    open(name, config, pool).unwrap_err().to_string()
}

#[test]
fn every_mode_that_works_here_passes_frames_both_ways() {
    with_xdp("opening::every_mode_that_works_here_passes_frames_both_ways", || {
        let (_netlink, socket) = world();
        for stride in [Stride::Odd, Stride::PowerOfTwo] {
            for attach in [Attach::Auto, Attach::Only(Hook::Generic), Attach::Only(Hook::Native)] {
                for wakeup in [Wakeup::Asked, Wakeup::Always] {
                    let pool = PoolConfig { buffers: 512, data: 1856, stride, ..PoolConfig::default() };
                    let pool = Pool::new(&pool).unwrap();
                    let config = XdpConfig { attach, wakeup, ring: 100, ..XdpConfig::default() };
                    let mut port = open("x0", &config, &pool).unwrap();
                    let sent: Vec<_> = (1..=50u8).map(|i| vec![i; usize::from(i)]).collect();
                    sent.iter().for_each(|payload| _ = socket.send_to(payload, (US, 9)).unwrap());
                    assert_eq!(payloads(&mut port, 50, 32), sent, "{stride:?} {config:?}");
                    let mut burst = Burst::new();
                    sent.iter().for_each(|payload| burst.push(datagram(&pool, payload)).unwrap());
                    assert_eq!(port.tx.tx_burst(&mut burst, Instant::ZERO), 50);
                    let mut buffer = [0; 100];
                    sent.iter().for_each(|payload| assert_eq!(socket.recv(&mut buffer).unwrap(), payload.len()));
                    drop(port);
                    assert_eq!(pool.stats().live(), 0);
                }
            }
        }
    });
}

#[test]
fn opening_errors_name_cause_and_remedy() {
    with_xdp("opening::opening_errors_name_cause_and_remedy", || {
        let (mut netlink, _socket) = world();
        let pool = pool_of(256);
        let plain = XdpConfig::default();
        assert_eq!(says("nosuch0", &plain, &pool), "xdp:nosuch0: no such interface in this network namespace");
        let text = says("x0", &XdpConfig { queue: 7, ..plain }, &pool);
        assert_eq!(text, "xdp:x0: no queue 7 to bind to: list queues with `ls /sys/class/net/x0/queues`");
        let zero = XdpConfig { mode: CopyMode::ZeroCopy, ..plain };
        assert!(says("x0", &zero, &pool).contains("buffers within pages, but the pool's are 2240 bytes apart"));
        let even = PoolConfig { buffers: 64, stride: Stride::PowerOfTwo, ..PoolConfig::default() };
        let text = says("x0", &zero, &Pool::new(&even).unwrap());
        assert!(text.starts_with("xdp:x0: the driver does not support zero copy (mode=zerocopy)"), "{text}");
        let small = PoolConfig { buffers: 64, data: 1700, ..PoolConfig::default() };
        assert!(says("x0", &plain, &Pool::new(&small).unwrap()).contains("too short"));
        let malloc = PoolConfig { buffers: 64, kind: buf::Kind::Malloc, ..PoolConfig::default() };
        assert!(says("x0", &plain, &Pool::new(&malloc).unwrap()).contains("a malloc pool"));
        netlink.set_mtu("x0", 3000).unwrap();
        assert!(says("x0", &plain, &pool).contains("frames of up to 3018 bytes do not fit in the pool's buffers"));
        let features = crate::os::netlink::xdp_features("x0").unwrap();
        assert!(features.redirect() && !features.zero_copy(), "veth: {features:?}");
        assert_eq!(pool.stats().live(), 0, "a failed open keeps no buffers");
    });
}

/// Checks that a pool created for ports has buffers within pages only if a device accesses them
/// directly.
#[test]
fn the_pool_fits_the_drivers_mode() {
    with_xdp("opening::the_pool_fits_the_drivers_mode", || {
        let (mut netlink, _socket) = world();
        let spec = |text: &str| crate::Spec::parse(text).unwrap();
        assert_eq!(crate::stride_for(&[spec("xdp:x0"), spec("xdp(mode=copy):x0")]), Stride::Odd);
        assert_eq!(crate::stride_for(&[spec("xdp(mode=zerocopy):x0")]), Stride::PowerOfTwo);
        assert_eq!(crate::stride_for(&[spec("packet:x0")]), Stride::Odd);
        netlink.set_mtu("k0", 9000).unwrap();
        netlink.set_mtu("x0", 9000).unwrap();
        let mut config = PoolConfig::default();
        crate::fit_pool(&mut config, &[spec("xdp:x0"), spec("packet:nosuch")]);
        assert_eq!(config.data, 9000 + 18 + 256);
        let pool = pool_of(64);
        let fits = crate::pool_for(&spec("xdp:x0"), &pool, &PoolConfig::default()).unwrap();
        assert!(fits.size() - fits.headroom() >= config.data && fits.number() != pool.number());
        assert_eq!(crate::pool_for(&spec("xdp:k0"), &fits, &config).unwrap().number(), fits.number());
    });
}

#[test]
fn a_queue_has_one_socket_and_is_freed_with_it() {
    with_xdp("opening::a_queue_has_one_socket_and_is_freed_with_it", || {
        let (_netlink, socket) = world();
        let pool = pool_of(256);
        let first = open("x0", &XdpConfig::default(), &pool).unwrap();
        let warnings = first.rx.warnings();
        assert_eq!(warnings, ["xdp:x0: the kernel copies each frame (the driver does not support zero copy)"]);
        let text = says("x0", &XdpConfig::default(), &pool);
        assert_eq!(text, "xdp:x0: queue 0 is in use by another socket: stop its owner, or use another queue");
        drop(first);
        for _ in 0..3 {
            let mut again = open("x0", &XdpConfig::default(), &pool).unwrap();
            socket.send_to(b"hello", (US, 9)).unwrap();
            assert_eq!(payloads(&mut again, 1, 32), [b"hello"]);
        }
        assert_eq!(pool.stats().live(), 0);
    });
}

#[test]
fn queues_of_one_device_share_its_program() {
    with_xdp("opening::queues_of_one_device_share_its_program", || {
        let add = "link add m0 numrxqueues 2 numtxqueues 2 type veth peer name m1 numrxqueues 2 numtxqueues 2";
        if !Command::new("ip").args(add.split(' ')).status().is_ok_and(|status| status.success()) {
            return println!("skipped: queues_of_one_device_share_its_program...: ip cannot add a veth of two queues");
        }
        let mut netlink = Netlink::open().unwrap();
        ["m0", "m1"].iter().for_each(|dev| netlink.set_up(dev).unwrap());
        let pool = pool_of(1024);
        let queue = |queue| XdpConfig { queue, ..XdpConfig::default() };
        let zero = open("m0", &queue(0), &pool).unwrap();
        let mut one = open("m0", &queue(1), &pool).unwrap();
        // The program remains attached when the port that attached it ends.
        drop(zero);
        let mut peer = open("m1", &queue(1), &pool).unwrap();
        let mut came = 0;
        let start = Wall::now();
        while came == 0 && start.elapsed() < Duration::from_secs(5) {
            peer.tx.tx_one(numbered(&pool, 1, 60).unwrap(), Instant::ZERO).unwrap();
            let mut burst = Burst::new();
            one.rx.rx_burst(&mut burst, 32, Instant::ZERO);
            came += burst.drain().filter(|frame| number_of(frame) == Some(1)).count();
        }
        assert!(came > 0, "queue 1 of m1 sends to queue 1 of m0");
        drop((one, peer));
        assert_eq!(pool.stats().live(), 0);
    });
}

/// Runs a test of this binary again under a prefix command. Returns its output; `None` if the
/// prefix command cannot run on this system.
fn again(prefix: &[&str], test: &str, mark: &str) -> Option<String> {
    let exe = std::env::current_exe().unwrap();
    let (first, rest) = prefix.split_first()?;
    let mut cmd = Command::new(first);
    cmd.args(rest)
        .arg(exe)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("LINERATE_XDP_WITHOUT", mark);
    cmd.env_remove("LINERATE_IN_NS");
    let output = cmd.output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_missing_privilege_is_named() {
    let test = "xdp::tests::opening::a_missing_privilege_is_named";
    let name = test.strip_prefix("xdp::tests::").unwrap();
    if let Ok(mark) = std::env::var("LINERATE_XDP_WITHOUT") {
        let _netlink = (mark == "the first namespace").then(|| veth("x0", "k0"));
        println!("without {mark}: {}", says("x0", &XdpConfig::default(), &pool_of(64)));
        return;
    }
    with_xdp(name, || {
        let (_netlink, _socket) = world();
        for (prefix, mark, expected) in [
            // Root of a user namespace can open the socket, but not load the program.
            (&["unshare", "-Urn"][..], "the first namespace", "requires CAP_BPF and CAP_NET_ADMIN"),
            (
                &["setpriv", "--bounding-set=-all", "--inh-caps=-all"],
                "any",
                "socket(AF_XDP): permission denied: requires CAP_NET_RAW",
            ),
        ] {
            let text = again(prefix, test, mark).unwrap_or_default();
            if !text.contains("1 passed") {
                println!("skipped: {test}: {prefix:?} does not work here: {text}");
                continue;
            }
            assert!(text.contains(expected), "{prefix:?}: {text}");
        }
    });
}
