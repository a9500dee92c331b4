//! Tests of forms: parsing, errors, help.

use super::*;

const FORMS: &[Form<&str>] = &[
    Form { grammar: "addm PORT [loop 0-7]", about: "Adds a port.", run: "addm" },
    Form { grammar: "static IF MAC [vlan 1-4094] [permanent,perm]", about: "Adds a static address.", run: "static" },
    Form { grammar: "proto rstp|stp|none,off", about: "Selects the protocol.", run: "proto" },
    Form { grammar: "[-]learn IF", about: "Learns addresses.", run: "learn" },
    Form { grammar: "timeout SECONDS:1-100", about: "Sets the timeout.", run: "timeout" },
    Form { grammar: "rule IF WAY:in|out FILTER...", about: "Appends a rule.", run: "rule" },
    Form { grammar: "inet A [B]", about: "Adds an address.", run: "inet" },
    Form { grammar: "link [show,list]", about: "Lists links.", run: "link" },
    Form { grammar: "link set dev IF [flood on|off] [mtu 68-9000]", about: "Configures a link.", run: "link set" },
    Form { grammar: "ping [-c COUNT:1-9] [-i INTERVAL] [-n] HOST", about: "Pings.", run: "ping" },
    Form { grammar: "get [--why] ADDR [from SRC] [iif IF]", about: "Shows a route.", run: "get" },
    Form { grammar: "lease IF", about: "Requests a lease.", run: "lease" },
    Form { grammar: "lease", about: "Lists leases.", run: "leases" },
    Form { grammar: "route DST [GATEWAY...] [-netmask MASK] [-reject]", about: "Adds a route.", run: "route" },
    Form { grammar: "", about: "Shows everything.", run: "all" },
];

/// Parses a whole command and returns the result of `read`.
fn one<T>(text: &str, read: impl Fn(&str, &Args<'_>) -> T) -> Result<T, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let parsed = parse_all(FORMS, Words::new(&words));
    parsed.map(|(form, args)| read(form.run, &args)).map_err(|why| why.to_string())
}

fn error(text: &str) -> String {
    one(text, |run, _| run.to_string()).expect_err(text)
}

#[test]
fn each_element_has_its_value() {
    let owned = |value: Option<&str>| value.unwrap_or("-").to_string();
    assert_eq!(
        one("addm tap:t0 loop 3", |_, a| (owned(a.get("PORT")), a.number("loop"))),
        Ok(("tap:t0".into(), Some(3)))
    );
    assert_eq!(one("addm tap:t0", |_, a| a.number("loop")), Ok(None));
    let vlan = |_: &str, a: &Args<'_>| (a.has("permanent"), owned(a.get("vlan")));
    assert_eq!(one("static p0 1 perm vlan 7", vlan), Ok((true, "7".into())));
    assert_eq!(one("static p0 1 vlan 7 permanent", vlan), Ok((true, "7".into())));
    assert_eq!(one("proto off", |_, a| a.text("proto").to_string()), Ok("none".into()));
    assert_eq!(one("learn p0", |_, a| a.is_on("learn")), Ok(true));
    assert_eq!(one("-learn p0", |_, a| a.is_on("learn")), Ok(false));
    assert_eq!(one("timeout 9", |_, a| a.number("SECONDS")), Ok(Some(9)));
    assert_eq!(
        one("rule p0 in udp port 9", |_, a| (owned(a.get("WAY")), a.rest().join(" "))),
        Ok(("in".into(), "udp port 9".into()))
    );
    assert_eq!(one("inet 10.0.0.1/8 fe80::1%t0", |_, a| owned(a.get("B"))), Ok("fe80::1%t0".into()));
}

#[test]
fn options_may_stand_before_and_after_values() {
    let ping = |_: &str, args: &Args<'_>| (args.number("COUNT"), args.text("HOST").to_string(), args.has("-n"));
    for text in ["ping -c 3 -n h", "ping h -n -c 3", "ping -n h -c 3"] {
        assert_eq!(one(text, ping), Ok((Some(3), "h".into(), true)), "{text}");
    }
    for text in
        ["get --why a from b iif c", "get a --why from b iif c", "get a from b --why iif c", "get a from b iif c --why"]
    {
        assert_eq!(one(text, |_, args| args.has("--why") && args.has("iif")), Ok(true), "{text}");
    }
    let route = |_: &str, args: &Args<'_>| (args.rest().join(","), args.text("MASK").to_string(), args.words().len());
    assert_eq!(one("route d a -netmask m b", route), Ok(("a,b".into(), "m".into(), 6)));
}

#[test]
fn the_form_with_the_most_leading_words_is_selected() {
    let run = |run: &str, _: &Args<'_>| run.to_string();
    assert_eq!(one("link", run), Ok("link".into()));
    assert_eq!(one("link list", run), Ok("link".into()));
    assert_eq!(one("link set dev p0 mtu 99 flood on", run), Ok("link set".into()));
    assert_eq!(one("", run), Ok("all".into()));
    assert_eq!(one("lease", run), Ok("leases".into()));
    assert_eq!(one("lease t0", run), Ok("lease".into()));
}

#[test]
fn an_error_names_the_word_and_the_expected_form() {
    for (text, message) in [
        (
            "ad tap:t0",
            "unknown word 'ad' (did you mean 'addm'?); possible: addm, static, proto, [-]learn, timeout, rule, inet, link, ping, get, lease, route",
        ),
        (
            "-lern p0",
            "unknown option '-lern' (did you mean '-learn'?); possible: addm, static, proto, [-]learn, timeout, rule, inet, link, ping, get, lease, route",
        ),
        ("addm t loop 1 loop 2", "unexpected word 'loop'"),
        ("inet fe80", "address 'fe80': expected an IP address"),
        ("addm", "expected a port such as tap:tap0 after 'addm'"),
        ("addm t loop", "expected a number from 0 to 7 after 'loop'"),
        ("addm t loop 8", "loop '8': expected a number from 0 to 7"),
        ("addm t lop 1", "unknown word 'lop' (did you mean 'loop'?); possible: loop"),
        ("static p0 1 vlan x", "vlan 'x': expected a number from 1 to 4094"),
        ("proto ospf", "proto 'ospf': expected rstp, stp or none"),
        ("timeout 0", "timeout '0': expected a number from 1 to 100"),
        ("rule p0 up udp", "way 'up': expected in or out"),
        ("rule p0 in", "expected FILTER after 'in'"),
        ("ping -x h", "unknown option '-x' (did you mean '-c'?); possible: -c, -i, -n"),
        ("ping h -x", "unknown option '-x' (did you mean '-c'?); possible: -c, -i, -n"),
        ("ping -c", "expected a number from 1 to 9 after '-c'"),
        ("route d -x", "unknown option '-x'; possible: -netmask, -reject"),
        ("learn p0 p1", "unexpected word 'p1'"),
        ("inet 10.0.0.1 word", "unexpected word 'word'"),
        ("link set", "expected dev after 'set'"),
        ("link sett", "unknown word 'sett' (did you mean 'set'?); possible: show, set"),
        ("link set dev p0 flood", "expected on or off after 'flood'"),
        ("link set dev p0 flod on", "unknown word 'flod' (did you mean 'flood'?); possible: flood, mtu"),
    ] {
        assert_eq!(error(text), message, "{text}");
    }
}

#[test]
fn forms_may_follow_each_other() {
    let words = ["proto", "stp", "-learn", "p0", "timeout", "5"];
    let mut words = Words::new(&words);
    let mut runs = Vec::new();
    while words.peek().is_some() {
        runs.push(parse(FORMS, &mut words).unwrap().0.run);
    }
    assert_eq!(runs, ["proto", "learn", "timeout"]);
}

#[test]
#[should_panic(expected = "has no VLAN")]
fn an_undeclared_name_is_a_fault_of_the_program() {
    let _ = one("proto stp", |_, args| args.has("VLAN"));
}

#[test]
fn help_shows_forms_without_synonyms() {
    let command = Command {
        name: "ifconfig",
        about: "Configure members",
        usage: || usage(FORMS).into_iter().take(5).collect(),
        run: (),
    };
    let expected = "\
ifconfig: Configure members
  ifconfig addm PORT [loop 0-7]
      Adds a port.
  ifconfig static IF MAC [vlan 1-4094] [permanent]
      Adds a static address.
  ifconfig proto rstp|stp|none
      Selects the protocol.
  ifconfig [-]learn IF
      Learns addresses.
  ifconfig timeout SECONDS
      Sets the timeout. SECONDS: 1 to 100.
";
    assert_eq!(command_of(&command), expected);
    let list = command_list(&[command]);
    assert!(list.starts_with("ifconfig  Configure members\n"), "{list}");
}

#[test]
fn forms_that_another_form_hides_are_found() {
    assert_eq!(unreachable(&FORMS.iter().collect::<Vec<_>>()), [""; 0]);
    let hidden = [
        Form { grammar: "[-n] -a", about: "", run: () },
        Form { grammar: "[-n] HOST", about: "", run: () },
        Form { grammar: "show [NAME] [all]", about: "", run: () },
        Form { grammar: "show all", about: "", run: () },
    ];
    assert_eq!(unreachable(&hidden.iter().collect::<Vec<_>>()), ["[-n] HOST"]);
}
