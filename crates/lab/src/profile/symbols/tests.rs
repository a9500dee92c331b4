use super::super::modules::mapped;
use super::*;

#[inline(never)]
fn landmark(n: u64) -> u64 {
    std::hint::black_box(n).wrapping_mul(3)
}

#[test]
fn a_files_path_is_its_modules() {
    for (file, module) in [
        ("crates/inet/src/ip4/output.rs", Some("inet::ip4::output")),
        ("/home/a/linerate/crates/inet/src/lib.rs", Some("inet")),
        ("crates/linerate-cli/src/main.rs", Some("linerate_cli")),
        ("/rustc/5980761/library/core/src/slice/mod.rs", Some("core::slice")),
        ("/rustc/5980761/library/stdarch/crates/core_arch/src/x86/rdtsc.rs", Some("core_arch::x86::rdtsc")),
        ("/root/.cargo/registry/src/index.crates.io-1949cf8c/serde-json-1.0.1/src/de.rs", Some("serde_json::de")),
        ("../sysdeps/x86_64/multiarch/memmove.S", None),
        ("src.rs", None),
    ] {
        assert_eq!(module_of(file).as_deref(), module, "{file}");
    }
}

#[test]
fn a_paths_last_part_is_the_functions_name() {
    for (path, name) in [
        ("push", "push"),
        ("new<std::sync::mpmc::waker::Waker>", "new"),
        ("inet::udp::<impl inet::Stack<L>>::send_to", "send_to"),
        ("<a::B as c::D>::run", "run"),
        ("std::panic::catch_unwind::<std::rt::start::{closure#0}, isize>", "catch_unwind"),
        ("apps::send::run::{closure#0}", "run::{closure#0}"),
        ("a::each<fn(u8) -> u8>", "each"),
        ("{closure#0}", "{closure#0}"),
        ("", ""),
    ] {
        assert_eq!(last_segment(path), name, "{path}");
    }
}

#[test]
fn a_symbols_function_is_named_as_by_its_file() {
    for (symbol, bare, name) in [
        ("lab::profile::symbols::tests::landmark", "landmark", "lab::profile::symbols::tests::landmark"),
        ("inet::stack::Stack::count", "count", "inet::stack::count"),
        ("inet::ip4::forward::<inet::stack::Stack>::send", "send", "inet::ip4::forward::send"),
        ("<port::pktgen::Tx as port::TxHalf>::tx_burst", "tx_burst", "port::pktgen::tx_burst"),
        ("programs::testtool::report::{{closure}}", "report::{closure#0}", "programs::testtool::report::{closure#0}"),
        ("programs::testtool::report::{{closure}}", "{closure#0}", "programs::testtool::report::{closure#0}"),
        ("main", "main", "main"),
        ("memcpy", "memcpy", "memcpy"),
    ] {
        assert_eq!(of_symbol(symbol, bare), name, "{symbol}");
    }
}

#[test]
fn symbols_are_demangled() {
    assert_eq!(tidy("_ZN13linerate_inet3udp4send17h0123456789abcdefE"), "inet::udp::send");
    assert_eq!(tidy("clock_gettime@@GLIBC_2.17"), "clock_gettime");
    assert_eq!(without_generics("a::b::<C<D>>::e"), "a::b::<C<D>>::e".replace("::<C<D>>", "::<C>"));
    assert_eq!(without_generics("a::B<C>::d"), "a::B::d");
}

#[test]
fn a_function_of_ours_has_its_modules_name_and_is_resolved() {
    assert_eq!(landmark(2), 6);
    let modules = Modules::read(&mapped());
    let place = Symbols::new(&modules).at(landmark as *const () as u64, true);
    assert!(place.resolved);
    assert_eq!(place.names.last().map(String::as_str), Some("lab::profile::symbols::tests::landmark"));
}

#[test]
fn a_return_address_belongs_to_the_call_before_it() {
    let modules = Modules::read(&mapped());
    let mut symbols = Symbols::new(&modules);
    let start = landmark as *const () as u64;
    // As a return address, a function's first byte belongs to the code before it.
    assert_ne!(symbols.at(start, false), symbols.at(start, true));
    assert_eq!(symbols.at(start + 1, false).names, symbols.at(start, true).names);
}

#[test]
fn the_c_librarys_memcpy_has_a_name_though_its_symbol_may_be_stripped() {
    let modules = Modules::read(&mapped());
    let mut symbols = Symbols::new(&modules);
    let place = symbols.at(libc::memcpy as *const () as u64, true);
    assert!(place.resolved, "{place:?}");
    let name = place.names.last().unwrap();
    assert!(["memcpy", "memmove"].iter().any(|word| name.contains(word)), "{name}");
    assert_eq!(crate::profile::buckets::decide(place.names.iter().map(String::as_str)).1, crate::profile::Bucket::Copy);
}

#[test]
fn an_unmapped_address_is_unknown_and_not_resolved() {
    let modules = Modules::read(&mapped());
    let mut symbols = Symbols::new(&modules);
    for address in [0, 1, 0x10, u64::MAX, &raw const modules as u64] {
        let place = symbols.at(address, true);
        assert_eq!((place.names.as_slice(), place.resolved), ([UNKNOWN.to_owned()].as_slice(), false), "{address:#x}");
        assert!(!symbols.at(address, false).resolved || address == 0, "{address:#x}");
    }
}

#[test]
fn an_instruction_after_a_system_call_counts_as_kernel() {
    let modules = Modules::read(&mapped());
    let mut symbols = Symbols::new(&modules);
    let getpid = libc::getpid as *const () as u64;
    // glibc's getpid is `mov eax, 39; syscall; ret`, with or without an endbr64 before it.
    let kernel = |symbols: &mut Symbols<'_>, at| symbols.at(at, true).names[0].starts_with(KERNEL);
    let inside: Vec<u64> = (getpid..getpid + 16).filter(|at| kernel(&mut symbols, *at)).collect();
    let [call, after] = inside[..] else { panic!("{inside:?}") };
    assert_eq!(after - call, 2);
    assert_eq!(symbols.at(after, true).names, ["[kernel] getpid", "getpid"]);
    assert!(!kernel(&mut symbols, getpid));
}
