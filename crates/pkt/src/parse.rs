//! Parses tokens into events. Accepts the applicable part of packetdrill's grammar, and `counters`.

use crate::error::PktError;
use crate::icmp::Words;
use crate::lex::{Tok, Token, tokens};
use crate::script::{Action, Body, Call, Event, Expr, Icmp, Ip, Opt, Packet, Script, Tcp, When};
use wire::tcp::Flags;

const SECOND: i64 = 1_000_000_000;
/// Latest time in a script, in nanoseconds: ten years. The limit prevents overflow of sums of
/// times.
const TIME_MAX: i64 = 10 * 366 * 86_400 * SECOND;
/// Maximum nesting of structures.
const DEPTH_MAX: usize = 16;

/// Parses a script.
///
/// # Errors
/// Returns a [`PktError`] with the line; the caller adds the file name.
pub fn parse(text: &str) -> Result<Script, PktError> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    let mut script = Script::default();
    while let Some(Tok::Flag(name)) = parser.peek().cloned() {
        let line = parser.line();
        parser.at += 1;
        let value = if parser.eat('=') { parser.flag_value()? } else { String::new() };
        script.flags.push((line, name, value));
    }
    while parser.peek().is_some() {
        let event = parser.event()?;
        script.events.push(event);
    }
    Ok(script)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

type Parsed<T> = Result<T, PktError>;

impl Parser {
    fn peek(&self) -> Option<&Tok> {
        self.tokens.get(self.at).map(|token| &token.tok)
    }

    fn peek_at(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |token| token.line)
    }

    fn error<T>(&self, expected: &str) -> Parsed<T> {
        let found = self.tokens.get(self.at).map_or("the end".to_owned(), |token| {
            let text: String = token.text.chars().take(40).collect();
            format!("'{}'", text.replace('\n', " "))
        });
        Err(PktError::at(self.line(), format!("expected {expected}, found {found}")))
    }

    fn eat(&mut self, c: char) -> bool {
        let there = self.peek() == Some(&Tok::Punct(c));
        self.at += usize::from(there);
        there
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let there = matches!(self.peek(), Some(Tok::Word(w)) if w == word);
        self.at += usize::from(there);
        there
    }

    fn want(&mut self, c: char) -> Parsed<()> {
        if self.eat(c) { Ok(()) } else { self.error(&format!("'{c}'")) }
    }

    fn word(&mut self, what: &str) -> Parsed<String> {
        match self.peek().cloned() {
            Some(Tok::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.error(what),
        }
    }

    /// Parses a number within the range of type `T`; `what` describes it in the error.
    fn int<T: TryFrom<i64>>(&mut self, what: &str) -> Parsed<T> {
        let Some(&Tok::Int(value)) = self.peek() else { return self.error(what) };
        match T::try_from(value) {
            Ok(value) => {
                self.at += 1;
                Ok(value)
            }
            Err(_) => self.error(&format!("{what} within its range")),
        }
    }

    /// Parses the value in `--name=value`, which ends at white space.
    fn flag_value(&mut self) -> Parsed<String> {
        let mut value = String::new();
        while let Some(token) = self.tokens.get(self.at) {
            if !value.is_empty() && !token.glued {
                break;
            }
            value.push_str(&token.text);
            self.at += 1;
        }
        if value.is_empty() { self.error("a value") } else { Ok(value) }
    }

    fn event(&mut self) -> Parsed<Event> {
        let line = self.line();
        let when = match self.peek() {
            Some(Tok::Command(_) | Tok::Word(_)) => When::After(0),
            _ => self.when()?,
        };
        let what = match self.peek().cloned() {
            Some(Tok::Punct('<')) => {
                self.at += 1;
                Action::In(self.packet(Way::In)?)
            }
            Some(Tok::Punct('>')) => {
                self.at += 1;
                Action::Out(self.packet(Way::Out)?)
            }
            Some(Tok::Command(command)) => {
                self.at += 1;
                Action::Command(command)
            }
            Some(Tok::Code(code)) => {
                self.at += 1;
                Action::Code(code)
            }
            Some(Tok::Word(word)) if word == "counters" => {
                self.at += 1;
                Action::Counters(self.counters()?)
            }
            _ => Action::Call(self.call()?),
        };
        Ok(Event { line, when, what })
    }

    fn when(&mut self) -> Parsed<When> {
        if self.eat('*') {
            return Ok(When::Any);
        }
        let relative = self.eat('+');
        let from = self.time()?;
        let to = if self.eat('~') {
            if relative {
                self.want('+')?;
            }
            Some(self.time()?)
        } else {
            None
        };
        Ok(match (relative, to) {
            (false, None) => When::At(from),
            (true, None) => When::After(from),
            (false, Some(to)) => When::Within(from, to),
            (true, Some(to)) => When::AfterWithin(from, to),
        })
    }

    fn time(&mut self) -> Parsed<i64> {
        let nanos = match self.peek() {
            Some(&Tok::Fraction(nanos)) => Some(nanos),
            Some(&Tok::Int(seconds)) => seconds.checked_mul(SECOND),
            _ => return self.error("a time"),
        };
        match nanos.filter(|nanos| (0..=TIME_MAX).contains(nanos)) {
            Some(nanos) => {
                self.at += 1;
                Ok(nanos)
            }
            None => self.error("a time within ten years"),
        }
    }

    /// Parses the changes in a `counters` line: `tcp.in.received +1 ...`.
    fn counters(&mut self) -> Parsed<Vec<(String, i64)>> {
        let mut out = Vec::new();
        while let Some(Tok::Word(_)) = self.peek() {
            if !self.peek_at(1).is_some_and(|next| next.tok == Tok::Punct('.') && next.glued) {
                break; // the next event starts without a time
            }
            let mut name = self.word("a counter")?;
            while self.eat('.') {
                name.push('.');
                name.push_str(&self.word("the rest of a counter name")?);
            }
            self.want('+')?;
            out.push((name, self.int("a change")?));
        }
        Ok(out)
    }

    // ---- packets ----

    fn packet(&mut self, way: Way) -> Parsed<Packet> {
        let ip = self.ip()?;
        if let Some(Tok::Word(word)) = self.peek()
            && matches!(word.as_str(), "ipv4" | "ipv6" | "gre" | "GREv0" | "mpls" | "psp")
        {
            return Err(PktError::at(self.line(), format!("unsupported encapsulation '{word}'")));
        }
        let mut ports = None;
        let body = if self.eat_word("udp") {
            ports = self.ports()?;
            self.want('(')?;
            let len = self.int("a length")?;
            self.want(')')?;
            Body::Udp(len)
        } else if self.eat_word("icmp") || self.eat_word("icmpv6") {
            Body::Icmp(self.icmp()?)
        } else {
            ports = self.ports()?;
            Body::Tcp(self.tcp(way)?)
        };
        Ok(Packet { ip, ports, body })
    }

    fn ports(&mut self) -> Parsed<Option<(u16, u16)>> {
        if !matches!(self.peek(), Some(Tok::Int(_))) {
            return Ok(None);
        }
        let from = self.int("a port")?;
        self.want('>')?;
        Ok(Some((from, self.int("a port")?)))
    }

    /// Parses the fields of the IP header: `[ect0]` or `(ect0, ttl 64)`.
    fn ip(&mut self) -> Parsed<Ip> {
        let mut ip = Ip::default();
        let close = match self.peek() {
            Some(Tok::Punct('[')) => ']',
            Some(Tok::Punct('(')) => ')',
            _ => return Ok(ip),
        };
        self.at += 1;
        loop {
            match self.word("noecn, ect0, ect1, ect01, ce, tos, ttl, hlim or flowlabel")?.as_str() {
                "noecn" => ip.ecn = Some(0),
                "ect1" => ip.ecn = Some(1),
                "ect0" => ip.ecn = Some(2),
                "ce" => ip.ecn = Some(3),
                "ect01" => ip.ect01 = true,
                "tos" => ip.tos = Some(self.int("a TOS")?),
                "ttl" | "hlim" => ip.ttl = Some(self.int("a TTL")?),
                "flowlabel" => {
                    let line = self.line();
                    let label = self.int("a flow label")?;
                    if label >= 1 << 20 {
                        return Err(PktError::at(line, format!("flow label {label:#x}: exceeds 20 bits")));
                    }
                    ip.flow_label = Some(label);
                }
                other => return Err(PktError::at(self.line(), format!("unknown IP header field '{other}'"))),
            }
            if !self.eat(',') {
                self.want(close)?;
                return Ok(ip);
            }
        }
    }

    fn tcp(&mut self, way: Way) -> Parsed<Tcp> {
        let flags = self.tcp_flags()?;
        let (seq, len) = self.seq()?;
        let mut tcp = Tcp { flags, seq, len, ack: None, win: None, urgent: 0, options: Some(Vec::new()) };
        if self.eat_word("ack") {
            tcp.ack = Some(self.seq_number()?);
        }
        if self.eat_word("win") {
            tcp.win = Some(self.int("a window")?);
        }
        if self.eat_word("urg") {
            tcp.urgent = self.int("an urgent pointer")?;
        }
        if self.eat('<') {
            tcp.options = self.tcp_options()?;
        }
        if way == Way::In && tcp.options.is_none() {
            return self.error("options other than <...> in an injected packet");
        }
        Ok(tcp)
    }

    fn tcp_flags(&mut self) -> Parsed<Flags> {
        let mut flags = Flags::default();
        if self.eat('-') {
            return Ok(flags);
        }
        let start = self.at;
        loop {
            let glued = self.at == start || self.peek_at(0).is_some_and(|token| token.glued);
            match self.peek().cloned() {
                Some(Tok::Punct('.')) if glued => flags = flags | Flags::ACK,
                Some(Tok::Word(word)) if glued => {
                    for letter in word.chars() {
                        flags = flags
                            | match letter {
                                'F' => Flags::FIN,
                                'S' => Flags::SYN,
                                'R' => Flags::RST,
                                'P' => Flags::PSH,
                                'U' => Flags::URG,
                                'E' => Flags::ECE,
                                'W' => Flags::CWR,
                                _ => return self.error("flags from F S R P . U E W"),
                            };
                    }
                }
                _ if self.at == start => return self.error("flags"),
                _ => return Ok(flags),
            }
            self.at += 1;
        }
    }

    /// Parses the sequence numbers and length of a segment: `seq:end(len)`.
    fn seq(&mut self) -> Parsed<(u32, u32)> {
        let seq = self.seq_number()?;
        self.want(':')?;
        let end = self.seq_number()?;
        self.want('(')?;
        let len: u32 = self.int("a length")?;
        if end != seq.wrapping_add(len) {
            return Err(PktError::at(
                self.line(),
                format!("{seq}:{end}({len}): the end must be the start plus the length"),
            ));
        }
        self.want(')')?;
        Ok((seq, len))
    }

    fn seq_number(&mut self) -> Parsed<u32> {
        self.int("a sequence number")
    }

    /// Parses the options between `<` and `>`; returns `None` for `...`.
    fn tcp_options(&mut self) -> Parsed<Option<Vec<Opt>>> {
        if self.peek() == Some(&Tok::Ellipsis) {
            self.at += 1;
            self.want('>')?;
            return Ok(None);
        }
        let line = self.line();
        let mut options = Vec::new();
        loop {
            options.push(self.tcp_option()?);
            if !self.eat(',') {
                break;
            }
        }
        self.want('>')?;
        match crate::segment::encode(&options).len() {
            0..=40 => Ok(Some(options)),
            len => Err(PktError::at(line, format!("options of {len} bytes: at most 40"))),
        }
    }

    fn tcp_option(&mut self) -> Parsed<Opt> {
        Ok(match self.word("an option")?.as_str() {
            "nop" => Opt::Nop,
            "eol" => Opt::Eol,
            "sackOK" => Opt::SackOk,
            "mss" => Opt::Mss(self.int("an MSS")?),
            "wscale" => Opt::WindowScale(self.int("a shift")?),
            "TS" => {
                if !self.eat_word("val") {
                    return self.error("val");
                }
                let val = self.seq_number()?;
                if !self.eat_word("ecr") {
                    return self.error("ecr");
                }
                Opt::Timestamps(val, self.seq_number()?)
            }
            "sack" => {
                let mut blocks = Vec::new();
                while let Some(Tok::Int(_)) = self.peek() {
                    let left = self.seq_number()?;
                    self.want(':')?;
                    blocks.push((left, self.seq_number()?));
                }
                Opt::Sack(blocks)
            }
            "FO" => Opt::Raw(34, self.hex()?),
            "FOEXP" => Opt::Raw(254, [vec![0xf9, 0x89], self.hex()?].concat()),
            "md5" => Opt::Raw(19, self.hex()?),
            "unknown" => {
                // Extension to packetdrill: `unknown 250 a1b2`.
                let kind = self.int("an option kind")?;
                Opt::Raw(kind, self.hex()?)
            }
            // Extension to packetdrill: `bytes 0200`, copied verbatim.
            "bytes" => Opt::Bytes(self.hex()?),
            other => {
                return Err(PktError::at(self.line(), format!("unknown TCP option '{other}'")));
            }
        })
    }

    fn hex(&mut self) -> Parsed<Vec<u8>> {
        let Some(token) = self.tokens.get(self.at).filter(|t| matches!(t.tok, Tok::Int(_) | Tok::Word(_))) else {
            return Ok(Vec::new());
        };
        let pairs = token.text.as_bytes().chunks(2);
        let bytes = pairs.map(|pair| std::str::from_utf8(pair).ok().and_then(|p| u8::from_str_radix(p, 16).ok()));
        match bytes.collect::<Option<Vec<u8>>>().filter(|bytes| bytes.len() <= 38) {
            Some(bytes) => {
                self.at += 1;
                Ok(bytes)
            }
            None => self.error("up to 38 bytes in hexadecimal"),
        }
    }

    fn icmp(&mut self) -> Parsed<Icmp> {
        let line = self.line();
        let ty = self.word("an ICMP type")?;
        let mut words = Words { ty, code: None, mtu: None };
        if let Some(Tok::Word(word)) = self.peek().filter(|tok| !matches!(tok, Tok::Word(w) if w == "mtu")) {
            words.code = Some(word.clone());
            self.at += 1;
        }
        if self.eat_word("mtu") {
            words.mtu = Some(self.int("an MTU")?);
        }
        if let (Err(why), Err(_)) = (words.message(false), words.message(true)) {
            return Err(PktError::at(line, why));
        }
        let mut icmp = Icmp { words, seq: None, udp: None };
        if self.eat('[') {
            if self.eat_word("udp") {
                self.want('(')?;
                icmp.udp = Some(self.int("a length")?);
                self.want(')')?;
            } else {
                icmp.seq = Some(self.seq()?.0);
            }
            self.want(']')?;
        }
        Ok(icmp)
    }

    // ---- calls ----

    fn call(&mut self) -> Parsed<Call> {
        let until = if self.peek() == Some(&Tok::Ellipsis) {
            self.at += 1;
            Some(self.time()?)
        } else {
            None
        };
        let name = self.word("'<', '>', a call, a command or %{")?;
        self.want('(')?;
        let args = self.list(')', 0)?;
        self.want('=')?;
        let returns = self.expr(0)?;
        let mut errno = None;
        if returns == Expr::Int(-1)
            && let Some(Tok::Word(word)) = self.peek()
        {
            errno = Some(word.clone());
            self.at += 1;
        }
        if self.eat('(') {
            self.note()?;
        }
        Ok(Call { name, args, until, returns, errno })
    }

    /// Skips a comment in parentheses.
    fn note(&mut self) -> Parsed<()> {
        let mut open = 1;
        while open > 0 {
            match self.peek() {
                Some(Tok::Punct('(')) => open += 1,
                Some(Tok::Punct(')')) => open -= 1,
                Some(_) => {}
                None => return self.error("')'"),
            }
            self.at += 1;
        }
        Ok(())
    }

    fn list(&mut self, close: char, depth: usize) -> Parsed<Vec<Expr>> {
        let mut out = Vec::new();
        if self.eat(close) {
            return Ok(out);
        }
        loop {
            out.push(self.expr(depth + 1)?);
            if self.eat(close) {
                return Ok(out);
            }
            self.want(',')?;
        }
    }

    fn expr(&mut self, depth: usize) -> Parsed<Expr> {
        if depth > DEPTH_MAX {
            return self.error("fewer nested structures");
        }
        let first = self.term(depth)?;
        if let Expr::Word(name) | Expr::Apply(name, _) = &first
            && depth > 0
            && self.eat('=')
        {
            return Ok(Expr::Field(name.clone(), Box::new(self.expr(depth + 1)?)));
        }
        if self.peek() != Some(&Tok::Punct('|')) {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.eat('|') {
            parts.push(self.term(depth)?);
        }
        Ok(Expr::Or(parts))
    }

    fn term(&mut self, depth: usize) -> Parsed<Expr> {
        let Some(tok) = self.peek().cloned() else { return self.error("a value") };
        self.at += 1;
        Ok(match tok {
            Tok::Ellipsis => Expr::Ellipsis,
            Tok::Int(value) => Expr::Int(value),
            Tok::Fraction(nanos) => Expr::Int(nanos),
            Tok::Addr(addr) => Expr::Addr(addr),
            Tok::Str(text) => {
                if self.peek() == Some(&Tok::Ellipsis) {
                    self.at += 1; // "text"...: the string goes on
                }
                Expr::Str(text)
            }
            Tok::Punct('[') => Expr::List(self.list(']', depth)?),
            Tok::Punct('{') => Expr::Braces(self.list('}', depth)?),
            Tok::Word(name) => match self.eat('(') {
                true => Expr::Apply(name, self.list(')', depth)?),
                false => Expr::Word(name),
            },
            _ => {
                self.at -= 1;
                return self.error("a value");
            }
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
}
