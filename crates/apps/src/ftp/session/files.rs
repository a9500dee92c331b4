//! What is done with files: names, types, offsets, and the transfers' beginnings.

use super::super::command;
use super::super::data::{Incoming, Job, Outgoing};
use super::{Cx, Session};
use crate::date;
use crate::files::{Name, Refusal};

impl Session {
    /// The name an argument means; says what is wrong with it otherwise.
    fn name(&mut self, text: &[u8], cx: &mut Cx<'_>) -> Option<Name> {
        let name = if text.is_empty() { Err(Refusal::BadName) } else { self.cwd.join(text) };
        name.map_err(|why| self.refuse(why, cx)).ok()
    }

    fn refuse(&mut self, why: Refusal, cx: &mut Cx<'_>) {
        if why == Refusal::Escape {
            cx.counts.escapes.bump();
        }
        let code = match why {
            Refusal::BadName => 553,
            Refusal::NoSpace => 552,
            Refusal::Io => 451,
            _ => 550,
        };
        self.reply(cx.now, &format!("{code} {why}."));
    }

    pub(super) fn pwd(&mut self, cx: &mut Cx<'_>) {
        let quoted = self.cwd.as_str().replace('"', "\"\""); // RFC 959, appendix II
        self.reply(cx.now, &format!("257 \"{quoted}\" is where you are."));
    }

    pub(super) fn cwd(&mut self, to: &[u8], cx: &mut Cx<'_>) {
        let Some(name) = self.name(to, cx) else { return };
        match cx.config.root.meta(&name) {
            Ok(meta) if meta.is_dir => {
                self.cwd = name;
                self.reply(cx.now, "250 There you are.");
            }
            Ok(_) => self.refuse(Refusal::NotDirectory, cx),
            Err(why) => self.refuse(why, cx),
        }
    }

    /// RFC 959 3.1.1: A and I; L 8 is I here.
    pub(super) fn set_type(&mut self, what: &[u8], cx: &mut Cx<'_>) {
        match what.trim_ascii().to_ascii_uppercase().as_slice() {
            b"A" | b"A N" => {
                self.is_text = true;
                self.reply(cx.now, "200 ASCII.");
            }
            b"I" | b"L 8" => {
                self.is_text = false;
                self.reply(cx.now, "200 Image.");
            }
            _ => self.reply(cx.now, "504 Only A, I and L 8."),
        }
    }

    /// MODE and STRU, which have one value each here.
    pub(super) fn only(&mut self, what: &[u8], known: &[u8], yes: &str, no: &str, cx: &mut Cx<'_>) {
        let is_known = what.trim_ascii().eq_ignore_ascii_case(known);
        self.reply(cx.now, if is_known { yes } else { no });
    }

    pub(super) fn stat(&mut self, cx: &mut Cx<'_>) {
        let kind = if self.is_text { "ASCII" } else { "Image" };
        let text = format!("211-From {}:\r\n Type {kind}, stream mode, file structure.\r\n211 End", self.peer_ip());
        self.reply(cx.now, &text);
    }

    /// RFC 3659 4: the length that RETR would send, so none in ASCII, and none of what has no end. That is a 504: to curl a
    /// 550 says that there is no such file, and it would not ask for it.
    pub(super) fn size(&mut self, name: &[u8], cx: &mut Cx<'_>) {
        let Some(name) = self.name(name, cx) else { return };
        match cx.config.root.meta(&name) {
            Err(why) => self.refuse(why, cx),
            Ok(meta) if meta.is_dir => self.refuse(Refusal::NotPlain, cx),
            Ok(meta) => match meta.len {
                Some(_) if self.is_text => self.reply(cx.now, "504 Not told in ASCII; TYPE I first."),
                Some(len) => self.reply(cx.now, &format!("213 {len}")),
                None => self.reply(cx.now, "504 It has no end."),
            },
        }
    }

    pub(super) fn mdtm(&mut self, name: &[u8], cx: &mut Cx<'_>) {
        let Some(name) = self.name(name, cx) else { return };
        match cx.config.root.meta(&name) {
            Ok(meta) if !meta.is_dir => match meta.modified_s() {
                Some(at) => self.reply(cx.now, &format!("213 {}", date::ftp(at))),
                None => self.reply(cx.now, "504 It has no date."),
            },
            Ok(_) => self.refuse(Refusal::NotPlain, cx),
            Err(why) => self.refuse(why, cx),
        }
    }

    pub(super) fn set_rest(&mut self, what: &[u8], cx: &mut Cx<'_>) {
        match command::offset(what) {
            Some(offset) => {
                self.rest = offset;
                self.reply(cx.now, &format!("350 From {offset} on."));
            }
            None => self.reply(cx.now, "501 REST takes an offset."),
        }
    }

    pub(super) fn list(&mut self, what: &[u8], is_long: bool, cx: &mut Cx<'_>) {
        let what = command::listed_name(what);
        let Some(name) = self.name(if what.is_empty() { b"." } else { what }, cx) else { return };
        let long_at = is_long.then(|| cx.config.wall.unix_s(cx.now));
        let out = match cx.config.root.meta(&name) {
            Ok(meta) if meta.is_dir => match cx.config.root.list(&name) {
                Ok(listing) => Outgoing::list(listing, long_at),
                Err(why) => return self.refuse(why, cx),
            },
            Ok(meta) => Outgoing::entry(name.file_name(), &meta, long_at),
            Err(why) => return self.refuse(why, cx),
        };
        if self.has_way(cx) {
            self.begin(Job::Out(out), "Here it comes.", cx);
        }
    }

    pub(super) fn retr(&mut self, name: &[u8], rest: u64, cx: &mut Cx<'_>) {
        let Some(name) = self.name(name, cx) else { return };
        if rest > 0 && self.is_text {
            return self.reply(cx.now, "554 REST counts bytes of TYPE I.");
        }
        let (source, _) = match cx.config.root.open(&name, rest) {
            Ok(opened) => opened,
            Err(why) => return self.refuse(why, cx),
        };
        let is_behind = cx.config.root.meta(&name).is_ok_and(|meta| meta.len.is_some_and(|len| rest > len));
        if is_behind {
            return self.reply(cx.now, "554 That is behind its end.");
        }
        if !self.has_way(cx) {
            return;
        }
        let what = match source.left() {
            Some(bytes) => format!("{name}, {bytes} bytes."),
            None => format!("{name}, without end."),
        };
        let out = if self.is_text { Outgoing::text(source) } else { Outgoing::image(source) };
        self.begin(Job::Out(out), &what, cx);
    }

    pub(super) fn stor(&mut self, name: &[u8], rest: u64, cx: &mut Cx<'_>) {
        let Some(name) = self.name(name, cx) else { return };
        if rest > 0 && self.is_text {
            return self.reply(cx.now, "554 REST counts bytes of TYPE I.");
        }
        // The way first: a file is not cut off for a transfer that cannot be.
        if !self.has_way(cx) {
            return;
        }
        match cx.config.root.create(&name, rest) {
            Ok(sink) => self.begin(Job::In(Incoming::new(sink, self.is_text)), &format!("Send {name}."), cx),
            Err(why) => self.refuse(why, cx),
        }
    }
}
