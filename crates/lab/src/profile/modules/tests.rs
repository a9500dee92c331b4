use super::*;

#[test]
fn executable_mappings_of_files_and_the_vdso_are_parsed() {
    let line = "7f12a0028000-7f12a01bd000 r-xp 00028000 fe:00 1234                       /usr/lib/libc.so.6";
    assert_eq!(mapping(line), Some((0x7f12_a002_8000..0x7f12_a01b_d000, 0x28000, "/usr/lib/libc.so.6")));
    let vdso = "7ffd1b1f2000-7ffd1b1f4000 r-xp 00000000 00:00 0                          [vdso]";
    assert_eq!(mapping(vdso).map(|(_, _, path)| path), Some(VDSO));
    let spaced = "1000-2000 r-xp 00000000 00:00 7 /opt/a b";
    assert_eq!(mapping(spaced).map(|(_, _, path)| path), Some("/opt/a b"));
    for other in [
        "1000-2000 r--p 00000000 fe:00 7 /bin/a",
        "1000-2000 r-xp 00000000 00:00 0 [vsyscall]",
        "1000-2000 rwxp 00000000 00:00 0",
        "nonsense",
        "",
    ] {
        assert_eq!(mapping(other), None, "{other}");
    }
}

#[test]
fn the_program_the_c_library_and_the_vdso_are_found_with_their_images() {
    let modules = Modules::read(&mapped());
    let (_, program) = modules.find(Modules::read as *const () as u64).expect("this program");
    assert!(program.name.starts_with("linerate_lab"), "{}", program.name);
    let (_, libc) = modules.find(libc::getpid as *const () as u64).expect("the C library");
    assert!(libc.name.starts_with("libc"), "{}", libc.name);
    for module in modules.0.iter().filter(|module| [&program.name, &libc.name, VDSO].contains(&&*module.name)) {
        assert!(module.elf().is_some(), "{}", module.name);
        assert!(!module.functions().is_empty(), "{}", module.name);
    }
    assert!(modules.0.iter().any(|module| module.name == VDSO), "every x86-64 Linux has one");
    assert!(modules.find(0x10).is_none());
}

#[test]
fn a_functions_address_is_its_linked_address_plus_the_bias() {
    let modules = Modules::read(&mapped());
    let address = libc::getpid as *const () as u64;
    let (_, module) = modules.find(address).unwrap();
    let elf = module.elf().unwrap();
    let symbol = elf.dynamic_symbols().find(|symbol| symbol.name() == Ok("getpid")).unwrap();
    assert_eq!(symbol.address().wrapping_add(module.bias), address);
}

#[test]
fn a_module_with_line_tables_needs_no_separate_file() {
    let modules = Modules::read(&mapped());
    let (_, program) = modules.find(Modules::read as *const () as u64).expect("this program");
    assert!(program.debug.is_empty() && program.debug_elf().is_none());
    assert!(separate(Path::new("/nonexistent"), b"not ELF").is_none());
}
