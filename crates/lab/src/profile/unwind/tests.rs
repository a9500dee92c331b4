use super::super::modules::mapped;
use super::*;
use crate::profile::modules::Modules;

fn table(rows: &[Row]) -> Table {
    let mut table = Table { rows: rows.to_vec() };
    table.finish();
    table
}

const AT: Registers = Registers { pc: 0x1010, sp: 0x7000, bp: 0x7100 };

#[test]
fn a_caller_is_found_by_the_stack_pointer_or_by_the_frame_pointer() {
    let table = table(&[
        Row { start: 0x1000, base: Base::Sp, offset: 24, bp: SavedBp::At(-16) },
        Row { start: 0x1020, base: Base::Bp, offset: 16, bp: SavedBp::Same },
        Row::unknown(0x1030),
    ]);
    let stack = |address: u64| Some(address ^ 0xf000_0000);
    let up = table.caller(AT, true, stack).unwrap();
    assert_eq!(up, Registers { pc: 0x7010 ^ 0xf000_0000, sp: 0x7018, bp: 0x7008 ^ 0xf000_0000 });
    let up = table.caller(Registers { pc: 0x1020, ..AT }, true, stack).unwrap();
    assert_eq!(up, Registers { pc: 0x7108 ^ 0xf000_0000, sp: 0x7110, bp: 0x7100 });
    // As a return address, 0x1020 belongs to the function before it.
    let up = table.caller(Registers { pc: 0x1020, ..AT }, false, stack).unwrap();
    assert_eq!(up.sp, 0x7018);
}

#[test]
fn a_walk_ends_at_unknown_code_unreadable_memory_or_no_progress() {
    let row = Row { start: 0x1000, base: Base::Sp, offset: 8, bp: SavedBp::Same };
    let known = table(&[row, Row::unknown(0x1100)]);
    assert!(known.caller(AT, true, |_| Some(1)).is_some());
    assert_eq!(known.caller(AT, true, |_| None), None, "outside the stack");
    assert_eq!(known.caller(AT, true, |_| Some(0)), None, "no caller");
    for pc in [0, 0xfff, 0x1100, u64::MAX] {
        assert_eq!(known.caller(Registers { pc, ..AT }, true, |_| Some(1)), None, "{pc:#x}");
    }
    assert_eq!(known.caller(Registers { pc: 0, ..AT }, false, |_| Some(1)), None);
    let still = table(&[Row { offset: 0, ..row }]);
    assert_eq!(still.caller(AT, true, |_| Some(1)), None, "no progress");
    let back = table(&[Row { offset: 8, base: Base::Bp, ..row }]);
    assert_eq!(back.caller(Registers { bp: 0x100, ..AT }, true, |_| Some(1)), None, "downwards");
    assert_eq!(Table::default().caller(AT, true, |_| Some(1)), None);
}

#[test]
fn of_two_rows_at_one_address_the_functions_start_is_kept() {
    let row = Row { start: 0x1000, base: Base::Sp, offset: 8, bp: SavedBp::Same };
    assert_eq!(table(&[Row::unknown(0x1000), row]).rows, [row]);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn this_programs_own_tables_are_read() {
    let table = Modules::read(&mapped()).unwinding();
    assert!(table.len() > 10_000, "{}", table.len());
    let known = table.rows.iter().filter(|row| row.base != Base::Unknown).count();
    assert!(known * 10 > table.len() * 5, "{known} of {}: the others are ends", table.len());
    let here = this_programs_own_tables_are_read as *const () as u64;
    // At its first instruction a function has pushed nothing: its return address is on top of the
    // stack.
    let up = table.caller(Registers { pc: here, ..AT }, true, |address| Some(address + 1)).unwrap();
    assert_eq!(up, Registers { pc: 0x7001, sp: 0x7008, bp: 0x7100 });
}

#[test]
fn invalid_tables_are_ignored() {
    let mut seed = 1u64;
    for length in 0..400 {
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 56) as u8 & 0x1f
            })
            .collect();
        let mut table = Table::default();
        table.add(&bytes, 0x1000, u64::MAX - 7);
        table.finish();
        let _ = table.caller(AT, true, Some);
    }
}
