//! Netlink messages as bytes: a header, a fixed part, and attributes that are padded to four bytes,
//! in native byte order.

/// Type of a reply that contains an error number, where 0 means success (`NLMSG_ERROR`).
pub const ERROR: u16 = libc::NLMSG_ERROR as u16;
/// Type of the reply that ends a dump. It also contains an error number (`NLMSG_DONE`).
pub const DONE: u16 = libc::NLMSG_DONE as u16;
const HEADER_LEN: usize = 16;
/// Flag of a reply: attributes follow the quoted request (`NLM_F_ACK_TLVS`). With the flag
/// [`CAPPED`], only the header of the request is quoted (`NLM_F_CAPPED`).
const ACK_TLVS: u16 = 0x200;
const CAPPED: u16 = 0x100;
const ERROR_TEXT: u16 = 1; // NLMSGERR_ATTR_MSG
const NESTED: u16 = 0x8000; // NLA_F_NESTED

/// A request under construction.
pub struct Message(Vec<u8>);

impl Message {
    /// Creates a request of type `ty` that requires a reply.
    pub fn new(ty: u16, flags: u16) -> Message {
        let mut message = Message(vec![0; HEADER_LEN]);
        message.patch(4, ty);
        message.patch(6, flags | (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16);
        message
    }

    fn patch(&mut self, at: usize, value: u16) {
        if let Some(place) = self.0.get_mut(at..at + 2) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
    }

    /// Appends bytes of the fixed part of the message.
    pub fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Appends a `struct ifinfomsg`.
    pub fn ifinfo(&mut self, index: u32, flags: u32, change: u32) {
        self.put(&[0; 4]);
        [index, flags, change].iter().for_each(|word| self.put(&word.to_ne_bytes()));
    }

    /// Appends a `struct tcmsg`.
    pub fn tc(&mut self, index: u32, handle: u32, parent: u32, info: u32) {
        self.put(&[0; 4]);
        [index, handle, parent, info].iter().for_each(|word| self.put(&word.to_ne_bytes()));
    }

    /// Appends an attribute.
    pub fn attr(&mut self, ty: u16, value: &[u8]) {
        self.put(&((4 + value.len()) as u16).to_ne_bytes());
        self.put(&ty.to_ne_bytes());
        self.put(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// Appends an attribute that contains a NUL-terminated text.
    pub fn text(&mut self, ty: u16, text: &str) {
        self.attr(ty, &[text.as_bytes(), &[0]].concat());
    }

    /// Appends an attribute whose contents are written by `fill`.
    pub fn nest(&mut self, ty: u16, fill: impl FnOnce(&mut Message)) {
        let start = self.0.len();
        self.put(&[0; 2]);
        self.put(&(ty | NESTED).to_ne_bytes());
        fill(self);
        self.patch(start, (self.0.len() - start) as u16);
    }

    /// Returns the complete request.
    pub fn finish(mut self, seq: u32) -> Vec<u8> {
        let len = self.0.len() as u32;
        for (at, word) in [(0, len), (8, seq)] {
            if let Some(place) = self.0.get_mut(at..at + 4) {
                place.copy_from_slice(&word.to_ne_bytes());
            }
        }
        self.0
    }
}

/// One message of a reply.
pub struct Reply<'a> {
    /// Message type (`nlmsg_type`).
    pub ty: u16,
    /// Sequence number of the request.
    pub seq: u32,
    flags: u16,
    body: &'a [u8],
}

impl Reply<'_> {
    /// Returns the error number of an [`ERROR`] reply, where 0 means success, and the kernel's
    /// error text if there is one.
    pub fn error(&self) -> (i32, Option<String>) {
        let errno = word(self.body, 0).unwrap_or_default() as i32;
        (errno.saturating_neg(), self.error_text())
    }

    fn error_text(&self) -> Option<String> {
        if self.flags & ACK_TLVS == 0 {
            return None;
        }
        let quoted = if self.flags & CAPPED != 0 { HEADER_LEN } else { word(self.body, 4)? as usize };
        let text = find(self.body.get(4 + quoted.next_multiple_of(4)..)?, ERROR_TEXT)?;
        Some(String::from_utf8_lossy(text.split(|b| *b == 0).next().unwrap_or_default()).into_owned())
    }

    /// Returns the interface index in a link or queue message.
    pub fn ifindex(&self) -> Option<u32> {
        word(self.body, 4)
    }

    /// Returns whether the message has the state of a device.
    pub fn is_of_link(&self) -> bool {
        self.ty == libc::RTM_NEWLINK && self.body.first() == Some(&(libc::AF_UNSPEC as u8))
    }

    /// Returns the flags of the device in a link message.
    pub fn link_flags(&self) -> Option<u32> {
        word(self.body, 8)
    }

    /// Returns the value of the attribute `ty`. The attributes follow a fixed part of `fixed`
    /// bytes.
    pub fn find(&self, fixed: usize, ty: u16) -> Option<&[u8]> {
        find(self.body.get(fixed..)?, ty)
    }
}

/// Iterator over the messages in a datagram from the kernel.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Reply<'a>;
    fn next(&mut self) -> Option<Reply<'a>> {
        let len = word(self.0, 0)? as usize;
        let reply = Reply {
            ty: half(self.0, 4)?,
            flags: half(self.0, 6)?,
            seq: word(self.0, 8)?,
            body: self.0.get(HEADER_LEN..len)?,
        };
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(reply)
    }
}

/// Returns the value of the first attribute of type `ty` in `rest`.
pub fn find(mut rest: &[u8], ty: u16) -> Option<&[u8]> {
    const TYPE: u16 = 0x3fff; // NLA_TYPE_MASK: without the flags for nesting and byte order
    loop {
        let len = usize::from(half(rest, 0)?);
        let value = rest.get(4..len)?;
        if half(rest, 2)? & TYPE == ty {
            return Some(value);
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
}

/// Returns the 16-bit word at byte `at`.
pub fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns the 32-bit word at byte `at`.
pub fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}
