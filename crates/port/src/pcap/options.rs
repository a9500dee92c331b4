//! Options of pcapng blocks, and numbers in either byte order (draft-ietf-opsawg-pcapng-04,
//! sections 3 and 4).

/// Converter of numbers in the byte order of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    pub big_endian: bool,
}

impl Numbers {
    pub fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    pub fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    pub fn i64(self, bytes: &[u8]) -> Option<i64> {
        let bytes = *bytes.first_chunk()?;
        Some(if self.big_endian { i64::from_be_bytes(bytes) } else { i64::from_le_bytes(bytes) })
    }

    /// Appends to `out` the options that remain valid in another file, in little-endian byte order
    /// and without the end-of-list option. `form` maps the code of an option to the form of its
    /// value.
    pub fn copy_options(self, mut options: &[u8], form: fn(u16) -> Form, out: &mut Vec<u8>) {
        while let (Some(code @ 1..), Some(len)) = (self.u16(options, 0), self.u16(options, 2)) {
            let len = usize::from(len);
            let Some(value) = options.get(4..4 + len) else { return };
            let form = match form(code) {
                Form::Number if !matches!(len, 4 | 8) => Form::Left, // a number of an invalid width
                form => form,
            };
            let swapped = match form {
                Form::Left => 0,
                Form::Bytes => len,
                Form::Number if self.big_endian => 0,
                Form::Number => len,
                Form::Enterprise if self.big_endian => len.saturating_sub(4),
                Form::Enterprise => len,
            };
            if form != Form::Left {
                out.extend_from_slice(&code.to_le_bytes());
                out.extend_from_slice(&(len as u16).to_le_bytes());
                let (numbers, bytes) = value.split_at(len - swapped);
                out.extend(numbers.iter().rev());
                out.extend_from_slice(bytes);
                out.resize(out.len() + len.next_multiple_of(4) - len, 0);
            }
            options = options.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        }
    }

    /// Returns the value of the first option with the code `wanted`.
    pub fn option(self, mut options: &[u8], wanted: u16) -> Option<&[u8]> {
        loop {
            let (code, len) = (self.u16(options, 0)?, usize::from(self.u16(options, 2)?));
            if code == 0 {
                return None;
            }
            let value = options.get(4..4 + len)?;
            if code == wanted {
                return Some(value);
            }
            options = options.get(4 + len.next_multiple_of(4)..)?;
        }
    }
}

/// Form of an option's value, for conversion to the other byte order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Bytes whose order the standard defines.
    Bytes,
    /// A single number.
    Number,
    /// An enterprise number of 4 bytes, then bytes.
    Enterprise,
    /// Not copied, because the option is not valid in another file, or because the writer writes
    /// its own.
    Left,
}

/// Returns the form of an option of an Enhanced Packet Block. The hash (3) is not copied, because
/// it covers bytes that may be changed or stripped. The verdict (7) is not copied, because its
/// numbers have no fixed width.
pub fn packet_option(code: u16) -> Form {
    match code {
        2 | 4 | 5 | 6 => Form::Number,
        3 | 7 => Form::Left,
        _ => custom_option(code),
    }
}

/// Returns the form of an option of an Interface Description Block. Resolution (9), FCS length (13)
/// and offset (14) are not copied, because the writer writes its own.
pub fn interface_option(code: u16) -> Form {
    match code {
        8 | 10 | 16 | 17 => Form::Number,
        9 | 13 | 14 => Form::Left,
        _ => custom_option(code),
    }
}

/// Returns the form of an option of a Section Header Block. The application (4) is not copied,
/// because the writer writes its own.
pub fn section_option(code: u16) -> Form {
    if code == 4 { Form::Left } else { custom_option(code) }
}

fn custom_option(code: u16) -> Form {
    match code {
        2988 | 2989 => Form::Enterprise,
        19372 | 19373 => Form::Left, // custom options that must not be copied
        _ => Form::Bytes,
    }
}

/// Appends zeros after a value of `len` bytes, up to a multiple of four bytes.
pub fn pad(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice([0; 3].get(..len.next_multiple_of(4) - len).unwrap_or_default());
}

/// Appends an option in little-endian byte order.
pub fn append_option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    pad(out, value.len());
}
