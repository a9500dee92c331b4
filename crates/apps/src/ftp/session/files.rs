//! Commands on files: names, types, offsets, and the start of transfers.

use super::super::command;
use super::super::data::{Form, Incoming, Job, Outgoing};
use super::super::facts::Facts;
use super::{Cx, REPLIES_MAX, Session};
use crate::date;
use crate::files::{Name, Refusal, Sink};
use crate::glob::Glob;

const NO_ARGUMENT: &str = "501 Syntax error in parameters or arguments.";

impl Session {
    /// Resolves the name in a command's argument; sends an error reply if it is invalid.
    fn name(&mut self, text: &[u8], cx: &mut Cx<'_>) -> Option<Name> {
        if text.is_empty() {
            self.reply(cx.now, NO_ARGUMENT);
            return None;
        }
        self.cwd.walk(text).map_err(|why| self.refuse(why, cx)).ok()
    }

    fn refuse(&mut self, why: Refusal, cx: &mut Cx<'_>) {
        let text = match why {
            Refusal::BadName => "553 Requested action not taken",
            Refusal::BadOffset => "554 Requested action not taken", // RFC 1123 4.1.3.4
            Refusal::NoSpace => "552 Requested file action aborted",
            Refusal::Io | Refusal::Pattern => "451 Requested action aborted",
            _ => "550 Requested action not taken",
        };
        self.reply(cx.now, &format!("{text}: {why}."));
    }

    /// Replies to a command that changes files: with `reply` on success, otherwise with the error.
    fn changed(&mut self, done: Result<(), Refusal>, reply: &str, cx: &mut Cx<'_>) {
        match done {
            Ok(()) => {
                cx.counts.changes.bump();
                self.reply(cx.now, reply);
            }
            Err(why) => self.refuse(why, cx),
        }
    }

    pub(super) fn pwd(&mut self, cx: &mut Cx<'_>) {
        let text = format!("257 {} is the current directory.", quoted(&self.cwd));
        self.reply(cx.now, &text);
    }

    pub(super) fn cwd(&mut self, to: &[u8], cx: &mut Cx<'_>) {
        let Some(name) = self.name(to, cx) else { return };
        match cx.config.root.meta(&name) {
            Ok(meta) if meta.is_dir => {
                self.cwd = name;
                self.reply(cx.now, "250 Requested file action okay, completed.");
            }
            Ok(_) => self.refuse(Refusal::NotDirectory, cx),
            Err(why) => self.refuse(why, cx),
        }
    }

    /// Handles TYPE (RFC 959 3.1.1): A (text) and I (binary); L 8 is the same as I.
    pub(super) fn set_type(&mut self, what: &[u8], cx: &mut Cx<'_>) {
        match what.trim_ascii().to_ascii_uppercase().as_slice() {
            b"A" | b"A N" => {
                self.is_text = true;
                self.reply(cx.now, "200 Command okay.");
            }
            b"I" | b"L 8" => {
                self.is_text = false;
                self.reply(cx.now, "200 Command okay.");
            }
            b"" => self.reply(cx.now, NO_ARGUMENT),
            _ => self.reply(cx.now, "504 Command not implemented for that parameter: only A, I and L 8."),
        }
    }

    /// Handles MODE and STRU, for which only the value `known` is supported: replies `yes` for this
    /// value and `no` for any other.
    pub(super) fn only(&mut self, what: &[u8], known: &[u8], yes: &str, no: &str, cx: &mut Cx<'_>) {
        let what = what.trim_ascii();
        let reply = match what {
            b"" => NO_ARGUMENT,
            what if what.eq_ignore_ascii_case(known) => yes,
            _ => no,
        };
        self.reply(cx.now, reply);
    }

    /// Replies to STAT: the session status if `name` is empty, otherwise a listing on the control
    /// connection (RFC 959 4.1.3).
    pub(super) fn stat(&mut self, name: &[u8], cx: &mut Cx<'_>) {
        if name.is_empty() {
            let kind = if self.is_text { "ASCII" } else { "Image" };
            let peer = self.peer_ip();
            let text = format!("211-Status: from {peer}.\r\n Type {kind}, stream mode, file structure.\r\n211 End");
            return self.reply(cx.now, &text);
        }
        let form = Form::Long(cx.config.wall.unix_s(cx.now));
        let Some((out, is_dir)) = self.entries(name, form, cx) else { return };
        let (head, end) = if is_dir { ("212-Directory status:", "212 End") } else { ("213-File status:", "213 End") };
        self.reply(cx.now, head);
        self.status = Some((out, end));
        self.write_status(cx);
    }

    /// Continues the reply to STAT while there is buffer space.
    pub(super) fn write_status(&mut self, cx: &mut Cx<'_>) {
        while self.replies.len() < REPLIES_MAX
            && let Some((out, end)) = &mut self.status
        {
            let (prepared, end) = (out.prepare(), *end);
            let text = out.output();
            let room = REPLIES_MAX.saturating_sub(self.replies.len()).max(1);
            let some = text.get(..room).unwrap_or(text);
            if some.is_empty() || prepared.is_err() {
                self.status = None;
                if let Err(why) = prepared {
                    // An error reply is no longer possible, since the first line of this reply,
                    // with its code, has been sent.
                    self.reply(cx.now, &format!(" Listing incomplete: {why}."));
                }
                self.reply(cx.now, end);
                return;
            }
            let n = some.len();
            self.replies.extend_from_slice(some);
            out.advance(n);
            self.command_at = cx.now;
        }
    }

    /// Handles OPTS: UTF8, which is always on, and MLST, which selects facts (RFC 3659 7.9).
    pub(super) fn set_option(&mut self, what: &[u8], cx: &mut Cx<'_>) {
        let what = what.trim_ascii();
        let (verb, rest) = what.split_at(what.iter().position(|byte| *byte == b' ').unwrap_or(what.len()));
        let rest = rest.trim_ascii();
        match verb.to_ascii_uppercase().as_slice() {
            b"UTF8" if rest.is_empty() || rest.eq_ignore_ascii_case(b"ON") => self.reply(cx.now, "200 Command okay."),
            b"MLST" => {
                self.facts = Facts::chosen(rest);
                let names = self.facts.names();
                let gap = if names.is_empty() { "" } else { " " };
                self.reply(cx.now, &format!("200 MLST OPTS{gap}{names}"));
            }
            _ => self.reply(cx.now, "501 Syntax error in parameters or arguments."),
        }
    }

    pub(super) fn mlst(&mut self, name: &[u8], cx: &mut Cx<'_>) {
        let Some(name) = self.name(if name.is_empty() { b"." } else { name }, cx) else { return };
        match cx.config.root.meta(&name) {
            Ok(meta) => {
                let facts = self.facts.of(&meta, cx.config.root.uploads());
                self.reply(cx.now, &format!("250-Listing {name}\r\n {facts} {name}\r\n250 End"));
            }
            Err(why) => self.refuse(why, cx),
        }
    }

    pub(super) fn mlsd(&mut self, name: &[u8], cx: &mut Cx<'_>) {
        let Some(name) = self.name(if name.is_empty() { b"." } else { name }, cx) else { return };
        match cx.config.root.list(&name) {
            Ok(listing) => {
                let form = Form::Facts(self.facts, cx.config.root.uploads());
                if self.has_data_connection(cx) {
                    self.begin(Job::Out(Outgoing::list(listing, String::new(), form)), "", cx);
                }
            }
            // RFC 3659 7.2.1: an argument that is not a directory is a parameter error.
            Err(Refusal::NotDirectory) => {
                self.reply(cx.now, "501 Syntax error in parameters or arguments: Not a directory.");
            }
            Err(why) => self.refuse(why, cx),
        }
    }

    // Changes to the directory tree.

    pub(super) fn mkd(&mut self, name: &[u8], cx: &mut Cx<'_>) {
        let Some(name) = self.name(name, cx) else { return };
        let made = cx.config.root.make_directory(&name);
        self.changed(made, &format!("257 {} created.", quoted(&name)), cx);
    }

    pub(super) fn rmd(&mut self, name: &[u8], cx: &mut Cx<'_>) {
        let Some(name) = self.name(name, cx) else { return };
        let removed = cx.config.root.remove_directory(&name);
        self.changed(removed, "250 Requested file action okay, completed.", cx);
    }

    pub(super) fn dele(&mut self, name: &[u8], cx: &mut Cx<'_>) {
        let Some(name) = self.name(name, cx) else { return };
        let removed = cx.config.root.remove(&name);
        self.changed(removed, "250 Requested file action okay, completed.", cx);
    }

    pub(super) fn rnfr(&mut self, name: &[u8], cx: &mut Cx<'_>) {
        let Some(name) = self.name(name, cx) else { return };
        match cx.config.root.may_rename(&name) {
            Ok(()) => {
                self.rename_from = Some(name);
                self.reply(cx.now, "350 Requested file action pending further information.");
            }
            Err(why) => self.refuse(why, cx),
        }
    }

    pub(super) fn rnto(&mut self, from: Option<Name>, name: &[u8], cx: &mut Cx<'_>) {
        let Some(from) = from else { return self.reply(cx.now, "503 Bad sequence of commands: RNFR first.") };
        let Some(to) = self.name(name, cx) else { return };
        let renamed = cx.config.root.rename(&from, &to);
        self.changed(renamed, "250 Requested file action okay, completed.", cx);
    }

    /// Handles SIZE (RFC 3659 4): replies with the number of bytes that RETR would send. Replies
    /// 504 in text mode and for endless files: after a 550, curl would assume that the file is
    /// missing and not send RETR.
    pub(super) fn size(&mut self, name: &[u8], cx: &mut Cx<'_>) {
        let Some(name) = self.name(name, cx) else { return };
        match cx.config.root.meta(&name) {
            Err(why) => self.refuse(why, cx),
            Ok(meta) if meta.is_dir => self.refuse(Refusal::NotPlain, cx),
            Ok(meta) => match meta.len {
                Some(_) if self.is_text => {
                    self.reply(cx.now, "504 Command not implemented for that parameter: TYPE I first.")
                }
                Some(len) => self.reply(cx.now, &format!("213 {len}")),
                None => self.reply(cx.now, "504 Command not implemented for that parameter: no size."),
            },
        }
    }

    pub(super) fn mdtm(&mut self, name: &[u8], cx: &mut Cx<'_>) {
        let Some(name) = self.name(name, cx) else { return };
        match cx.config.root.meta(&name) {
            Ok(meta) if !meta.is_dir => match meta.modified_s() {
                Some(at) => self.reply(cx.now, &format!("213 {}", date::ftp(at))),
                None => self.reply(cx.now, "504 Command not implemented for that parameter: no modification time."),
            },
            Ok(_) => self.refuse(Refusal::NotPlain, cx),
            Err(why) => self.refuse(why, cx),
        }
    }

    pub(super) fn set_rest(&mut self, what: &[u8], cx: &mut Cx<'_>) {
        match command::offset(what) {
            Some(offset) => {
                self.rest = offset;
                self.reply(cx.now, &format!("350 Requested file action pending further information: from {offset}."));
            }
            None => self.reply(cx.now, "501 Syntax error in parameters or arguments: expected an offset."),
        }
    }

    pub(super) fn list(&mut self, what: &[u8], is_long: bool, cx: &mut Cx<'_>) {
        let form = if is_long { Form::Long(cx.config.wall.unix_s(cx.now)) } else { Form::Name };
        let Some((out, _)) = self.entries(command::listed_name(what), form, cx) else { return };
        if self.has_data_connection(cx) {
            self.begin(Job::Out(out), "", cx);
        }
    }

    /// Returns the entries that an argument of LIST, NLST or STAT selects, and whether they belong
    /// to a directory. The argument is empty (current directory), a directory, a file, or a
    /// pattern. Sends an error reply if the argument is invalid.
    fn entries(&mut self, what: &[u8], form: Form, cx: &mut Cx<'_>) -> Option<(Outgoing, bool)> {
        let name = self.name(if what.is_empty() { b"." } else { what }, cx)?;
        let root = &cx.config.root;
        let found = match root.meta(&name) {
            Ok(meta) if meta.is_dir => root.list(&name).map(|all| (Outgoing::list(all, String::new(), form), true)),
            Ok(meta) => Ok((Outgoing::entry(name.file_name(), &meta, form), false)),
            Err(Refusal::NotFound) if Glob::is_pattern(what) => self.matching(what, form, cx),
            Err(why) => Err(why),
        };
        found.map_err(|why| self.refuse_listing(why, cx)).ok()
    }

    /// Replies to a listing that failed. For a missing file, LIST, NLST and STAT use 450, while
    /// other commands use 550 (RFC 959 5.4).
    fn refuse_listing(&mut self, why: Refusal, cx: &mut Cx<'_>) {
        match why {
            Refusal::NotFound => self.reply(cx.now, &format!("450 Requested file action not taken: {why}.")),
            why => self.refuse(why, cx),
        }
    }

    /// Lists the entries that match a pattern in the last component of a name. The directory part
    /// of the argument is written before each name, so that the client can pass the result to RETR.
    fn matching(&self, what: &[u8], form: Form, cx: &Cx<'_>) -> Result<(Outgoing, bool), Refusal> {
        let at = what.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let (above, pattern) = (what.get(..at).unwrap_or_default(), what.get(at..).unwrap_or_default());
        let dir = self.cwd.walk(above)?;
        let prefix = String::from_utf8(above.to_vec()).map_err(|_| Refusal::BadName)?;
        let listing = cx.config.root.list_matching(&dir, Some(pattern))?;
        let mut out = Outgoing::list(listing, prefix, form);
        out.prepare()?;
        if out.output().is_empty() { Err(Refusal::NotFound) } else { Ok((out, true)) }
    }

    pub(super) fn retr(&mut self, name: &[u8], rest: u64, cx: &mut Cx<'_>) {
        let Some(name) = self.name(name, cx) else { return };
        if rest > 0 && self.is_text {
            return self.reply(cx.now, "554 Requested action not taken: REST requires TYPE I.");
        }
        let (source, _) = match cx.config.root.open(&name, rest) {
            Ok(opened) => opened,
            Err(why) => return self.refuse(why, cx),
        };
        let is_behind = cx.config.root.meta(&name).is_ok_and(|meta| meta.len.is_some_and(|len| rest > len));
        if is_behind {
            return self.refuse(Refusal::BadOffset, cx);
        }
        if !self.has_data_connection(cx) {
            return;
        }
        let what = match source.left() {
            Some(bytes) => format!(" ({bytes} bytes)"),
            None => String::new(),
        };
        let out = if self.is_text { Outgoing::text(source) } else { Outgoing::image(source) };
        self.begin(Job::Out(out), &what, cx);
    }

    pub(super) fn stor(&mut self, name: &[u8], rest: u64, cx: &mut Cx<'_>) {
        let Some(name) = self.name(name, cx) else { return };
        if rest > 0 && self.is_text {
            return self.reply(cx.now, "554 Requested action not taken: REST requires TYPE I.");
        }
        // Checked before the file is opened, so that no file is truncated for a transfer that
        // cannot start.
        if !self.has_data_connection(cx) {
            return;
        }
        let created = cx.config.root.create(&name, rest);
        self.receive(created, cx);
    }

    pub(super) fn appe(&mut self, name: &[u8], cx: &mut Cx<'_>) {
        let Some(name) = self.name(name, cx) else { return };
        if !self.has_data_connection(cx) {
            return;
        }
        let opened = cx.config.root.append(&name);
        self.receive(opened, cx);
    }

    fn receive(&mut self, sink: Result<Sink, Refusal>, cx: &mut Cx<'_>) {
        match sink {
            Ok(sink) => self.begin(Job::In(Incoming::new(sink, self.is_text)), "", cx),
            Err(why) => self.refuse(why, cx),
        }
    }
}

/// Quotes a name, doubling the quotes inside it (RFC 959, appendix II).
fn quoted(name: &Name) -> String {
    format!("\"{}\"", name.as_str().replace('"', "\"\""))
}
