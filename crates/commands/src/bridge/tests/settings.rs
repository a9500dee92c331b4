//! Commands that configure a switch. The tests check their effect, and that the settings can be
//! read back.

use super::*;
use ::bridge::Mute;
use serde_json::json;
use wire::Mac;

fn bytes_of(dst: Mac, src: Mac) -> Vec<u8> {
    [&dst.0[..], &src.0, &[0; 48]].concat()
}

/// Sends frames for which an address moves back and forth between two ports.
fn flap(lan: &mut Lan, ports: [usize; 2], times: usize) {
    for n in 0..times {
        lan.send(ports[n % 2], &frame(0xff, 7));
        lan.turn();
    }
    lan.received();
}

/// With a spanning tree on some of the ports, only the other ports are muted. The settings remain
/// after the tree is stopped.
#[test]
fn a_spanning_tree_takes_muting_from_its_own_ports_alone() {
    let clock = SimClock::new();
    let mut lan = Lan::with(4, 2, 0, Clock::sim(&clock));
    lan.say("ifconfig bridge0 mute 3 60 hellotime 1").unwrap();
    let mute = |lan: &Lan| lan.switch.thread(1).unwrap().bridge.mute();
    let requested = Mute { moves: 3, lasts: Duration::from_secs(60), ..Mute::default() };
    assert_eq!(mute(&lan), Some(requested), "a timer of the tree does not change muting");
    lan.say("ifconfig bridge0 stp p2 stp p3").unwrap();
    flap(&mut lan, [0, 1], 8);
    assert!(lan.say("ifconfig").unwrap().contains("muted: addresses moved"), "p0 and p1 are in no tree");
    let muted = |lan: &Lan, number: PortNo| lan.switch.thread(0).unwrap().bridge.muted(number).is_some();
    assert!(muted(&lan, 0) || muted(&lan, 1));
    clock.advance(Duration::from_secs(61));
    // The ports forward, and addresses move back and forth between them.
    (0..40).for_each(|_| {
        clock.advance(Duration::from_secs(1));
        lan.turn();
        lan.switch.tend();
    });
    flap(&mut lan, [2, 3], 20);
    assert_eq!((muted(&lan, 2), muted(&lan, 3)), (false, false));
    lan.say("ifconfig bridge0 proto none").unwrap();
    assert_eq!(mute(&lan), Some(requested), "the setting from before the tree");
    flap(&mut lan, [2, 3], 20);
    assert!(muted(&lan, 2) || muted(&lan, 3));
    lan.say("ifconfig bridge0 -mute").unwrap();
    lan.say("ifconfig bridge0 proto stp").unwrap();
    lan.say("ifconfig bridge0 proto none").unwrap();
    assert_eq!(mute(&lan), None);
}

/// The bridge's own address cannot be learned on a port, with or without VLAN filtering, and no
/// command removes it.
#[test]
fn a_switch_receives_its_own_address() {
    for vlans in ["", "vlanfilter"] {
        let mut lan = Lan::new(2, 2);
        if !vlans.is_empty() {
            lan.say(&format!("ifconfig bridge0 {vlans}")).unwrap();
        }
        let own = lan.switch.mac;
        let station = Mac([2, 0, 0, 0, 0, 9]);
        lan.send(0, &bytes_of(own, station));
        lan.send(1, &bytes_of(station, own));
        lan.turn();
        assert_eq!(lan.received(), [0, 0], "neither frame is forwarded");
        assert!(lan.say("show drops").unwrap().contains("bridge.in.own_source"));
        let counted = |name: &str| {
            let all = lan.json("show counters");
            all.as_array().unwrap().iter().find(|of| of["name"] == name).unwrap()["value"].as_u64().unwrap()
        };
        assert_eq!((counted("bridge.local.unread"), counted("bridge.local.heard")), (1, 0));
        assert!(lan.switch.audit().holds() && lan.switch.audit().bridge.local == 1);
        lan.say("ifconfig bridge0 flushall").unwrap();
        let line = format!("{own} dev bridge0 master bridge0 permanent\n");
        assert_eq!(lan.say("bridge fdb").unwrap(), line);
        for words in [format!("ifconfig bridge0 deladdr {own}"), format!("bridge fdb add {own} dev p0 static")] {
            assert!(lan.say(&words).unwrap_err().contains("own address"), "{words}");
        }
        let group = "bridge fdb add 01:00:5e:00:00:05 dev p0 static";
        assert!(lan.say(group).unwrap_err().contains("is not a unicast address"));
    }
}

/// A bridge that is down accepts no frame. In monitor mode it learns addresses and copies frames to
/// span ports, but forwards nothing.
#[test]
fn up_down_and_monitor() {
    let mut lan = Lan::new(3, 1);
    lan.say("ifconfig bridge0 span p2").unwrap();
    let one = |lan: &mut Lan, src: u8| {
        lan.send(0, &frame(9, src));
        lan.turn();
        lan.received()
    };
    assert_eq!(one(&mut lan, 1), [0, 1, 1]);
    lan.say("ifconfig bridge0 monitor").unwrap();
    assert_eq!(one(&mut lan, 2), [0, 0, 1]);
    assert!(
        lan.say("ifconfig")
            .unwrap()
            .starts_with("bridge0: flags=48843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST,MONITOR>")
    );
    let known = |lan: &Lan| -> Vec<String> {
        let all = lan.say("ifconfig bridge0 addr").unwrap();
        all.lines().map(|line| line[15..17].to_string()).collect()
    };
    assert_eq!(known(&lan), ["01", "02"], "addresses are learned in monitor mode");
    lan.say("ifconfig bridge0 down").unwrap();
    assert_eq!((one(&mut lan, 3), lan.say("sysctl -n net.link.ether.bridge").unwrap().trim()), (vec![0; 3], "0"));
    assert!(lan.say("ifconfig").unwrap().starts_with("bridge0: flags=8802<BROADCAST,SIMPLEX,MULTICAST>"));
    lan.say("sysctl net.link.ether.bridge=1").unwrap();
    assert_eq!(one(&mut lan, 4), [0, 1, 1]);
    assert_eq!(known(&lan), ["04"], "a bridge that is down learns nothing, and its addresses are flushed");
    let dropped = lan.say("show drops").unwrap();
    assert!(dropped.contains("bridge.in.monitor") && dropped.contains("bridge.in.down"), "{dropped}");
    assert!(lan.switch.audit().holds());
}

/// A bridge that is down sends no frames of its own, and the ports of its tree are disabled. When
/// it is up again, the tree starts over.
#[test]
fn a_bridge_that_is_down_sends_no_queries_and_has_no_tree() {
    let clock = SimClock::new();
    let mut lan = Lan::with(2, 2, 0, Clock::sim(&clock));
    lan.say("ifconfig bridge0 stp p0 stp p1 querier 10.0.0.1").unwrap();
    let said = |lan: &mut Lan| {
        let mut burst = Burst::new();
        for _ in 0..40 {
            clock.advance(Duration::from_secs(5));
            lan.turn();
            lan.switch.tend();
            lan.turn();
        }
        lan.ends[0].rx.rx_burst(&mut burst, 256, Instant::ZERO);
        let frames: Vec<Vec<u8>> = burst.drain().map(|frame| frame.bytes().to_vec()).collect();
        let bpdus = frames.iter().filter(|frame| frame.starts_with(&[1, 0x80, 0xc2])).count();
        (bpdus > 0, frames.len() > bpdus)
    };
    assert_eq!(said(&mut lan), (true, true), "BPDUs and queries");
    lan.say("ifconfig bridge0 down").unwrap();
    said(&mut lan);
    assert_eq!(said(&mut lan), (false, false));
    assert!(lan.say("ifconfig").unwrap().contains("role disabled"), "{}", lan.say("ifconfig").unwrap());
    assert_eq!(lan.json("bridge link")[0]["state"], "blocking");
    lan.say("ifconfig bridge0 up").unwrap();
    assert_eq!(said(&mut lan), (true, true));
    assert!(lan.say("ifconfig").unwrap().contains("role designated state forwarding"));
    assert!(lan.switch.audit().holds());
}

fn report(group: [u8; 4]) -> Vec<u8> {
    let src = [2, 0, 0, 0, 0, 5];
    let mut igmp = [0x16, 0, 0, 0, group[0], group[1], group[2], group[3]];
    let sum = wire::checksum::sum(&igmp).finish();
    igmp[2..4].copy_from_slice(&sum.to_be_bytes());
    let header = wire::ip4::Header::new([10, 0, 0, 5].into(), group.into(), wire::Proto::IGMP, igmp.len()).unwrap();
    let mut packet = [0; wire::ip4::HEADER_LEN];
    wire::ip4::Header { ttl: 1, ..header }.emit(&mut packet);
    wire::ip4::fill_checksum(&mut packet);
    [&[0x01, 0x00, 0x5e, group[1] & 0x7f, group[2], group[3]], &src[..], &[8, 0], &packet, &igmp, &[0; 18]].concat()
}

/// Queries are sent in all existing VLANs, for IPv4 and IPv6. A listener is listed once, regardless
/// of how many loops have learned it.
#[test]
fn a_querier_queries_each_vlan_and_lists_listeners_once() {
    let clock = SimClock::new();
    let mut lan = Lan::with(3, 2, 0, Clock::sim(&clock));
    lan.say("ifconfig bridge0 querier 10.0.0.1 querier fe80::1").unwrap();
    let requested = |lan: &mut Lan| {
        clock.advance(Duration::from_secs(200));
        lan.turn();
        let of = |frames: Vec<Vec<u8>>| {
            frames.iter().map(|frame| u16::from_be_bytes([frame[12], frame[13]])).collect::<Vec<_>>()
        };
        [0, 1, 2].map(|at| of(lan.receive(at)))
    };
    let both = vec![0x0800, 0x86dd];
    assert_eq!(requested(&mut lan), [both.clone(), both.clone(), both.clone()]);
    lan.say("ifconfig bridge0 vlanfilter untagged p0 10 untagged p1 20 untagged p2 20").unwrap();
    assert_eq!(requested(&mut lan), [both.clone(), both.clone(), both.clone()], "each query in its own VLAN");
    assert_eq!(
        lan.json("ifconfig")["snoop"]["querier"],
        json!({ "v4": "10.0.0.1", "v6": "fe80::1", "vlans": [10, 20] })
    );
    lan.say("ifconfig bridge0 addm pair:p9").unwrap();
    assert_eq!(lan.json("ifconfig")["snoop"]["querier"]["vlans"], json!([1, 10, 20]), "a member more, a VLAN more");
    lan.say("ifconfig bridge0 deletem p9").unwrap();
    assert_eq!(lan.json("ifconfig")["snoop"]["querier"]["vlans"], json!([10, 20]));
    lan.send(1, &report([239, 1, 2, 3]));
    lan.turn();
    let mdb = lan.json("bridge mdb");
    let rows = mdb[0]["mdb"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{mdb}");
    assert_eq!((&rows[0]["port"], &rows[0]["grp"], &rows[0]["vid"]), (&json!("p1"), &json!("239.1.2.3"), &json!(20)));
    assert!(lan.say("bridge mdb").unwrap().starts_with("dev bridge0 port p1 grp 239.1.2.3 temp vid 20  2"));
    requested(&mut lan);
    lan.say("ifconfig bridge0 -querier").unwrap();
    assert_eq!(lan.json("bridge mdb")[0]["mdb"].as_array().unwrap().len(), 1, "still known");
    assert_eq!(requested(&mut lan), [const { Vec::<u16>::new() }; 3]);
    for (words, said) in [
        ("querier 10.0.0", "expected an IP address"),
        ("querier 2001:db8::1", "link-local"),
        ("router p0 maybe", "learned, always or never"),
    ] {
        assert!(lan.say(&format!("ifconfig bridge0 {words}")).unwrap_err().contains(said), "{words}");
    }
}

/// `ifconfig` lists settings that differ from the defaults, in a form that can be entered again.
/// Its JSON lists them too.
#[test]
fn settings_can_be_read_back() {
    let lan = Lan::new(2, 2);
    let quiet = lan.say("ifconfig").unwrap();
    assert_eq!(
        quiet.lines().skip(2).take(4).collect::<Vec<_>>().join("\n"),
        "\tid 00:00:00:00:00:00 priority 32768 hellotime 2 fwddelay 15\n\
         \tmaxage 20 holdcnt 6 proto rstp maxaddr 8192 timeout 300\n\
         \troot id 00:00:00:00:00:00 priority 32768 ifcost 0 port 0\n\
         \tmute 10 10"
    );
    lan.say("ifconfig bridge0 vlanfilter tagged p0 5-7 admit p0 tagged -ingress p0 stacked p0 maxaddr 100 -mute")
        .unwrap();
    lan.say("ifconfig bridge0 unknowngroups routers fastleave p1 router p1 always storm p1 broadcast 100 20").unwrap();
    lan.say("ifconfig bridge0 cluster p1 3 ifmaxaddr p1 5 rule p0 in drop udp port 9").unwrap();
    let shown = lan.say("ifconfig").unwrap();
    for part in [
        "maxaddr 100",
        "\tsnoop unknowngroups routers vlanfilter\n",
        "vlan untagged 1 tagged 5-7 admit tagged -ingress stacked\n",
        "router always fastleave\n",
        "storm broadcast 100 20\n",
        "cluster 3\n",
        "ifmaxaddr 5 port 2",
        "rule in drop udp port 9\n",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("mute "), "{shown}");
    let all = lan.json("show bridge");
    assert_eq!(
        (&all["mute"], &all["maxaddr"], &all["snoop"]["unknown"]),
        (&json!(null), &json!(100), &json!("routers"))
    );
    let p1 = &all["members"][1];
    assert_eq!((&p1["cluster"], &p1["snoop"]), (&json!(3), &json!({ "router": "always", "fastleave": true })));
    assert_eq!(p1["guards"]["storm"], json!({ "broadcast": { "rate": 100, "burst": 20 } }));
    assert_eq!(all["members"][0]["vlan"]["admit"], "tagged");
    lan.say("bridge link set dev p1 fastleave off mcast_router 1").unwrap();
    assert!(!lan.say("ifconfig").unwrap().contains("router "));
    for (words, said) in [
        ("ifconfig bridge0 maxaddr 9000", "space for 8192"),
        ("ifconfig bridge0 admit p0 none", "all, tagged or untagged"),
        ("bridge vlan del dev p0 vid 9", "p0 does not belong to VLAN 9"),
        ("ifconfig bridge0 unknowngroups drop", "flood or routers"),
        ("ifconfig bridge0 migrate p0", "add it with 'ifconfig bridge0 stp p0'"),
    ] {
        assert!(lan.say(words).unwrap_err().contains(said), "{words}: {}", lan.say(words).unwrap_err());
    }
}

/// A port in a spanning tree is listed with its flags as in FreeBSD, its cost by link speed, and
/// its counters.
#[test]
fn a_port_in_a_tree_shows_its_flags_cost_and_counters() {
    let clock = SimClock::new();
    let lan = Lan::with(1, 1, 0, Clock::sim(&clock));
    lan.say("ifconfig bridge0 addm nic(wire=w,speed=1g):em0 addm nic(wire=w,speed=1g):em1").unwrap();
    lan.say("ifconfig bridge0 stp p0 stp em0 bpduguard p0 edge p0 rxlimit 9").unwrap();
    for _ in 0..3000 {
        clock.advance(Duration::from_millis(1));
        lan.turn();
        lan.switch.tend();
    }
    let shown = lan.say("ifconfig").unwrap();
    assert!(
        shown.contains("member: p0 flags=3001e7<LEARNING,DISCOVER,STP,EDGE,AUTOEDGE,PTP,AUTOPTP,MULTICAST,BROADCAST>"),
        "{shown}"
    );
    assert!(shown.contains("role designated state forwarding bpduguard\n") && shown.contains("rxlimit 9"), "{shown}");
    assert!(shown.contains("port 2 priority 128 path cost 20000 proto rstp"), "1 Gb/s: {shown}");
    let links = lan.json("bridge link");
    assert_eq!(
        (&links[1]["cost"], &links[1]["priority"], &links[0]["cost"]),
        (&json!(20000), &json!(32), &json!(2000))
    );
    let port = &lan.json("ifconfig")["stp"]["ports"][1];
    assert!(port["counters"]["bridge.stp.rst_out"].as_u64().unwrap() > 0, "{port}");
    assert_eq!(port["asked"]["bpduguard"], false);
}

#[test]
fn freebsds_names_for_polling_and_clusters() {
    let mut lan = Lan::new(3, 2);
    assert_eq!(lan.say("sysctl -n net.link.ether.bridge_cfg").unwrap().trim(), "p0:0,p1:0,p2:0");
    lan.say("sysctl net.link.ether.bridge_cfg=p0:1,p2:1").unwrap();
    lan.send(0, &frame(9, 1));
    lan.turn();
    assert_eq!(
        (lan.received(), lan.say("sysctl -n net.link.ether.bridge_cfg").unwrap().trim()),
        (vec![0, 0, 1], "p0:1,p1:0,p2:1")
    );
    assert!(lan.say("sysctl net.link.ether.bridge_cfg=p0:2,p9:1").unwrap_err().contains("p9"));
    assert_eq!(lan.say("sysctl -n net.link.ether.bridge_cfg").unwrap().trim(), "p0:1,p1:0,p2:1", "all or nothing");
    lan.say("sysctl kern.polling.enable=0").unwrap();
    assert_eq!(lan.say("sysctl -n kern.polling.mode kern.polling.enable").unwrap(), "wakeup\n0\n");
    lan.say("sysctl kern.polling.enable=1").unwrap();
    assert_eq!(lan.say("sysctl -n kern.polling.mode").unwrap(), "clock\n");
    assert!(lan.say("sysctl kern.polling.each_burst=151").unwrap_err().contains("burst_max, which is 150"));
    lan.say("sysctl kern.polling.each_burst=100 kern.polling.burst_max=50").unwrap();
    assert_eq!(lan.say("sysctl -n kern.polling.each_burst").unwrap(), "50\n");
    for name in ["lost_polls", "short_ticks", "stalled"] {
        let name = format!("kern.polling.{name}");
        assert_eq!(lan.say(&format!("sysctl -n {name}")).unwrap(), "0\n");
        assert!(lan.say(&format!("sysctl {name}=1")).unwrap_err().contains("read only"));
        assert!(lan.say(&format!("sysctl -d {name}")).unwrap().contains("Sum over all loops"));
    }
}

#[test]
fn a_rejected_ifconfig_changes_nothing() {
    let lan = Lan::new(2, 1);
    let before = lan.say("ifconfig").unwrap();
    for line in ["ifconfig bridge0 down timout 5", "ifconfig bridge0 static p0 02:00:00:00:00:07 vlan 10 vlan 20"] {
        lan.say(line).unwrap_err();
        assert_eq!(lan.say("ifconfig").unwrap(), before, "{line}");
        assert_eq!(lan.say("ifconfig bridge0 addr").unwrap(), "", "{line}");
    }
    let misspelt = lan.say("ifconfig bridge0 -lern p0").unwrap_err();
    assert!(misspelt.contains("did you mean '-learn'?"), "{misspelt}");
    lan.say("bridge fdb add 02:00:00:00:00:07 dev p0 static").unwrap();
    assert!(lan.say("bridge fdb del 02:00:00:00:00:07 dev p1").unwrap_err().contains("not an address of p1"));
    assert!(lan.say("bridge fdb show dev pair:p0").unwrap().contains("02:00:00:00:00:07 dev p0"));
    assert_eq!(lan.say("netstat").unwrap(), lan.say("netstat -n -i").unwrap());
}
