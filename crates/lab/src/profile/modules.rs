//! Executable mappings: the program, its libraries and the vdso, from /proc/self/maps, each with
//! its ELF image.
//!
//! The program is read through /proc/self/exe, which is the running one even if its file was
//! rebuilt. The vdso has no file; its image is read from this process's memory through
//! /proc/self/mem. A module without line tables may have them in a separate file with the same
//! build identifier (see [`separate`]). A mapping that cannot be read or parsed stays in the list
//! without an image: its addresses resolve to a module without a function name.

use super::unwind::Table;
use addr2line::gimli::{BaseAddresses, CieOrFde, EhFrame, NativeEndian, UnwindSection};
use object::elf::PF_X;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};
use std::collections::HashMap;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Name of the vdso in /proc/self/maps, and in profiles.
pub(super) const VDSO: &str = "[vdso]";
/// Maximum size of an image read from memory; the vdso has two pages.
const VDSO_MAX: u64 = 1 << 16;

pub(super) type Elf<'a> = ElfFile64<'a, object::NativeEndian>;

#[derive(Debug)]
pub(super) struct Module {
    /// File name, or `[vdso]`.
    pub name: String,
    /// Address range of the code.
    pub code: Range<u64>,
    /// Mapped address minus the linked address.
    pub bias: u64,
    /// ELF image; empty if it could not be read.
    pub image: Vec<u8>,
    /// ELF image of the separate file with the symbols and line tables; empty without such a file.
    pub debug: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct Modules(pub Vec<Module>);

/// Parses an executable line of /proc/self/maps: addresses, file offset, path.
fn mapping(line: &str) -> Option<(Range<u64>, u64, &str)> {
    let mut words = line.splitn(6, ' ').map(str::trim);
    let (start, end) = words.next()?.split_once('-')?;
    let executable = words.next()?.contains('x');
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let path = words.nth(2)?;
    let range = u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
    (executable && (path.starts_with('/') || path == VDSO)).then_some((range, offset, path))
}

/// Returns the lines of /proc/self/maps that describe code.
pub(super) fn mapped() -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter(|line| mapping(line).is_some()).flat_map(|line| [line, "\n"]).collect()
}

impl Modules {
    /// Reads the modules of `maps`, as returned by [`mapped`].
    pub fn read(maps: &str) -> Modules {
        let program = fs::read_link("/proc/self/exe").unwrap_or_default();
        let module = |(code, offset, path): (Range<u64>, u64, &str)| {
            let image = match path {
                VDSO => memory(&code).unwrap_or_default(),
                _ if program.as_os_str() == path => fs::read("/proc/self/exe").unwrap_or_default(),
                _ => fs::read(path).unwrap_or_default(),
            };
            let name = path.rsplit('/').next().unwrap_or(path).trim_end_matches(" (deleted)").to_owned();
            let bias = Elf::parse(&*image).ok().and_then(|elf| bias(&elf, &code, offset)).unwrap_or(0);
            let debug = separate(Path::new(path), &image).unwrap_or_default();
            Module { name, code, bias, image, debug }
        };
        Modules(maps.lines().filter_map(mapping).map(module).collect())
    }

    /// Returns the module that contains `address`, and its index.
    pub fn find(&self, address: u64) -> Option<(usize, &Module)> {
        self.0.iter().enumerate().find(|(_, module)| module.code.contains(&address))
    }

    /// Returns the unwinding table of all modules.
    pub fn unwinding(&self) -> Table {
        let mut table = Table::default();
        if cfg!(target_arch = "x86_64") {
            for module in &self.0 {
                module.eh_frame(|bytes, address| table.add(bytes, address, module.bias));
            }
            table.finish();
        }
        table
    }
}

/// Returns the file with the symbols and line tables that were split from the module at `path`, as
/// `objcopy --only-keep-debug` writes them. Looks in the module's directory and in `.debug` there
/// for the name in the module's section `.gnu_debuglink` (without that section: `<name>.debug`),
/// and in /usr/lib/debug for its build identifier. `None` if the module has line tables itself, or
/// if no file has the same build identifier.
fn separate(path: &Path, image: &[u8]) -> Option<Vec<u8>> {
    let elf = Elf::parse(image).ok()?;
    if elf.section_by_name(".debug_info").is_some() {
        return None;
    }
    let id = elf.build_id().ok()??;
    let name = match elf.gnu_debuglink() {
        Ok(Some((name, _))) => String::from_utf8_lossy(name).into_owned(),
        _ => format!("{}.debug", path.file_name()?.to_str()?.trim_end_matches(" (deleted)")),
    };
    let dir = path.parent()?;
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let by_id = Path::new("/usr/lib/debug/.build-id").join(hex.get(..2)?).join(format!("{}.debug", hex.get(2..)?));
    [dir.join(&name), dir.join(".debug").join(&name), by_id].into_iter().find_map(|file| {
        let bytes = fs::read(file).ok()?;
        let same = Elf::parse(&*bytes).ok()?.build_id().ok()? == Some(id);
        same.then_some(bytes)
    })
}

/// Reads a range of this process's memory.
fn memory(range: &Range<u64>) -> Option<Vec<u8>> {
    let length = range.end.checked_sub(range.start).filter(|length| *length <= VDSO_MAX)?;
    let mut bytes = vec![0; length as usize];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, range.start).ok()?;
    Some(bytes)
}

/// Returns the difference between mapped and linked addresses, for code mapped at `code` from
/// `offset` of the file.
fn bias(elf: &Elf<'_>, code: &Range<u64>, offset: u64) -> Option<u64> {
    let endian = elf.endian();
    let holds = |header: &&object::elf::ProgramHeader64<object::NativeEndian>| {
        let (at, size) = (header.p_offset(endian), header.p_filesz(endian));
        // A mapping begins at the page where its segment begins.
        header.p_flags(endian).0 & PF_X.0 != 0 && at < offset + (code.end - code.start) && offset < at + size
    };
    let header = elf.elf_program_headers().iter().find(holds)?;
    Some(code.start.wrapping_sub(offset).wrapping_add(header.p_offset(endian)).wrapping_sub(header.p_vaddr(endian)))
}

impl Module {
    pub fn elf(&self) -> Option<Elf<'_>> {
        Elf::parse(&*self.image).ok()
    }

    /// Returns the ELF file with the symbols and line tables that were split from this module.
    pub fn debug_elf(&self) -> Option<Elf<'_>> {
        Elf::parse(&*self.debug).ok()
    }

    /// Calls `with` with the contents of the section `.eh_frame` and its linked address.
    fn eh_frame(&self, with: impl FnOnce(&[u8], u64)) {
        if let Some(section) = self.elf().as_ref().and_then(|elf| elf.section_by_name(".eh_frame"))
            && let Ok(bytes) = section.data()
        {
            with(bytes, section.address());
        }
    }

    /// Returns the linked address ranges of all functions, including those with stripped symbols.
    pub fn functions(&self) -> Vec<Range<u64>> {
        let mut functions = Vec::new();
        self.eh_frame(|bytes, address| {
            let section = EhFrame::new(bytes, NativeEndian);
            let bases = BaseAddresses::default().set_eh_frame(address);
            let mut entries = section.entries(&bases);
            while let Ok(Some(entry)) = entries.next() {
                let CieOrFde::Fde(partial) = entry else { continue };
                if let Ok(fde) = partial.parse(|_, bases, offset| section.cie_from_offset(bases, offset)) {
                    functions.push(fde.initial_address()..fde.initial_address().wrapping_add(fde.len()));
                }
            }
        });
        functions.sort_by_key(|function| function.start);
        functions
    }

    /// Reads the module's resolved imports: mapped address to name. The C library selects its
    /// memcpy when it is loaded, and a stripped library has no symbol for the selected one; the
    /// import slot has its name.
    pub fn imports(&self) -> HashMap<u64, String> {
        let (Some(elf), Ok(memory)) = (self.elf(), File::open("/proc/self/mem")) else { return HashMap::new() };
        let import = |(slot, relocation): (u64, object::Relocation)| {
            let RelocationTarget::Symbol(index) = relocation.target() else { return None };
            let symbol = elf.dynamic_symbol_table().and_then(|table| {
                use object::ObjectSymbolTable;
                table.symbol_by_index(index).ok()
            })?;
            let mut word = [0; 8];
            memory.read_exact_at(&mut word, slot.wrapping_add(self.bias)).ok()?;
            Some((u64::from_ne_bytes(word), symbol.name().ok()?.to_owned()))
        };
        let all = elf.dynamic_relocations().into_iter().flatten().filter_map(import);
        all.filter(|(address, name)| *address != 0 && !name.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests;
