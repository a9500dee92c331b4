//! Linux names of this stack's sysctls, for users of Linux and its scripts.
//!
//! A Linux name without a corresponding sysctl is accepted if its value matches the fixed behavior
//! of this stack, and rejected otherwise.

use super::Sysctls;

impl Sysctls {
    /// Sets a sysctl by its own name or its Linux name, with or without a leading `/proc/sys/` or
    /// `net.ipv4.`. The format of `value` is that of `sysctl`.
    ///
    /// # Errors
    /// A message if the name is unknown or the value is not valid.
    pub fn set_as_linux(&self, name: &str, value: &str) -> Result<(), String> {
        let name = name.trim_start_matches("/proc/sys/").replace('/', ".");
        let number = |text: &str| number(text).ok_or_else(|| format!("'{name}={value}': the value is not a number"));
        let ours = |ours: &str, value: i64| match self.set(ours, value) {
            Some(Ok(())) => Ok(()),
            Some(Err(range)) => Err(format!("'{name}={value}': {ours} must be {} to {}", range.min, range.max)),
            None => Err(format!("unknown sysctl '{ours}'")),
        };
        if self.get(&name).is_some() {
            return ours(&name, number(value)?);
        }
        let linux = name.strip_prefix("net.ipv4.").unwrap_or(&name);
        let sizes = || {
            let sizes: Vec<_> = value.split([' ', '\t', ':']).filter(|word| !word.is_empty()).collect();
            let sizes = sizes.into_iter().map(number).collect::<Result<Vec<_>, _>>()?;
            <[i64; 3]>::try_from(sizes).map_err(|_| format!("'{name}={value}': expected min, initial and max size"))
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
            "tcp_syn_retries" => ours("net.inet.tcp.syn_retries", number(value)?),
            "tcp_synack_retries" => ours("net.inet.tcp.synack_retries", number(value)?),
            "tcp_rto_max_ms" => ours("net.inet.tcp.rto_max", number(value)?),
            "tcp_mtu_probing" => ours("net.inet.tcp.pmtud_blackhole_detection", number(value)?.min(1)),
            "tcp_congestion_control" => match value.trim() {
                "cubic" => ours("net.inet.tcp.cc.cubic", 1),
                "reno" => ours("net.inet.tcp.cc.cubic", 0),
                other => Err(format!("unknown congestion control '{other}' in {name}: expected cubic or reno")),
            },
            "tcp_slow_start_after_idle" => ours("net.inet.tcp.idle_restart", number(value)?),
            "tcp_fack" => as_we_do(linux, value, &["0"]),
            "tcp_frto" => as_we_do(linux, value, &["1", "2"]),
            "tcp_dsack" | "tcp_moderate_rcvbuf" | "tcp_recovery" => as_we_do(linux, value, &["1"]),
            "tcp_reordering" | "tcp_early_retrans" => as_we_do(linux, value, &["3", "4"]),
            "tcp_no_metrics_save" => Ok(()),
            // This affects only the grouping of segments for a port with segmentation offload,
            // which is not visible on the wire.
            "tcp_tso_win_divisor" => Ok(()),
            // The value has an effect only if sending in batches is on.
            "tcp_min_tso_segs" if self.tcp_push_runs.on() => {
                ours("net.inet.tcp.push_runs", number(value)?.clamp(1, 64))
            }
            "tcp_min_tso_segs" => Ok(()),
            // Pacing is used only if a socket requests it.
            "tcp_pacing_ss_ratio" | "tcp_pacing_ca_ratio" => Ok(()),
            // This stack does not have the feature, so the value has no effect. Only a script that
            // tests the feature itself could observe this.
            "tcp_fastopen" | "tcp_fastopen_key" | "tcp_ecn_option" => Ok(()),
            "tcp_notsent_lowat" => as_we_do(linux, value, &["4294967295"]),
            _ => Err(format!("unknown sysctl '{name}'")),
        }
    }
}

/// Parses a decimal or hexadecimal number.
fn number(text: &str) -> Option<i64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn as_we_do(name: &str, value: &str, ours: &[&str]) -> Result<(), String> {
    if ours.contains(&value.trim()) {
        return Ok(());
    }
    Err(format!("'{name}={value}': only {} is supported", ours.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_names_set_the_matching_sysctls() {
        let sysctls = Sysctls::default();
        sysctls.set_as_linux("net.ipv4.tcp_rmem", "4096 540000\t15728640").unwrap();
        assert_eq!((sysctls.tcp_recvspace.get(), sysctls.tcp_recvspace_max.get()), (540_000, 15_728_640));
        sysctls.set_as_linux("/proc/sys/net/ipv4/tcp_ecn", "1\n").unwrap();
        assert_eq!(sysctls.tcp_ecn.get(), 1);
        sysctls.set_as_linux("tcp_timestamps", "0").unwrap();
        assert_eq!(sysctls.tcp_rfc1323.get(), 2);
        sysctls.set_as_linux("net.inet.tcp.initcwnd_segments", "4").unwrap();
        assert_eq!(sysctls.tcp_initcwnd.get(), 4);
        sysctls.set_as_linux("tcp_fastopen", "0x402").unwrap();
    }

    #[test]
    fn unknown_names_and_invalid_values_are_rejected() {
        let sysctls = Sysctls::default();
        for (name, value) in
            [("tcp_nothing", "1"), ("tcp_ecn", "7"), ("tcp_ecn", "on"), ("tcp_rmem", "4096 1"), ("tcp_dsack", "0")]
        {
            assert!(sysctls.set_as_linux(name, value).is_err(), "{name}={value}");
        }
    }
}
