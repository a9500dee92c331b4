//! Runs code such as `%{ assert tcpi_snd_cwnd == 10 }%`: evaluates the subset of Python that
//! scripts use, on values of `TCP_INFO`.

use std::collections::BTreeMap;
use tcp::Info;

/// Maximum number of variables in a script.
const VARS_MAX: usize = 64;

/// Runs the statements of `code` on `info`. An error contains the failed assertion and the values
/// used in it.
pub(crate) fn run(code: &str, info: &Info, vars: &mut BTreeMap<String, i64>) -> Result<(), String> {
    let code = code.replace("\\\n", " ");
    for statement in split(&code) {
        let statement = statement.trim();
        if statement.is_empty() || statement.starts_with('#') || statement.starts_with("print") {
            continue;
        }
        if let Some((name, rest)) = statement
            .split_once('=')
            .filter(|(name, rest)| !rest.starts_with('=') && name.trim().chars().all(word) && vars.len() < VARS_MAX)
        {
            let mut eval = Eval { rest, info, vars, seen: Vec::new(), depth: 0 };
            let value = eval.or()?;
            vars.insert(name.trim().to_owned(), value);
            continue;
        }
        let Some(claim) = statement.strip_prefix("assert").filter(|rest| !rest.starts_with(word)) else {
            return Err(format!("unsupported statement '{statement}': expected assert, print or name = value"));
        };
        let mut eval = Eval { rest: claim, info, vars, seen: Vec::new(), depth: 0 };
        let value = eval.or()?;
        let after = eval.rest.trim_start();
        if !after.is_empty() && !after.starts_with(',') {
            return Err(format!("'{statement}': unexpected '{after}'"));
        }
        if value == 0 {
            return Err(format!("assert {}: {}", claim.trim(), eval.seen.join(", ")));
        }
    }
    Ok(())
}

/// Splits the code into statements, which end at a newline or at a semicolon outside quotes.
fn split(code: &str) -> Vec<String> {
    let (mut out, mut statement, mut quote) = (Vec::new(), String::new(), None);
    for c in code.chars() {
        match (c, quote) {
            ('\n' | ';', None) => out.push(std::mem::take(&mut statement)),
            (c, Some(open)) if c == open => {
                quote = None;
                statement.push(c);
            }
            ('"' | '\'', None) => {
                quote = Some(c);
                statement.push(c);
            }
            (c, _) => statement.push(c),
        }
    }
    out.push(statement);
    out
}

fn word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

type Way = fn(&i64, &i64) -> bool;

/// Maximum nesting of parentheses.
const DEPTH_MAX: usize = 32;

struct Eval<'a> {
    rest: &'a str,
    info: &'a Info,
    vars: &'a BTreeMap<String, i64>,
    /// Names and values of the fields that were read, for the error message.
    seen: Vec<String>,
    depth: usize,
}

impl Eval<'_> {
    fn eat(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        let Some(after) = rest.strip_prefix(token) else { return false };
        if token.ends_with(word) && after.starts_with(word) {
            return false;
        }
        self.rest = after;
        true
    }

    fn or(&mut self) -> Result<i64, String> {
        let mut value = self.and()?;
        while self.eat("or") {
            let other = self.and()?;
            value = i64::from(value != 0 || other != 0);
        }
        Ok(value)
    }

    fn and(&mut self) -> Result<i64, String> {
        let mut value = self.not()?;
        while self.eat("and") {
            let other = self.not()?;
            value = i64::from(value != 0 && other != 0);
        }
        Ok(value)
    }

    fn not(&mut self) -> Result<i64, String> {
        if self.eat("not") {
            return Ok(i64::from(self.compare()? == 0));
        }
        self.compare()
    }

    /// Evaluates chained comparisons, as in `1 <= x <= 3`.
    fn compare(&mut self) -> Result<i64, String> {
        let mut left = self.bits()?;
        let mut holds = None;
        loop {
            let ways: [(&str, Way); 6] = [
                ("==", |a, b| a == b),
                ("!=", |a, b| a != b),
                ("<=", |a, b| a <= b),
                (">=", |a, b| a >= b),
                ("<", |a, b| a < b),
                (">", |a, b| a > b),
            ];
            let Some((_, way)) = ways.into_iter().find(|(token, _)| self.eat(token)) else {
                return Ok(holds.map_or(left, i64::from));
            };
            let right = self.bits()?;
            holds = Some(holds.unwrap_or(true) && way(&left, &right));
            left = right;
        }
    }

    fn bits(&mut self) -> Result<i64, String> {
        let mut value = self.sum()?;
        loop {
            if self.eat("&") {
                value &= self.sum()?;
            } else if self.eat("|") {
                value |= self.sum()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn sum(&mut self) -> Result<i64, String> {
        let mut value = self.product()?;
        loop {
            if self.eat("+") {
                value = value.wrapping_add(self.product()?);
            } else if self.eat("-") {
                value = value.wrapping_sub(self.product()?);
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<i64, String> {
        let mut value = self.value()?;
        loop {
            let divide = self.eat("//") || self.eat("/");
            if !divide && !self.eat("*") {
                return Ok(value);
            }
            let right = self.value()?;
            value = match divide {
                true => value.checked_div(right).ok_or("division by zero")?,
                false => value.wrapping_mul(right),
            };
        }
    }

    fn value(&mut self) -> Result<i64, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("expression nested too deeply".to_owned());
        }
        let value = if self.eat("(") {
            let value = self.or()?;
            if !self.eat(")") {
                return Err(format!("missing ')' before '{}'", self.rest));
            }
            value
        } else if self.eat("abs") {
            self.value()?.wrapping_abs()
        } else if self.eat("-") {
            self.value()?.wrapping_neg()
        } else {
            self.name_or_number()?
        };
        self.depth -= 1;
        Ok(value)
    }

    fn name_or_number(&mut self) -> Result<i64, String> {
        let rest = self.rest.trim_start();
        let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        self.rest = after;
        if let Some(hex) = name.strip_prefix("0x") {
            return i64::from_str_radix(hex, 16).map_err(|_| format!("'{name}' is not a number"));
        }
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            return name.parse().map_err(|_| format!("'{name}' is not a number"));
        }
        if let Some((_, value)) = NAMES.iter().find(|(known, _)| *known == name) {
            return Ok(*value);
        }
        if let Some(value) = self.vars.get(name) {
            self.seen.push(format!("{name} is {value}"));
            return Ok(*value);
        }
        let value = field(name, self.info).ok_or_else(|| format!("unknown TCP_INFO field '{name}'"))?;
        self.seen.push(format!("{name} is {value}"));
        Ok(value)
    }
}

/// Constants from linux/tcp.h by name.
const NAMES: &[(&str, i64)] = &[
    ("True", 1),
    ("False", 0),
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
    ("TCPI_OPT_ECN_SEEN", 16),
    ("TCPI_OPT_SYN_DATA", 32),
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_LISTEN", 10),
    ("TCP_CLOSING", 11),
];

/// Returns the number of a state in linux/tcp.h.
pub(crate) fn state(state: tcp::State) -> i64 {
    use tcp::State::*;
    match state {
        Established => 1,
        SynSent => 2,
        SynReceived => 3,
        FinWait1 => 4,
        FinWait2 => 5,
        TimeWait => 6,
        Closed => 7,
        CloseWait => 8,
        LastAck => 9,
        Closing => 11,
    }
}

/// Returns a field by its name in struct tcp_info, with times in microseconds or milliseconds as in
/// that struct.
fn field(name: &str, info: &Info) -> Option<i64> {
    let us = |time: clock::Duration| time.as_micros() as i64;
    let ms = |time: clock::Duration| time.as_millis() as i64;
    let name = name.strip_prefix("tcpi_")?;
    Some(match name {
        "state" => state(info.state),
        "ca_state" => info.ca_state.into(),
        "retransmits" => info.retransmits.into(),
        "probes" => info.probes.into(),
        "backoff" => info.backoff.into(),
        "options" => info.options.into(),
        "snd_wscale" => info.snd_wscale.into(),
        "rcv_wscale" => info.rcv_wscale.into(),
        "rto" => us(info.rto),
        "ato" => us(info.ato),
        "snd_mss" => info.snd_mss.into(),
        "rcv_mss" => info.rcv_mss.into(),
        "unacked" => info.unacked.into(),
        "sacked" => info.sacked.into(),
        "lost" => info.lost.into(),
        "retrans" => info.retrans.into(),
        "fackets" => 0,
        "last_data_sent" => ms(info.last_data_sent),
        "last_data_recv" => ms(info.last_data_recv),
        "last_ack_recv" => ms(info.last_ack_recv),
        "pmtu" => info.pmtu.into(),
        "rcv_ssthresh" => info.rcv_ssthresh.into(),
        "rtt" => us(info.rtt),
        "rttvar" => us(info.rttvar),
        "snd_ssthresh" => info.snd_ssthresh.into(),
        "snd_cwnd" => info.snd_cwnd.into(),
        "advmss" => info.advmss.into(),
        "reordering" => info.reordering.into(),
        "rcv_rtt" => us(info.rcv_rtt),
        "rcv_space" => info.rcv_space.into(),
        "total_retrans" => info.total_retrans.into(),
        "bytes_acked" => info.bytes_acked as i64,
        "bytes_received" => info.bytes_received as i64,
        "segs_out" => info.segs_out.into(),
        "segs_in" => info.segs_in.into(),
        "notsent_bytes" => info.notsent_bytes.into(),
        "min_rtt" => us(info.min_rtt),
        "data_segs_in" => info.data_segs_in.into(),
        "data_segs_out" => info.data_segs_out.into(),
        "busy_time" => us(info.busy_time),
        "rwnd_limited" => us(info.rwnd_limited),
        "sndbuf_limited" => us(info.sndbuf_limited),
        "delivered" => info.delivered.into(),
        "delivered_ce" => info.delivered_ce.into(),
        "bytes_sent" => info.bytes_sent as i64,
        "bytes_retrans" => info.bytes_retrans as i64,
        "dsack_dups" => info.dsack_dups.into(),
        "reord_seen" => info.reord_seen.into(),
        "rcv_ooopack" => info.rcv_ooopack.into(),
        "snd_wnd" => info.snd_wnd.into(),
        "rcv_wnd" => info.rcv_wnd.into(),
        _ => return None,
    })
}
