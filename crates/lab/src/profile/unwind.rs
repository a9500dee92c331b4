//! Unwinding from a frame to its caller: the call frame information of `.eh_frame`, as a table that
//! a signal handler may read.
//!
//! Frame pointers would give the same, at the cost of a register in every function of the measured
//! program. Every x86-64 program has these tables (System V ABI, AMD64 supplement 3.7; LSB 5.0
//! 10.6). Compilers emit almost only `CFA = rsp + n` or `rbp + n` with the return address below it,
//! which a [`Row`] represents. Anything else (signal trampolines, hand-written unwind expressions
//! in PLTs) ends the walk: the stack is short, not wrong.

use addr2line::gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, NativeEndian, RegisterRule, UnwindContext, UnwindSection,
    UnwindTableRow, X86_64,
};

/// Registers used for unwinding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Registers {
    pub pc: u64,
    pub sp: u64,
    pub bp: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Sp,
    Bp,
    /// Unknown: the rule is not supported, or the address lies between functions.
    Unknown,
}

/// Location at which the caller's rbp is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SavedBp {
    Same,
    At(i32),
}

/// Unwinding rule for all instructions from `start` up to the next row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    start: u64,
    base: Base,
    offset: i32,
    bp: SavedBp,
}

/// Rows of all modules, by address.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Adds a module's section `eh_frame`, which is linked at `address` and loaded `bias` bytes
    /// above that. Unreadable entries are skipped.
    pub fn add(&mut self, eh_frame: &[u8], address: u64, bias: u64) {
        let section = EhFrame::new(eh_frame, NativeEndian);
        let bases = BaseAddresses::default().set_eh_frame(address);
        let mut context = UnwindContext::new();
        let mut entries = section.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            let Ok(fde) = partial.parse(|_, bases, offset| section.cie_from_offset(bases, offset)) else { continue };
            let trampoline = fde.is_signal_trampoline();
            // End of the rows read so far. After a read error it is not the end of the function.
            let mut end = fde.initial_address();
            if let Ok(mut rows) = fde.rows(&section, &bases, &mut context) {
                while let Ok(Some(row)) = rows.next_row() {
                    end = row.end_address();
                    let row = if trampoline { Row::unknown(row.start_address()) } else { Row::of(row) };
                    self.rows.push(Row { start: row.start.wrapping_add(bias), ..row });
                }
            }
            self.rows.push(Row::unknown(end.wrapping_add(bias)));
        }
    }

    /// Sorts the table, and removes function ends at which another function starts.
    pub fn finish(&mut self) {
        self.rows.sort_by_key(|row| (row.start, row.base == Base::Unknown));
        self.rows.dedup_by_key(|row| row.start);
        self.rows.shrink_to_fit();
    }

    /// Returns the number of rows.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the caller's registers, if the table covers the function and the stack can be read.
    /// If `leaf` is set, `at.pc` is the next instruction to run. Otherwise it is a return address;
    /// if the called function never returns, that address may already belong to the next function.
    pub fn caller(&self, at: Registers, leaf: bool, read: impl Fn(u64) -> Option<u64>) -> Option<Registers> {
        let pc = if leaf { at.pc } else { at.pc.checked_sub(1)? };
        let after = self.rows.partition_point(|row| row.start <= pc);
        let row = self.rows.get(after.checked_sub(1)?)?;
        let base = match row.base {
            Base::Sp => at.sp,
            Base::Bp => at.bp,
            Base::Unknown => return None,
        };
        let cfa = base.wrapping_add_signed(i64::from(row.offset));
        if cfa <= at.sp {
            // The stack frame of a caller is above that of its callee. Without this check, the walk
            // over a damaged stack might not end.
            return None;
        }
        let pc = read(cfa.wrapping_sub(8))?;
        let bp = match row.bp {
            SavedBp::Same => at.bp,
            SavedBp::At(offset) => read(cfa.wrapping_add_signed(i64::from(offset)))?,
        };
        (pc != 0).then_some(Registers { pc, sp: cfa, bp })
    }
}

impl Row {
    fn unknown(start: u64) -> Row {
        Row { start, base: Base::Unknown, offset: 0, bp: SavedBp::Same }
    }

    fn of(row: &UnwindTableRow<usize>) -> Row {
        let start = row.start_address();
        Row::known(row).unwrap_or(Row::unknown(start))
    }

    fn known(row: &UnwindTableRow<usize>) -> Option<Row> {
        let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { return None };
        let base = match register {
            X86_64::RSP => Base::Sp,
            X86_64::RBP => Base::Bp,
            _ => return None,
        };
        if !matches!(row.register(X86_64::RA), Some(RegisterRule::Offset(-8))) {
            return None; // the outermost frame has the rule "undefined"
        }
        let bp = match row.register(X86_64::RBP) {
            None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => SavedBp::Same,
            Some(RegisterRule::Offset(at)) => SavedBp::At(i32::try_from(at).ok()?),
            Some(_) => return None,
        };
        Some(Row { start: row.start_address(), base, offset: i32::try_from(offset).ok()?, bp })
    }
}

#[cfg(test)]
mod tests;
