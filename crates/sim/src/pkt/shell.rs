//! What stands between back quotes: knobs set the way a shell would set them, and nothing else.
//!
//! `sysctl`, `echo ... > /proc/sys/...` and scripts that consist of such lines are read, not run. A Linux name leads to our
//! knob; one that stands for something we have no knob for is accepted when it asks for what we do anyway.

use inet::knobs::Knobs;
use std::path::Path;

/// Scripts that call scripts: more is a circle.
const DEPTH_MAX: usize = 4;

/// Does what `text` says to `knobs`; files are looked for beside `dir`, if at all.
pub(super) fn run(text: &str, knobs: &Knobs, dir: Option<&Path>, depth: usize) -> Result<(), String> {
    let text = text.replace("\\\n", " ");
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with('#') {
            continue;
        }
        for command in line.split(';') {
            let words = words(command)?;
            one(&words, knobs, dir, depth)?;
        }
    }
    Ok(())
}

/// The words of a command: quotes joined, `$((...))` computed, comments and where output goes left out.
fn words(command: &str) -> Result<Vec<String>, String> {
    let (mut out, mut word, mut quoted, mut any) = (Vec::new(), String::new(), false, false);
    let mut chars = command.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' | '\'' => (quoted, any) = (!quoted, true),
            '#' if !quoted && word.is_empty() => break,
            '$' if chars.peek() == Some(&'(') => {
                let rest: String = chars.by_ref().take_while(|c| *c != ')').collect();
                chars.next_if_eq(&')');
                let product = rest.trim_matches('(').split('*').map(|n| n.trim().parse::<i64>());
                let product =
                    product.collect::<Result<Vec<_>, _>>().map_err(|_| format!("$({rest}): not a product"))?;
                let product = product.iter().try_fold(1i64, |a, b| a.checked_mul(*b)).ok_or("a number too large")?;
                word.push_str(&product.to_string());
            }
            c if c.is_whitespace() && !quoted => {
                if any || !word.is_empty() {
                    out.push(std::mem::take(&mut word));
                }
                any = false;
            }
            c => word.push(c),
        }
    }
    if any || !word.is_empty() {
        out.push(word);
    }
    Ok(out)
}

fn one(words: &[String], knobs: &Knobs, dir: Option<&Path>, depth: usize) -> Result<(), String> {
    let Some((command, args)) = words.split_first() else { return Ok(()) };
    let name = command.rsplit('/').next().unwrap_or_default();
    match name {
        "sysctl" | "set_sysctls.py" => {
            let args = args.iter().filter(|arg| !arg.starts_with('-')).take_while(|arg| !arg.starts_with('>'));
            args.into_iter().try_for_each(|arg| match arg.split_once('=') {
                Some((name, value)) => set(name, value, knobs),
                None => Err(format!("sysctl {arg}: expected name=value")),
            })
        }
        "echo" => match args {
            [value, to, path] if to == ">" && path.starts_with("/proc/sys/") => set(path, value, knobs),
            [value, to, path] if to == ">" && path.ends_with("hystart_detect") => {
                as_we_do("hystart_detect", value, &["3"])
            }
            _ => Err(format!("'{}' is not run here", words.join(" "))),
        },
        _ if name.starts_with("sysctl_restore_") => Ok(()), // knobs live as long as their script
        "ip" if args.first().is_some_and(|arg| arg == "tcp_metrics") => Ok(()), // nothing is remembered
        "tc" if args.iter().any(|arg| arg == "pfifo") && !args.iter().any(|arg| arg == "limit") => Ok(()), // as we send
        "ethtool" if args.iter().skip(2).step_by(2).eq(["tso", "gso"]) && !args.iter().any(|arg| arg == "on") => Ok(()),
        _ if name.ends_with(".sh") && args.is_empty() => {
            let path = dir.map(|dir| dir.join(command)).ok_or_else(|| format!("{command}: no files are read here"))?;
            if depth >= DEPTH_MAX {
                return Err(format!("{command}: scripts that call scripts"));
            }
            let text = std::fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
            run(&text, knobs, path.parent(), depth + 1)
        }
        _ => Err(format!("'{}' is not run here: knobs can be set, as by sysctl", words.join(" "))),
    }
}

fn as_we_do(name: &str, value: &str, ours: &[&str]) -> Result<(), String> {
    if ours.contains(&value.trim()) {
        return Ok(());
    }
    Err(format!("{name}={value}: there is no knob for this; here it is always {}", ours.join(" or ")))
}

/// Sets a knob by our name or Linux's.
fn set(name: &str, value: &str, knobs: &Knobs) -> Result<(), String> {
    let name = name.trim_start_matches("/proc/sys/").replace('/', ".");
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| format!("{name}={value}: not a number"));
    let ours = |ours: &str, value: i64| match knobs.set(ours, value) {
        Some(Ok(())) => Ok(()),
        Some(Err(range)) => Err(format!("{name}={value}: {ours} goes from {} to {}", range.min, range.max)),
        None => Err(format!("{ours} is no knob")),
    };
    if knobs.get(&name).is_some() {
        return ours(&name, number(value)?);
    }
    let Some(linux) = name.strip_prefix("net.ipv4.") else {
        return Err(format!("{name}: no knob of that name"));
    };
    let sizes = || {
        let sizes: Vec<_> = value.split_whitespace().map(number).collect::<Result<_, _>>()?;
        <[i64; 3]>::try_from(sizes).map_err(|_| format!("{name}={value}: expected least, first and greatest size"))
    };
    match linux {
        "tcp_rmem" => {
            let [_, first, most] = sizes()?;
            ours("net.inet.tcp.recvspace", first)?;
            ours("net.inet.tcp.recvbuf_max", most)
        }
        "tcp_wmem" => {
            let [_, first, most] = sizes()?;
            ours("net.inet.tcp.sendspace", first)?;
            ours("net.inet.tcp.sendbuf_max", most)
        }
        "tcp_timestamps" => ours("net.inet.tcp.rfc1323", if number(value)? == 0 { 2 } else { 1 }),
        "tcp_window_scaling" => ours("net.inet.tcp.rfc1323", number(value)?),
        "tcp_sack" => ours("net.inet.tcp.sack.enable", number(value)?),
        "tcp_ecn" => ours("net.inet.tcp.ecn.enable", number(value)?),
        "tcp_syncookies" => ours("net.inet.tcp.syncookies", number(value)?),
        "tcp_min_snd_mss" => ours("net.inet.tcp.minmss", number(value)?),
        "tcp_keepalive_time" => ours("net.inet.tcp.keepidle", number(value)?.saturating_mul(1000)),
        "tcp_keepalive_intvl" => ours("net.inet.tcp.keepintvl", number(value)?.saturating_mul(1000)),
        "tcp_keepalive_probes" => ours("net.inet.tcp.keepcnt", number(value)?),
        "tcp_max_syn_backlog" => ours("net.inet.tcp.syncache.hashsize", number(value)?),
        "tcp_mtu_probing" => ours("net.inet.tcp.pmtud_blackhole_detection", number(value)?.min(1)),
        "tcp_congestion_control" => match value.trim() {
            "cubic" => ours("net.inet.tcp.cc.cubic", 1),
            "reno" => ours("net.inet.tcp.cc.cubic", 0),
            other => Err(format!("{name}={other}: here there are cubic and reno")),
        },
        "tcp_slow_start_after_idle" => ours("net.inet.tcp.idle_restart", number(value)?),
        "tcp_fack" => as_we_do(linux, value, &["0"]),
        "tcp_frto" => as_we_do(linux, value, &["1", "2"]),
        "tcp_dsack" | "tcp_moderate_rcvbuf" | "tcp_recovery" => as_we_do(linux, value, &["1"]),
        "tcp_reordering" | "tcp_early_retrans" => as_we_do(linux, value, &["3", "4"]),
        "tcp_no_metrics_save" => Ok(()),
        // How segments are gathered for a port that cuts them up: on a wire it does not show.
        "tcp_tso_win_divisor" | "tcp_min_tso_segs" => Ok(()),
        // Pacing is done when it is asked for.
        "tcp_pacing_ss_ratio" | "tcp_pacing_ca_ratio" => Ok(()),
        // What has no knob, and shows only in a script that is about it.
        "tcp_syn_retries" | "tcp_synack_retries" | "tcp_fastopen" | "tcp_fastopen_key" | "tcp_ecn_option" => Ok(()),
        "tcp_notsent_lowat" => as_we_do(linux, value, &["4294967295"]),
        _ => Err(format!("{name}: no knob for this")),
    }
}
