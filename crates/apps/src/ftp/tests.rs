mod replies;

use super::*;
use crate::files::{Builtin, Uploads};
use crate::net::{Far, Net, Rig};
use proptest::prelude::*;

fn root() -> Root {
    let lines: String = (0..2_000).map(|n| format!("line {n}\n")).collect();
    Root::devices()
        .with("/pub/two", Builtin::Bytes(b"one\ntwo\n"[..].into()))
        .with("/pub/long", Builtin::Bytes(lines.into_bytes().into()))
        .with("/say \"hi\"/x", Builtin::Bytes(b"x"[..].into()))
}

fn rig() -> Rig<Ftp> {
    Rig::new(Ftp::new(Config::new(root())), Net::default())
}

/// Returns a client that has logged in.
fn login(rig: &mut Rig<Ftp>) -> Far {
    let client = rig.client();
    assert_eq!(rig.receive(client), "220 Service ready for new user: linerate FTP server.\r\n");
    assert!(rig.say(client, b"USER anonymous\r\n").starts_with("331 "));
    assert!(rig.say(client, b"PASS a@b\r\n").starts_with("230 "));
    client
}

/// Returns the reply codes.
fn codes(replies: &str) -> Vec<&str> {
    let lines = replies
        .split("\r\n")
        .filter(|line| line.as_bytes().get(3) == Some(&b' ') && line.starts_with(|c: char| c.is_ascii_digit()));
    lines.map(|line| &line[..3]).collect()
}

/// Returns the address in a 227 or 229 reply.
fn place(reply: &str) -> SocketAddr {
    let inside = &reply[reply.rfind('(').unwrap() + 1..reply.rfind(')').unwrap()];
    if reply.starts_with("229") {
        let port = inside.trim_matches('|').parse().unwrap();
        return SocketAddr::from(([1, 0, 0, 1], port));
    }
    command::host_port(inside.as_bytes()).unwrap()
}

/// Opens a data connection with EPSV.
fn passive(rig: &mut Rig<Ftp>, client: Far) -> Far {
    let at = place(&rig.say(client, b"EPSV\r\n"));
    let data = rig.net.connect_from(SocketAddr::from(([1, 0, 0, 2], 60_000)), at).unwrap();
    rig.run_until_idle();
    data
}

#[test]
fn each_command_has_its_reply() {
    let mut rig = rig();
    let client = login(&mut rig);
    let conversation = [
        ("SYST", "215"),
        ("FEAT", "211"),
        ("HELP", "214"),
        ("NOOP", "200"),
        ("noop", "200"),
        ("STAT", "211"),
        ("ALLO 5", "202"),
        ("ACCT x", "202"),
        ("OPTS UTF8 ON", "200"),
        ("OPTS X", "501"),
        ("OPTS MLST type;modify;x;", "200"),
        ("PWD", "257"),
        ("CWD pub", "250"),
        ("CWD two", "550"),
        ("CWD /nowhere", "550"),
        ("CDUP", "250"),
        // `..` at the root is the root.
        ("CDUP", "250"),
        ("CWD ..", "250"),
        ("CWD ../../pub/..", "250"),
        ("XCUP", "250"),
        ("CWD", "501"),
        ("RETR", "501"),
        ("TYPE I", "200"),
        ("TYPE L 8", "200"),
        ("TYPE A N", "200"),
        ("TYPE E", "504"),
        ("TYPE", "501"),
        ("MODE S", "200"),
        ("MODE B", "504"),
        ("MODE", "501"),
        ("STRU F", "200"),
        ("STRU R", "504"),
        ("STRU", "501"),
        ("SIZE /pub/two", "504"),
        ("TYPE I", "200"),
        ("SIZE /pub/two", "213"),
        ("SIZE /dev/zero", "504"),
        ("SIZE /pub", "550"),
        ("SIZE /x", "550"),
        ("MDTM /pub/two", "504"),
        ("MDTM /x", "550"),
        ("REST 4", "350"),
        ("REST x", "501"),
        ("REST 99999999999999999999", "501"),
        ("DELE x", "550"),
        ("DELE /pub/two", "550"),
        ("MKD x", "550"),
        ("RMD /pub", "550"),
        ("RNFR /pub/two", "550"),
        ("RNTO x", "503"),
        ("APPE /dev/null", "425"),
        ("STAT /pub", "212"),
        ("STAT /pub/two", "213"),
        ("STAT /pub/t*", "212"),
        ("STAT /x", "450"),
        ("MLST", "250"),
        ("MLST /x", "550"),
        ("MLSD", "425"),
        ("MLSD /pub/two", "501"),
        ("SITE x", "502"),
        ("XYZZY", "500"),
        ("", "500"),
        ("RETR /pub/two", "425"),
        ("LIST", "425"),
        ("STOR /dev/null", "425"),
        ("RETR /x", "550"),
        ("PASV", "227"),
        ("EPSV", "229"),
        ("EPSV 1", "229"),
        ("EPSV 2", "522"),
        ("EPSV 7", "522"),
        ("EPSV x", "501"),
        ("PORT 1,0,0,2,200,1", "200"),
        ("PORT 1,0,0,2,200", "501"),
        ("EPRT |1|1.0.0.2|50000|", "200"),
        ("EPRT |2|::1|50000|", "522"),
        ("EPRT |3|1.0.0.2|50000|", "522"),
        ("EPRT 1.0.0.2", "501"),
        ("ABOR", "226"),
        ("PASS x", "230"),
        ("USER ftp", "331"),
        ("PWD", "530"),
        ("PASS x", "230"),
        ("PWD", "257"),
        ("REIN", "220"),
        ("PWD", "530"),
        ("PASS x", "503"),
    ];
    for (line, code) in conversation {
        let reply = rig.say(client, format!("{line}\r\n").as_bytes());
        assert_eq!(codes(&reply), [code], "{line}: {reply}");
    }
    assert_eq!(codes(&rig.say(client, b"QUIT\r\n")), ["221"]);
    assert!(rig.net.far_eof(client) && !rig.net.is_reset(client));
    assert_eq!((rig.server.app.sessions(), rig.server.open_chans(), rig.net.fds()), (0, 0, 2), "one lingers");
    assert_eq!((rig.server.app.counts.logins.get(), rig.server.app.counts.changes.get()), (2, 0));
}

#[test]
fn downloads_in_image_and_ascii_type() {
    let mut rig = rig();
    let client = login(&mut rig);
    for (kind, expected) in [("I", "one\ntwo\n"), ("A", "one\r\ntwo\r\n")] {
        rig.say(client, format!("TYPE {kind}\r\n").as_bytes());
        let data = passive(&mut rig, client);
        let replies = rig.say(client, b"RETR /pub/two\r\n");
        assert_eq!(codes(&replies), ["150", "226"], "{replies}");
        assert_eq!(rig.receive(data), expected);
        assert!(rig.net.far_eof(data) && !rig.net.is_reset(data));
        rig.net.far_shut(data);
    }
    // REST applies to the next command only.
    rig.say(client, b"TYPE I\r\n");
    for (rest, expected) in [("REST 4\r\n", "two\n"), ("REST 4\r\nNOOP\r\n", "one\ntwo\n"), ("REST 8\r\n", "")] {
        let data = passive(&mut rig, client);
        rig.say(client, rest.as_bytes());
        rig.say(client, b"RETR /pub/two\r\n");
        assert_eq!(rig.receive(data), expected, "{rest:?}");
    }
    passive(&mut rig, client);
    assert_eq!(codes(&rig.say(client, b"REST 9\r\nRETR /pub/two\r\n")), ["350", "554"]);
    assert_eq!(rig.server.app.counts.transfers.get(), 5);
}

#[test]
fn the_data_connection_may_precede_or_follow_the_command() {
    let mut rig = rig();
    let client = login(&mut rig);
    let at = place(&rig.say(client, b"PASV\r\n"));
    assert_eq!(codes(&rig.say(client, b"RETR /pub/long\r\n")), ["150"]);
    let data = rig.net.connect_from(SocketAddr::from(([1, 0, 0, 2], 60_001)), at).unwrap();
    assert_eq!(rig.receive(data).lines().count(), 2_000);
    assert_eq!(codes(&rig.receive(client)), ["226"]);
}

#[test]
fn active_leads_to_the_client_and_nowhere_else() {
    let mut rig = rig();
    let client = login(&mut rig);
    for line in [
        "PORT 1,0,0,3,200,1",
        "PORT 127,0,0,1,200,1",
        "PORT 1,0,0,2,0,25",
        "PORT 1,0,0,2,3,255",
        "EPRT |1|1.0.0.9|50000|",
        "EPRT |1|1.0.0.2|80|",
    ] {
        assert_eq!(codes(&rig.say(client, format!("{line}\r\n").as_bytes())), ["504"], "{line}");
    }
    assert_eq!(rig.server.app.counts.bounces.get(), 6);
    assert_eq!(codes(&rig.say(client, b"RETR /pub/two\r\n")), ["425"]);
    let there = SocketAddr::from(([1, 0, 0, 2], 51_201));
    rig.net.far_listens.insert(there);
    assert_eq!(codes(&rig.say(client, b"PORT 1,0,0,2,200,1\r\nRETR /pub/two\r\n")), ["200", "150"]);
    let data = rig.net.answer_connects();
    assert_eq!(rig.receive(data[0]), "one\r\ntwo\r\n");
    assert_eq!(codes(&rig.receive(client)), ["226"]);
    // No listener at the client.
    assert_eq!(codes(&rig.say(client, b"EPRT |1|1.0.0.2|1024|\r\nRETR /pub/two\r\n")), ["200", "150"]);
    assert!(rig.net.answer_connects().is_empty());
    assert_eq!(codes(&rig.receive(client)), ["425"]);
    assert_eq!(rig.net.refused, [SocketAddr::from(([1, 0, 0, 2], 1024))]);
}

#[test]
fn a_thief_gets_nothing_and_the_owner_still_does() {
    let mut rig = rig();
    let client = login(&mut rig);
    let at = place(&rig.say(client, b"PASV\r\n"));
    let thief = rig.net.connect_from(SocketAddr::from(([6, 6, 6, 6], 60_000)), at).unwrap();
    assert_eq!(codes(&rig.say(client, b"RETR /pub/two\r\n")), ["150"]);
    assert!(rig.net.is_reset(thief));
    assert_eq!(rig.server.app.counts.thefts.get(), 1);
    let data = rig.net.connect_from(SocketAddr::from(([1, 0, 0, 2], 60_000)), at).unwrap();
    assert_eq!(rig.receive(data), "one\r\ntwo\r\n");
    // The session's listener is closed as well.
    assert!(rig.net.connect_from(SocketAddr::from(([1, 0, 0, 2], 60_001)), at).is_none());
}

#[test]
fn listings() {
    let mut rig = rig();
    let client = login(&mut rig);
    for (line, expected) in [
        ("NLST", "say \"hi\"\r\npub\r\ndev\r\n"),
        ("NLST /pub", "long\r\ntwo\r\n"),
        ("NLST -la /pub/two", "two\r\n"),
        ("NLST ..", "say \"hi\"\r\npub\r\ndev\r\n"),
        // RFC 1123 4.1.2.7: the server expands patterns; the listed names can be passed to RETR.
        ("NLST *u*", "pub\r\n"),
        ("NLST /dev/?[!u]*", "/dev/zero\r\n"),
        ("NLST pub/../pub/[a-m]*", "pub/../pub/long\r\n"),
        ("LIST pub/t*", "-rw-r--r--   1 ftp      ftp                 8 Jan  1 00:00 pub/two\r\n"),
        ("MLSD /pub", "type=file;size=18890;perm=r; long\r\ntype=file;size=8;perm=r; two\r\n"),
        ("LIST pub/two", "-rw-r--r--   1 ftp      ftp                 8 Jan  1 00:00 two\r\n"),
        (
            "LIST -a -l /dev",
            "-rw-r--r--   1 ftp      ftp                 0 Jan  1 00:00 null\r\n-rw-r--r--   1 ftp      ftp                 0 Jan  1 00:00 zero\r\n",
        ),
    ] {
        let data = passive(&mut rig, client);
        assert_eq!(codes(&rig.say(client, format!("{line}\r\n").as_bytes())), ["150", "226"], "{line}");
        assert_eq!(rig.receive(data), expected, "{line}");
    }
    assert_eq!(codes(&rig.say(client, b"LIST /nowhere\r\n")), ["450"]);
    assert_eq!(codes(&rig.say(client, b"NLST *nothing\r\nLIST /nowhere/*\r\n")), ["450", "450"]);
    assert_eq!(
        rig.say(client, b"CWD say \"hi\"\r\nPWD\r\n").lines().nth(1).unwrap(),
        "257 \"/say \"\"hi\"\"\" is the current directory."
    );
}

#[test]
fn uploads_to_dev_null_and_to_a_file() {
    let dir = std::env::temp_dir().join(format!("linerate-ftp-up-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let root = root().with_directory(&dir, Uploads::Replace, 100).unwrap();
    let mut rig = Rig::new(Ftp::new(Config::new(root)), Net::default());
    let client = login(&mut rig);
    let mut up = |line: &str, bytes: &[u8]| {
        let data = passive(&mut rig, client);
        let begun = rig.say(client, format!("{line}\r\n").as_bytes());
        rig.say(data, bytes);
        rig.net.far_shut(data);
        codes(&(begun + &rig.receive(client))).join(" ")
    };
    assert_eq!(up("STOR /dev/null", &[7; 300_000]), "150 226");
    assert_eq!(up("STOR text", b"a\r\nb\rc\r\r\n\r"), "150 226");
    assert_eq!(std::fs::read(dir.join("text")).unwrap(), b"a\nb\rc\r\n\r");
    assert_eq!(up("TYPE I\r\nSTOR image", b"a\r\nb"), "200 150 226");
    assert_eq!(up("REST 2\r\nSTOR image", b"xy"), "350 150 226");
    assert_eq!(std::fs::read(dir.join("image")).unwrap(), b"a\rxy");
    assert_eq!(up("STOR long", &[1; 101]), "150 452");
    assert_eq!(up("STOR /dev/zero", b"x"), "550");
    assert_eq!(up("STOR ../../up", b"x"), "150 226", "the root has nothing above it");
    assert_eq!(std::fs::read(dir.join("up")).unwrap(), b"x");
    assert_eq!(up("STOR /pub", b"x"), "550");
    // RFC 959 4.1.3: APPE appends to a file or creates it.
    assert_eq!(up("APPE image", b"z"), "150 226");
    assert_eq!(std::fs::read(dir.join("image")).unwrap(), b"a\rxyz");
    assert_eq!(up("APPE other", b"new"), "150 226");
    assert_eq!(std::fs::read(dir.join("other")).unwrap(), b"new");
    assert_eq!(up("APPE /dev/null", b"x"), "150 226");
    assert_eq!(up("APPE image", &[1; 96]), "150 452", "a file has 100 bytes at most");
    assert_eq!(up("APPE /pub/two", b"x"), "550");
    assert_eq!(up("APPE /pub", b"x"), "550");
    assert_eq!(rig.server.app.counts.transfers_failed.get(), 2);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Creates a temporary directory and a session with the given upload permission.
fn session_in(name: &str, uploads: Uploads) -> (std::path::PathBuf, Rig<Ftp>, Far) {
    let dir = std::env::temp_dir().join(format!("linerate-ftp-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(dir.join("in/full")).unwrap();
    std::fs::write(dir.join("in/a.txt"), "a").unwrap();
    std::fs::write(dir.join("in/.hidden.txt"), "h").unwrap();
    std::fs::write(dir.join("in/full/b.txt"), "b").unwrap();
    std::fs::write(dir.join("in/[x]"), "x").unwrap();
    std::fs::write(dir.join("secret.txt"), "s").unwrap();
    std::os::unix::fs::symlink("..", dir.join("in/out")).unwrap();
    std::os::unix::fs::symlink("../secret.txt", dir.join("in/link.txt")).unwrap();
    let root = root().with_directory(&dir.join("in"), uploads, 100).unwrap();
    let mut rig = Rig::new(Ftp::new(Config::new(root)), Net::default());
    let client = login(&mut rig);
    (dir, rig, client)
}

#[test]
fn the_upload_policy_controls_changes_of_the_tree() {
    // RFC 959 4.1.3 and 5.4: MKD 257, RMD and DELE 250, RNFR 350 and RNTO 250; 550 if not
    // permitted.
    for (uploads, permitted) in [(Uploads::Refused, 0), (Uploads::New, 1), (Uploads::Replace, 2)] {
        let (dir, mut rig, client) = session_in("tree", uploads);
        let mut said = |lines: &str| codes(&rig.say(client, lines.replace('|', "\r\n").as_bytes())).join(" ");
        let expect = |from: i32, yes: &'static str| if permitted >= from { yes } else { "550" };
        assert_eq!(said("MKD new|"), expect(1, "257"));
        assert_eq!(said("XMKD new|"), "550");
        assert_eq!(said("MKD no/new|"), "550");
        assert_eq!(said("RMD full|"), "550", "it is not empty");
        assert_eq!(said("RNFR a.txt|RNTO full/../b.txt|"), if permitted == 2 { "350 250" } else { "550 503" });
        assert_eq!(said("RNFR full|NOOP|RNTO f|").split(' ').next_back(), Some("503"), "something came between");
        assert_eq!(
            said("RNFR full|RNTO full/in|").split(' ').next_back().unwrap(),
            if permitted == 2 { "553" } else { "503" }
        );
        assert_eq!(said("DELE full/b.txt|"), expect(2, "250"));
        assert_eq!(said("DELE full|"), "550");
        assert_eq!(said("RMD full|"), expect(2, "250"));
        assert_eq!(said("RMD a.txt|"), "550");
        // Links that lead out of the root count as nonexistent, built-in files cannot be changed,
        // and the root cannot be removed.
        for line in [
            "DELE link.txt",
            "RNFR link.txt",
            "DELE out/secret.txt",
            "MKD out/new",
            "RMD out",
            "DELE /pub/two",
            "RMD /pub",
            "RMD /",
            "RNFR /",
            "MKD /dev/zero",
            "RNFR /nothing",
        ] {
            assert_eq!(said(&format!("{line}|")), "550", "{uploads:?} {line}");
        }
        assert!(std::fs::exists(dir.join("secret.txt")).unwrap() && !std::fs::exists(dir.join("new")).unwrap());
        if permitted == 2 {
            assert_eq!(
                said("RNFR b.txt|RNTO out/b.txt|RNFR b.txt|RNTO /pub/two|RNFR b.txt|RNTO new|"),
                "350 550 350 550 350 550"
            );
            assert_eq!(std::fs::read(dir.join("in/b.txt")).unwrap(), b"a");
            assert_eq!(said("MKD a \"b\"|").as_str(), "257");
            assert!(rig.say(client, b"MKD c \"d\"\r\n").starts_with("257 \"/c \"\"d\"\"\" created."));
            assert_eq!(rig.server.app.counts.changes.get(), 6);
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn patterns_match_names_on_disk() {
    let (dir, mut rig, client) = session_in("patterns", Uploads::Refused);
    for (line, expected) in [
        ("NLST *.txt", "a.txt\r\n"),
        ("NLST .*", ".hidden.txt\r\n"),
        ("NLST full/*", "full/b.txt\r\n"),
        ("NLST [x]", "[x]\r\n"),
        ("NLST \\[*", "[x]\r\n"),
    ] {
        let data = passive(&mut rig, client);
        assert_eq!(codes(&rig.say(client, format!("{line}\r\n").as_bytes())), ["150", "226"], "{line}");
        assert_eq!(rig.receive(data), expected, "{line}");
    }
    for line in ["NLST out/*", "NLST link*", "LIST */b.txt"] {
        assert_eq!(codes(&rig.say(client, format!("{line}\r\n").as_bytes())), ["450"], "{line}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn mlst_lists_the_selected_facts() {
    // RFC 3659 7.8: FEAT marks selected facts; 7.9: OPTS selects; 7.2: an entry starts with one
    // space.
    let (dir, mut rig, client) = session_in("facts", Uploads::Replace);
    let features = rig.say(client, b"FEAT\r\n");
    assert!(features.contains("\r\n MLST type*;size*;modify*;perm*;\r\n"), "{features}");
    let listed = rig.say(client, b"MLST a.txt\r\n");
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!((lines[0], lines[2]), ("250-Listing /a.txt", "250 End"));
    assert!(
        lines[1].starts_with(" type=file;size=1;modify=2") && lines[1].ends_with(";perm=adfrw; /a.txt"),
        "{listed}"
    );
    assert_eq!(rig.say(client, b"OPTS MLST Size;perm;unique;\r\n"), "200 MLST OPTS size;perm;\r\n");
    let features = rig.say(client, b"FEAT\r\n");
    assert!(features.contains("\r\n MLST type;size*;modify;perm*;\r\n"), "{features}");
    assert_eq!(rig.say(client, b"MLST full\r\n").lines().nth(1), Some(" perm=cdeflmp; /full"));
    let data = passive(&mut rig, client);
    assert_eq!(codes(&rig.say(client, b"MLSD full\r\n")), ["150", "226"]);
    assert_eq!(rig.receive(data), "size=1;perm=adfrw; b.txt\r\n");
    assert_eq!(rig.say(client, b"OPTS MLST\r\n"), "200 MLST OPTS\r\n");
    assert_eq!(rig.say(client, b"MLST full\r\n").lines().nth(1), Some("  /full"));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_long_listing_on_the_control_connection_waits_for_its_reader() {
    let (dir, _, _) = session_in("status", Uploads::Refused);
    (0..2_000).for_each(|n| std::fs::write(dir.join(format!("in/file-{n}")), "").unwrap());
    let root = Root::empty().with_directory(&dir.join("in"), Uploads::Refused, 0).unwrap();
    let mut rig = Rig::new(Ftp::new(Config::new(root)), Net { window: 1_000, ..Net::default() });
    let client = rig.client();
    let mut said = rig.say(client, b"USER ftp\r\nPASS x\r\nSTAT /\r\nNOOP\r\n");
    let mut most = 0;
    for _ in 0..10_000 {
        let some = rig.receive(client);
        most = most.max(some.len());
        said += &some;
        if said.ends_with("200 Command okay.\r\n") {
            break;
        }
    }
    assert_eq!(said.lines().filter(|line| line.contains(" file-")).count(), 2_000);
    assert_eq!(codes(&said), ["220", "331", "230", "212", "200"], "what comes behind it waits");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn abor_ends_a_download_and_other_commands_are_queued() {
    let mut rig = rig();
    let client = login(&mut rig);
    let data = passive(&mut rig, client);
    assert_eq!(codes(&rig.say(client, b"TYPE I\r\nRETR /dev/zero\r\n")), ["200", "150"]);
    let mut bytes = 0;
    for _ in 0..100 {
        bytes += rig.net.far_recv(data, 1 << 20).len();
        rig.run_until_idle();
    }
    assert_eq!(bytes, 100 * 64 * 1024);
    assert_eq!(rig.say(client, b"NOOP\r\n"), "", "a transfer is going on");
    assert_eq!(rig.say(client, b"ABOR\r\n"), "", "it is behind the NOOP");
    rig.net.far_reset(data);
    assert_eq!(codes(&rig.receive(client)), ["426", "200", "226"]);
    // The Telnet form of an abort: IP (interrupt process), DM (data mark), ABOR.
    let data = passive(&mut rig, client);
    rig.say(client, b"RETR /dev/zero\r\n");
    assert_eq!(codes(&rig.say(client, b"\xff\xf4\xff\xf2ABOR\r\n")), ["426", "226"]);
    assert!(rig.net.is_reset(data));
    assert_eq!(rig.server.app.counts.transfers_aborted.get(), 1);
}

#[test]
fn epsv_all_rejects_other_data_connection_commands() {
    let mut rig = rig();
    let client = login(&mut rig);
    assert_eq!(
        codes(&rig.say(client, b"EPSV ALL\r\nPASV\r\nPORT 1,0,0,2,200,1\r\nEPRT |1|1.0.0.2|50000|\r\nEPSV\r\n")),
        ["200", "503", "503", "503", "229"]
    );
}

#[test]
fn login_has_limits() {
    let mut rig = rig();
    let client = rig.client();
    let attempts = rig.say(client, &b"USER root\r\nPASS x\r\n".repeat(6));
    assert_eq!(codes(&attempts), ["220", "331", "530", "331", "530", "331", "530", "331", "530", "331", "421"]);
    assert!(rig.net.far_eof(client));
    assert_eq!(rig.server.app.counts.logins_refused.get(), 5);
    // No login within a minute.
    let client = rig.client();
    rig.receive(client);
    rig.pass(Duration::from_secs(59));
    rig.say(client, b"NOOP\r\n");
    rig.pass(Duration::from_secs(1));
    assert_eq!(codes(&rig.receive(client)), ["421"]);
    assert_eq!((rig.server.app.counts.idle.get(), rig.server.app.sessions()), (1, 0));
}

#[test]
fn sessions_have_limits() {
    let config = Config { sessions_max: 3, sessions_per_peer: 2, ..Config::new(root()) };
    let mut rig = Rig::new(Ftp::new(config), Net::default());
    let clients =
        [rig.client(), rig.client(), rig.client(), rig.client_from([1, 0, 0, 3]), rig.client_from([1, 0, 0, 4])];
    let heard = clients.map(|client| codes(&rig.receive(client)).join(" "));
    assert_eq!(heard, ["220", "220", "421", "220", "421"]);
    assert_eq!((rig.server.app.counts.sessions.get(), rig.server.app.counts.refused.get()), (3, 2));
    rig.net.far_reset(clients[0]);
    rig.run_until_idle();
    let next = rig.client();
    assert_eq!(codes(&rig.receive(next)), ["220"]);
}

#[test]
fn the_longest_idle_session_is_evicted_with_all_its_channels() {
    let config = Config { sessions_max: 2, ..Config::new(root()) };
    let mut rig = Rig::new(Ftp::new(config), Net::default());
    let (idle, busy) = (login(&mut rig), login(&mut rig));
    assert_eq!(codes(&rig.say(idle, b"PASV\r\n")), ["227"], "a listener of its own");
    let data = passive(&mut rig, busy);
    rig.say(busy, b"RETR /dev/zero\r\n");
    for _ in 0..4 {
        rig.pass(Duration::from_millis(500));
        rig.net.far_recv(data, 1 << 20);
        rig.run_until_idle();
    }
    let next = rig.client_from([1, 0, 0, 3]);
    assert_eq!(codes(&rig.receive(next)), ["220"]);
    assert!(rig.net.is_reset(idle) && !rig.net.is_reset(busy) && !rig.net.is_reset(data));
    assert_eq!(rig.net.listeners().len(), 1, "the service alone");
    // A session with a stalled data connection is evicted together with it.
    assert_eq!(codes(&rig.say(next, b"NOOP\r\n")), ["200"]);
    rig.pass(Duration::from_secs(2));
    rig.say(next, b"NOOP\r\n");
    let last = rig.client_from([1, 0, 0, 4]);
    assert_eq!(codes(&rig.receive(last)), ["220"]);
    assert!(rig.net.is_reset(busy) && rig.net.is_reset(data) && !rig.net.is_reset(next));
    assert_eq!((rig.server.app.counts.evicted.get(), rig.server.app.sessions(), rig.net.fds()), (2, 2, 3));
}

#[test]
fn the_silent_and_the_stalled_are_ended() {
    let mut rig = rig();
    let client = login(&mut rig);
    // A listener without any connection.
    rig.say(client, b"EPSV\r\nRETR /pub/two\r\n");
    rig.pass(Duration::from_secs(60));
    assert_eq!(codes(&rig.receive(client)), ["425"]);
    assert_eq!(rig.net.listeners().len(), 1, "the service alone");
    // A client that does not read.
    let data = passive(&mut rig, client);
    rig.say(client, b"RETR /dev/zero\r\n");
    rig.pass(Duration::from_secs(59));
    assert!(!rig.net.is_reset(data));
    rig.pass(Duration::from_secs(1));
    assert_eq!(codes(&rig.receive(client)), ["426"]);
    assert!(rig.net.is_reset(data));
    // A client that does not send.
    let data = passive(&mut rig, client);
    rig.say(client, b"STOR /dev/null\r\n");
    rig.say(data, b"x");
    rig.pass(Duration::from_secs(60));
    assert_eq!(codes(&rig.receive(client)), ["426"]);
    assert_eq!(rig.server.app.counts.stalled.get(), 3);
    // A session without a command for five minutes.
    rig.pass(Duration::from_secs(299));
    assert_eq!(rig.receive(client), "");
    rig.pass(Duration::from_secs(1));
    assert_eq!(codes(&rig.receive(client)), ["421"]);
    rig.pass(Duration::from_secs(3));
    assert_eq!((rig.server.open_chans(), rig.net.fds()), (0, 1));
}

#[test]
fn unread_replies_are_bounded() {
    let mut rig = Rig::new(Ftp::new(Config::new(root())), Net { window: 100, ..Net::default() });
    let client = rig.client();
    let mut taken = 0;
    for _ in 0..2_000 {
        taken += rig.net.far_send(client, b"HELP\r\n");
        rig.run_until_idle();
    }
    // The server accepts as much as fills one reply buffer, one buffer of commands, and the socket
    // windows.
    assert!(taken < 6_000, "{taken}");
    rig.pass(Duration::from_secs(61));
    assert!(rig.net.is_reset(client));
    assert_eq!((rig.server.app.counts.deaf.get(), rig.server.app.sessions()), (1, 0));
}

#[test]
fn lines_have_limits() {
    let mut rig = rig();
    let client = login(&mut rig);
    let long = [b"NOOP ".to_vec(), vec![b'x'; 5_000], b"\r\n".to_vec()].concat();
    assert_eq!(codes(&rig.say(client, &long)), ["500"]);
    assert_eq!(codes(&rig.say(client, b"NOOP\r\n")), ["200"], "the rest of the line is no command");
    // An endless line.
    let mut said = String::new();
    for _ in 0..100 {
        said += &rig.say(client, &[b'y'; 1_000]);
    }
    assert_eq!(codes(&said), ["421"]);
    assert!(rig.net.far_eof(client));
    assert_eq!((rig.server.app.counts.overlong.get(), rig.server.app.sessions()), (2, 0));
    // Unknown commands without end.
    let client = login(&mut rig);
    let said = rig.say(client, &b"X\r\n".repeat(100));
    assert_eq!((codes(&said).len(), codes(&said).last()), (52, Some(&"421")));
    assert_eq!(rig.server.app.counts.erring.get(), 1);
}

#[test]
fn a_half_closed_client_receives_all_replies() {
    let mut rig = rig();
    let client = rig.client();
    rig.net.far_send(client, b"USER ftp\r\nPASS x\r\nPWD\r\n");
    rig.net.far_shut(client);
    assert_eq!(codes(&rig.receive(client)), ["220", "331", "230", "257"]);
    assert!(rig.net.far_eof(client) && !rig.net.is_reset(client));
    assert_eq!((rig.server.app.sessions(), rig.net.fds()), (0, 1));
}

#[test]
fn a_reset_session_closes_its_data_connection() {
    let mut rig = rig();
    let client = login(&mut rig);
    let data = passive(&mut rig, client);
    rig.say(client, b"RETR /dev/zero\r\n");
    rig.net.far_reset(client);
    rig.run_until_idle();
    assert!(rig.net.is_reset(data));
    assert_eq!((rig.server.app.sessions(), rig.server.open_chans(), rig.net.fds()), (0, 0, 1));
}

#[test]
fn commands_are_parsed() {
    use command::{BadEprt, Command, extended_port, host_port, listed_name, offset};
    assert_eq!(Command::parse(b"user  a b "), Command::User(b" a b "));
    assert_eq!(Command::parse(b"QUIT"), Command::Quit);
    assert_eq!(Command::parse(b"QUITE"), Command::Unknown);
    assert_eq!(host_port(b"1,2,3,4,5,6"), Some("1.2.3.4:1286".parse().unwrap()));
    for bad in
        ["1,2,3,4,5", "1,2,3,4,5,6,7", "256,2,3,4,5,6", "1,2,3,4,5,+6", "1,2,3,4,,6", "0001,2,3,4,5,6", "1.2.3.4,5,6"]
    {
        assert_eq!(host_port(bad.as_bytes()), None, "{bad}");
    }
    assert_eq!(extended_port(b"|2|::1|6275|"), Ok("[::1]:6275".parse().unwrap()));
    assert_eq!(extended_port(b"!1!1.2.3.4!21!"), Ok("1.2.3.4:21".parse().unwrap()));
    assert_eq!(extended_port(b"|3|1.2.3.4|21|"), Err(BadEprt::Protocol));
    for bad in [
        "",
        "|",
        "||||",
        "|1|1.2.3.4|21",
        "|1|1.2.3.4|65536|",
        "|1|::1|21|",
        "|1|1.2.3.4|+21|",
        "|x|1.2.3.4|21|",
        "1|1.2.3.4|21|",
    ] {
        assert_eq!(extended_port(bad.as_bytes()), Err(BadEprt::Syntax), "{bad}");
    }
    assert_eq!(offset(b" 12 "), Some(12));
    assert_eq!(offset(b"-1"), None);
    assert_eq!(listed_name(b" -la -R  a b"), b"a b");
    assert_eq!(listed_name(b"-"), b"");
}

proptest! {
    #[test]
    fn lines_do_not_depend_on_segmentation(lines in proptest::collection::vec("[ -~]{0,60}", 0..20), cuts in proptest::collection::vec(1..50usize, 1..20)) {
        let bytes: Vec<u8> = lines.iter().flat_map(|line| [line.as_bytes(), b"\r\n"].concat()).collect();
        let (mut held, mut out, mut rest) = (line::Lines::default(), Vec::new(), &bytes[..]);
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (some, behind) = rest.split_at(rest.len().min(*cut).min(held.room()));
            held.push(some);
            rest = behind;
            while let Some(line) = held.next_line() {
                out.push(line);
            }
        }
        let expected: Vec<_> = lines.iter().map(|line| line::Line::Text(line.as_bytes().to_vec())).collect();
        prop_assert_eq!(out, expected);
    }

    #[test]
    fn any_arguments_are_parsed_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let _ = (command::host_port(&bytes), command::extended_port(&bytes), command::offset(&bytes));
        let _ = (command::listed_name(&bytes), command::Command::parse(&bytes));
    }
}
