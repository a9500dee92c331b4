//! Texts of the replies: each code that the server sends is followed by the text of the RFCs.

use super::*;
use std::collections::BTreeSet;

/// Codes and the beginnings of their texts, from RFC 959 4.2.1 up to the first full stop or colon.
/// For codes with a free text (211, 213, 214) the beginnings are the server's.
const TEXTS: &[(&str, &[&str])] = &[
    ("150", &["File status okay; about to open data connection"]),
    ("200", &["Command okay.", "MLST OPTS"]), // RFC 3659 7.9
    ("202", &["Command not implemented, superfluous at this site."]),
    ("211", &["Status: ", "Extensions:"]), // RFC 2389 3.2
    ("212", &["Directory status:"]),
    ("213", &["File status:", "8"]), // RFC 3659 4: the size alone
    ("214", &["The commands are:"]),
    ("215", &["UNIX Type: L8"]), // RFC 943, System Names
    ("220", &["Service ready for new user"]),
    ("221", &["Service closing control connection."]),
    ("226", &["Closing data connection"]),
    ("227", &["Entering Passive Mode (1,0,0,1,"]),
    ("229", &["Entering Extended Passive Mode (|||"]), // RFC 2428 3
    ("230", &["User logged in, proceed."]),
    ("250", &["Requested file action okay, completed.", "Listing /"]), // RFC 3659 7.2
    ("257", &["\""]),
    ("331", &["User name okay, need password."]),
    ("350", &["Requested file action pending further information"]),
    ("421", &["Service not available, closing control connection"]),
    ("425", &["Can't open data connection"]),
    ("426", &["Connection closed; transfer aborted"]),
    ("450", &["Requested file action not taken: "]),
    ("451", &["Requested action aborted: "]),
    ("452", &["Requested action not taken: "]),
    ("500", &["Syntax error, command unrecognized"]),
    ("501", &["Syntax error in parameters or arguments"]),
    ("502", &["Command not implemented."]),
    ("503", &["Bad sequence of commands"]),
    ("504", &["Command not implemented for that parameter"]),
    ("522", &["Network protocol not supported, use ("]), // RFC 2428 2
    ("530", &["Not logged in."]),
    ("550", &["Requested action not taken: "]),
    ("552", &["Requested file action aborted: "]),
    ("553", &["Requested action not taken: "]),
    ("554", &["Requested action not taken: "]), // RFC 1123 4.1.3.4
];

/// Returns the first lines of the replies as (code, text); checks the format of multi-line replies
/// (RFC 959 4.2).
fn first_lines(said: &str) -> Vec<(String, String)> {
    let (mut found, mut open) = (Vec::new(), None::<String>);
    for line in said.split_terminator("\r\n") {
        if let Some(code) = &open {
            if line.starts_with(&format!("{code} ")) {
                open = None;
            }
            continue;
        }
        let (code, text) = line.split_at_checked(3).unwrap_or_else(|| panic!("no reply: {line:?}"));
        assert!(code.bytes().all(|byte| byte.is_ascii_digit()), "no code: {line:?}");
        assert!(text.starts_with([' ', '-']), "neither a space nor a hyphen after the code: {line:?}");
        if text.starts_with('-') {
            open = Some(code.to_owned());
        }
        found.push((code.to_owned(), text[1..].to_owned()));
    }
    assert_eq!(open, None, "a reply without its last line: {said:?}");
    found
}

/// Returns the codes at the start of string literals in the server's source.
fn codes_in_source() -> BTreeSet<String> {
    let sources = [
        include_str!("../../ftp.rs"),
        include_str!("../session.rs"),
        include_str!("../session/access.rs"),
        include_str!("../session/files.rs"),
    ];
    let literals = sources.iter().flat_map(|source| source.split('"'));
    let codes = literals.filter_map(|text| {
        let (code, text) = text.split_at_checked(3)?;
        let is_reply = code.bytes().all(|byte| byte.is_ascii_digit()) && text.starts_with([' ', '-']);
        is_reply.then(|| code.to_owned())
    });
    codes.collect()
}

/// Returns the replies of several sessions, one of them with write access. Every reply that the
/// server can send occurs.
fn a_long_session(name: &str) -> String {
    let dir = std::env::temp_dir().join(format!("linerate-ftp-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("large"), [0; 200]).unwrap();
    // Matching the pattern below against all of these exceeds the step limit of a listing.
    std::fs::create_dir_all(dir.join("slow")).unwrap();
    (0..6_000).for_each(|n| std::fs::write(dir.join(format!("slow/{}{n}", "a".repeat(250))), "").unwrap());
    let root = root().with_directory(&dir, Uploads::Replace, 100).unwrap();
    let mut rig = Rig::new(Ftp::new(Config::new(root)), Net::default());
    let client = rig.client();
    let mut said = rig.receive(client);
    let mut say = |rig: &mut Rig<Ftp>, lines: &str| {
        lines.lines().for_each(|line| said += &rig.say(client, format!("{line}\r\n").as_bytes()));
    };
    say(&mut rig, "PASS x\nPWD\nUSER root\nPASS x\nUSER ftp\nPASS x\nPASS x\nSYST\nFEAT\nHELP\nNOOP\nALLO 1\nSTAT");
    say(
        &mut rig,
        "OPTS MLST size;\nOPTS X\nPWD\nCWD pub\nCDUP\nCWD\nCWD /nowhere\nLIST /nowhere\nCWD a\x7fb\nTYPE E\nTYPE A\nMODE B\nSTRU R",
    );
    say(
        &mut rig,
        "SIZE /pub/two\nTYPE I\nSIZE /pub/two\nSIZE /dev/zero\nMDTM /pub/two\nSTAT /pub\nSTAT /pub/two\nMLST /pub",
    );
    say(
        &mut rig,
        "SITE x\nXYZZY\nRNTO x\nRETR /pub/two\nREST x\nREST 9\nRETR /pub/two\nMLSD /pub/two\nPORT 1,2\nEPRT 1",
    );
    say(&mut rig, "PORT 1,0,0,2,0,25\nPORT 1,0,0,2,200,1\nEPRT |2|::1|5000|\nEPSV 7\nEPSV x\nPASV\nABOR");
    say(&mut rig, "MKD new\nRNFR new\nRNTO other\nRMD other\nDELE nothing");
    say(&mut rig, &format!("NLST /slow/*{}b", "a".repeat(125)));
    let mut transfer = |line: &str, bytes: &[u8]| {
        let at = rig.say(client, b"EPSV\r\n");
        said += &at;
        let data = rig.net.connect_from(SocketAddr::from(([1, 0, 0, 2], 60_000)), place(&at)).unwrap();
        rig.run_until_idle();
        said += &rig.say(client, format!("{line}\r\n").as_bytes());
        rig.say(data, bytes);
        rig.net.far_shut(data);
        said += &rig.receive(client);
    };
    transfer("RETR /pub/two", b"");
    transfer("STOR long", &[1; 101]);
    transfer("REST 150\r\nSTOR large", b"");
    transfer("RETR /dev/zero\r\nABOR", b"");
    said += &rig.say(client, b"EPSV ALL\r\nPASV\r\nREIN\r\nQUIT\r\n");
    // Sessions ended by timeouts: no data connection, a stalled data connection, no command.
    let client = login(&mut rig);
    rig.say(client, b"EPSV\r\nRETR /pub/two\r\n");
    rig.pass(Duration::from_secs(60));
    said += &rig.receive(client);
    let _data = passive(&mut rig, client);
    rig.say(client, b"TYPE I\r\nRETR /dev/zero\r\n");
    rig.pass(Duration::from_secs(60));
    said += &rig.receive(client);
    rig.pass(Duration::from_secs(300));
    said += &rig.receive(client);
    std::fs::remove_dir_all(&dir).unwrap();
    said
}

/// RFC 959 4.2, 5.4: a reply is a code, a space or hyphen, and the RFC's text for the code.
#[test]
fn replies_begin_with_the_texts_of_the_rfcs() {
    let said = a_long_session("texts");
    let replies = first_lines(&said);
    for (code, text) in &replies {
        let known =
            TEXTS.iter().find(|(known, _)| known == code).unwrap_or_else(|| panic!("{code} {text}: no such code"));
        assert!(known.1.iter().any(|begin| text.starts_with(begin)), "{code} {text}: expected {:?}", known.1);
    }
    let seen: BTreeSet<String> = replies.into_iter().map(|(code, _)| code).collect();
    let known: BTreeSet<String> = TEXTS.iter().map(|(code, _)| (*code).to_owned()).collect();
    assert_eq!(seen, known, "each code of the table occurs: {said}");
    assert_eq!(codes_in_source(), known, "each code of the source is in the table");
}
