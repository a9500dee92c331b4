//! Resolves an address to names: the functions inlined there first, then the function itself.
//!
//! Release builds contain line tables: for each inlined call a bare name (`push`) and its source
//! file. For files of this project and of the standard library the file determines the module, so a
//! name is the file's module path and the bare name: `inet::udp::output::send`. Types and generics
//! are omitted. The name of code without a line table is that of its symbol. The name of a system
//! call is `[kernel]`, followed by the function that called it.

use super::modules::{Elf, Module, Modules, VDSO};
use addr2line::gimli::{Dwarf, EndianSlice, NativeEndian, SectionId};
use object::{CompressionFormat, Object, ObjectSection, ObjectSymbol, SymbolKind};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Prefix of the name of a sample in a system call; the name of the calling function follows it.
pub const KERNEL: &str = "[kernel]";
/// Name of an address outside all mappings.
pub const UNKNOWN: &str = "[unknown]";

/// Placeholder for a function's name until its symbol is found.
const NAMELESS: &str = "?";

/// Function names at a code address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Names, innermost first; never empty.
    pub names: Vec<String>,
    /// Set if the first name is a function's, not a placeholder.
    pub resolved: bool,
}

type Reader<'a> = EndianSlice<'a, NativeEndian>;

/// A symbol, or a function without a symbol.
struct Symbol<'a> {
    range: Range<u64>,
    /// Name as in the symbol table. It is demangled only when it is used, since a program has about
    /// a hundred thousand symbols and a profile uses a few hundred. `None` if neither a symbol nor
    /// an import gives the function's name.
    name: Option<Cow<'a, str>>,
}

struct Tables<'a> {
    module: &'a Module,
    lines: Option<addr2line::Context<Reader<'a>>>,
    symbols: Vec<Symbol<'a>>,
}

/// Names for the addresses of `modules`; a module's tables are read at their first use.
pub(super) struct Symbols<'a> {
    modules: &'a Modules,
    tables: HashMap<usize, Tables<'a>>,
    imports: HashMap<u64, String>,
    known: HashMap<(u64, bool), Arc<Place>>,
}

impl<'a> Symbols<'a> {
    pub fn new(modules: &'a Modules) -> Symbols<'a> {
        let imports = modules.0.iter().flat_map(Module::imports).collect();
        Symbols { modules, tables: HashMap::new(), imports, known: HashMap::new() }
    }

    /// Returns the names at `address`. If `leaf` is set, `address` is the next instruction to run.
    /// Otherwise it is a return address, and the names are those of the call before it.
    pub fn at(&mut self, address: u64, leaf: bool) -> Arc<Place> {
        if let Some(place) = self.known.get(&(address, leaf)) {
            return place.clone();
        }
        let place = Arc::new(self.look(address, leaf));
        self.known.insert((address, leaf), place.clone());
        place
    }

    fn look(&mut self, address: u64, leaf: bool) -> Place {
        let probe = if leaf { address } else { address.wrapping_sub(1) };
        let Some((at, module)) = self.modules.find(probe) else {
            return Place { names: vec![UNKNOWN.to_owned()], resolved: false };
        };
        let tables = self.tables.entry(at).or_insert_with(|| Tables::of(module, &self.imports));
        let probe = probe.wrapping_sub(module.bias);
        let mut place = tables.place(probe);
        if leaf && tables.in_system_call(probe) {
            let caller = place.names.first().map_or("", |name| name.trim_start_matches("__"));
            place.names.insert(0, format!("{KERNEL} {caller}"));
            place.resolved = true;
        }
        place
    }
}

impl<'a> Tables<'a> {
    fn of(module: &'a Module, imports: &HashMap<u64, String>) -> Tables<'a> {
        let elf = module.elf();
        let debug = module.debug_elf();
        let lines = debug.as_ref().or(elf.as_ref()).and_then(lines);
        let symbols = symbols([elf, debug].iter().flatten(), module, imports);
        Tables { module, lines, symbols }
    }

    fn place(&self, probe: u64) -> Place {
        let symbol = self.symbol(probe);
        let mut names = self.inlined(probe);
        // The outermost name is that of the function itself. According to the line table it may
        // belong to another file or have no name, so the symbol is used, which has both the module
        // and the name.
        if let (Some(last), Some(symbol)) = (names.last_mut(), &symbol) {
            let bare = match last_segment(last) {
                NAMELESS => last_segment(symbol),
                bare => bare,
            };
            *last = of_symbol(symbol, bare);
        }
        if names.is_empty() {
            names.extend(symbol);
        }
        if self.module.name == VDSO {
            names.iter_mut().for_each(|name| *name = format!("{VDSO} {}", name.trim_start_matches("__vdso_")));
        }
        if !names.is_empty() {
            return Place { names, resolved: true };
        }
        // A function without a name is identified by its start address.
        let begins = self.nearest(probe).map_or(String::new(), |symbol| format!("+{:#x}", symbol.range.start));
        Place { names: vec![format!("{}{begins}", self.module.name)], resolved: self.module.name == VDSO }
    }

    /// Returns the names in the line tables, innermost first.
    fn inlined(&self, probe: u64) -> Vec<String> {
        let mut names = Vec::new();
        let frames = self.lines.as_ref().and_then(|lines| lines.find_frames(probe).skip_all_loads().ok());
        let Some(mut frames) = frames else { return names };
        while let Ok(Some(frame)) = frames.next() {
            let bare = frame.function.as_ref().and_then(|name| name.demangle().ok());
            let bare = bare.as_deref().map_or(NAMELESS, last_segment);
            let module = frame.location.and_then(|location| location.file).and_then(module_of);
            names.push(module.map_or_else(|| bare.to_owned(), |module| format!("{module}::{bare}")));
        }
        names
    }

    fn nearest(&self, probe: u64) -> Option<&Symbol<'a>> {
        let after = self.symbols.partition_point(|symbol| symbol.range.start <= probe);
        self.symbols.get(after.checked_sub(1)?).filter(|symbol| symbol.range.contains(&probe))
    }

    fn symbol(&self, probe: u64) -> Option<String> {
        Some(tidy(self.nearest(probe)?.name.as_deref()?))
    }

    /// Returns whether the instruction at `probe`, or the one before it, is a system call. A signal
    /// that arrives during a system call is handled when the call ends or, if the kernel restarts
    /// the call, at the instruction itself. A timer's signal there therefore means time in the
    /// kernel.
    fn in_system_call(&self, probe: u64) -> bool {
        let call: &[u8] = if cfg!(target_arch = "aarch64") { &[0x01, 0, 0, 0xd4] } else { &[0x0f, 0x05] };
        let at = |address: u64| self.bytes(address, call.len()) == Some(call);
        at(probe) || at(probe.wrapping_sub(call.len() as u64))
    }

    fn bytes(&self, address: u64, length: usize) -> Option<&'a [u8]> {
        let elf = self.module.elf()?;
        let section = elf.sections().find(|section| {
            (section.address()..section.address() + section.size()).contains(&address) && section.address() != 0
        })?;
        let (start, _) = section.file_range()?;
        let start = usize::try_from(start + (address - section.address())).ok()?;
        self.module.image.get(start..start.checked_add(length)?)
    }
}

/// Reads the module's line tables, if it has any. Compressed ones, as in distributions' packages of
/// symbols, are not read.
fn lines<'a>(elf: &Elf<'a>) -> Option<addr2line::Context<Reader<'a>>> {
    elf.section_by_name(".debug_info")?;
    let load = |id: SectionId| -> Result<Reader<'a>, addr2line::gimli::Error> {
        let section = elf.section_by_name(id.name());
        let plain = section.filter(|section| {
            section.compressed_file_range().is_ok_and(|range| range.format == CompressionFormat::None)
        });
        let bytes = plain.and_then(|section| section.data().ok()).unwrap_or_default();
        Ok(EndianSlice::new(bytes, NativeEndian))
    };
    addr2line::Context::from_dwarf(Dwarf::load(load).ok()?).ok()
}

/// Returns functions by linked address. Their names come from the symbol tables or, if missing
/// there, from an import; some functions remain unnamed.
fn symbols<'a, 'e>(
    files: impl Iterator<Item = &'e Elf<'a>>,
    module: &Module,
    imports: &HashMap<u64, String>,
) -> Vec<Symbol<'a>>
where
    'a: 'e,
{
    let mut symbols: Vec<Symbol<'a>> = Vec::new();
    for symbol in files.flat_map(|elf| elf.symbols().chain(elf.dynamic_symbols())) {
        let code = matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown) && symbol.is_definition();
        if code
            && symbol.size() > 0
            && let Ok(name) = symbol.name()
        {
            let range = symbol.address()..symbol.address().saturating_add(symbol.size());
            symbols.push(Symbol { range, name: Some(Cow::Borrowed(name)) });
        }
    }
    for range in module.functions() {
        let name = imports.get(&range.start.wrapping_add(module.bias)).cloned().map(Cow::Owned);
        symbols.push(Symbol { range, name });
    }
    // If an address has several names, the one with fewer leading underscores is used, then the
    // shorter one. An entry without a name is used only if there is no other.
    symbols.sort_by_cached_key(|symbol| {
        let name = symbol.name.as_deref().unwrap_or("");
        // The leading underscore of a mangled name is not displayed.
        let mangled = name.starts_with("_ZN") || name.starts_with("_R");
        let hidden = if mangled { 0 } else { name.len() - name.trim_start_matches('_').len() };
        (symbol.range.start, symbol.name.is_none(), hidden, name.len())
    });
    symbols.dedup_by_key(|symbol| symbol.range.start);
    symbols
}

/// Formats a symbol's name for display: demangled, without the project's package prefix, hash and
/// generics.
fn tidy(name: &str) -> String {
    match rustc_demangle::try_demangle(name) {
        Ok(rust) => without_generics(&format!("{rust:#}")).replace("linerate_", ""),
        Err(_) => name.split('@').next().unwrap_or(name).to_owned(),
    }
}

/// Removes `::<...>`, and `<...>` after a name; keeps `<impl A for B>` and `<A as B>` at the start
/// of a segment.
fn without_generics(name: &str) -> String {
    let (mut out, mut depth) = (String::new(), 0usize);
    let mut last = ' ';
    for letter in name.chars() {
        match letter {
            '<' if depth > 0 || last.is_alphanumeric() || last == '_' => depth += 1,
            '>' if depth > 0 && last != '-' => depth -= 1,
            _ if depth == 0 => out.push(letter),
            _ => {}
        }
        last = letter;
    }
    out.replace("::<impl ", "::<").replace("<impl ", "<")
}

/// Returns the last segment of a path, without its generics. For a closure, returns the name of the
/// enclosing function and the closure.
fn last_segment(name: &str) -> &str {
    let (mut depth, mut last) = (0i32, ' ');
    let (mut starts, mut end) = (vec![0], name.len());
    for (at, letter) in name.char_indices() {
        match letter {
            '<' => {
                if depth == 0 && at > 0 {
                    // Generics (`name<T>` or `name::<T>`) end the name, unless another segment
                    // follows them (`<impl A>::name`).
                    end = if last == ':' { at - 2 } else { at };
                    starts.pop_if(|start| *start == at && last == ':');
                }
                depth += 1;
            }
            '>' if last != '-' => depth -= 1,
            ':' if depth == 0 && last == ':' => {
                starts.push(at + 1);
                end = name.len();
            }
            _ => {}
        }
        last = letter;
    }
    let closure = |start: &usize| name.get(*start..).is_some_and(|rest| rest.starts_with('{'));
    let start = starts.iter().rev().find(|start| !closure(start)).copied().unwrap_or(0);
    name.get(start..end).unwrap_or(name)
}

/// Returns the path of the function `bare`: the modules of `symbol`, without the type of a method,
/// and then `bare`.
fn of_symbol(symbol: &str, bare: &str) -> String {
    let is_module = |part: &&str| {
        part.starts_with(|c: char| c.is_lowercase() || c == '_')
            && part.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    let mut modules: Vec<&str> = symbol.trim_start_matches('<').split("::").take_while(is_module).collect();
    // The last lowercase segment is the function's own name, unless a type precedes that name. The
    // name of a closure begins with that of its function.
    let own = bare.split("::").next().unwrap_or(bare);
    modules.pop_if(|last| *last == own);
    modules.iter().fold(String::new(), |path, module| path + module + "::") + bare
}

/// Returns the module path of a source file: `crates/inet/src/ip4/output.rs` is
/// `inet::ip4::output`.
fn module_of(file: &str) -> Option<String> {
    let (left, right) = file.rsplit_once("/src/")?;
    let package = left.rsplit('/').next()?;
    let package = match left.contains("/registry/src/") {
        true => package.rsplit_once('-').map_or(package, |(name, _)| name), // name-1.2.3
        false => package,
    };
    let inner = right.strip_suffix(".rs")?;
    let inner = inner.strip_suffix("/mod").unwrap_or(inner);
    let inner = if matches!(inner, "lib" | "main" | "mod") { "" } else { inner };
    let path = if inner.is_empty() { package.to_owned() } else { format!("{package}/{inner}") };
    Some(path.replace('/', "::").replace('-', "_"))
}

#[cfg(test)]
mod tests;
