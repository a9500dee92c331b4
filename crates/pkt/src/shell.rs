//! Interprets text in back quotes: only commands that set sysctls.
//!
//! `sysctl`, `echo ... > /proc/sys/...`, and shell scripts that consist of these commands are
//! interpreted, not executed. Linux names are translated to the names of our sysctls. A name
//! without an equivalent is accepted if the value matches our behavior.

use crate::script::FILE_MAX;
use inet::sysctls::Sysctls;
use std::path::Path;

/// Maximum nesting of shell scripts.
const DEPTH_MAX: usize = 4;

/// Applies the commands in `text` to `sysctls`. Files are relative to `dir`. If `dir` is `None`, it
/// cannot use files.
pub(crate) fn run(text: &str, sysctls: &Sysctls, dir: Option<&Path>, depth: usize) -> Result<(), String> {
    let text = text.replace("\\\n", " ");
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with('#') {
            continue;
        }
        for command in line.split(';') {
            let words = words(command)?;
            one(&words, sysctls, dir, depth)?;
        }
    }
    Ok(())
}

/// Splits a command into words: removes quotes, evaluates `$((...))`, and drops comments and output
/// redirections.
fn words(command: &str) -> Result<Vec<String>, String> {
    let (mut out, mut word, mut quoted, mut any) = (Vec::new(), String::new(), false, false);
    let mut chars = command.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' | '\'' => (quoted, any) = (!quoted, true),
            '#' if !quoted && word.is_empty() => break,
            '$' if chars.peek() == Some(&'(') => {
                let rest: String = chars.by_ref().take_while(|c| *c != ')').collect();
                chars.next_if_eq(&')');
                let product = rest.trim_matches('(').split('*').map(|n| n.trim().parse::<i64>());
                let product = product.collect::<Result<Vec<_>, _>>();
                let product = product.map_err(|_| format!("$({rest}): expected a product of integers"))?;
                let product =
                    product.iter().try_fold(1i64, |a, b| a.checked_mul(*b)).ok_or("product exceeds 64 bits")?;
                word.push_str(&product.to_string());
            }
            c if c.is_whitespace() && !quoted => {
                if any || !word.is_empty() {
                    out.push(std::mem::take(&mut word));
                }
                any = false;
            }
            c => word.push(c),
        }
    }
    if any || !word.is_empty() {
        out.push(word);
    }
    Ok(out)
}

fn one(words: &[String], sysctls: &Sysctls, dir: Option<&Path>, depth: usize) -> Result<(), String> {
    let Some((command, args)) = words.split_first() else { return Ok(()) };
    let name = command.rsplit('/').next().unwrap_or_default();
    match name {
        "sysctl" | "set_sysctls.py" => {
            let args = args.iter().filter(|arg| !arg.starts_with('-')).take_while(|arg| !arg.starts_with('>'));
            args.into_iter().try_for_each(|arg| match arg.split_once('=') {
                Some((name, value)) => sysctls.set_as_linux(name, value),
                None => Err(format!("sysctl {arg}: expected name=value")),
            })
        }
        "echo" => match args {
            [value, to, path] if to == ">" && path.starts_with("/proc/sys/") => sysctls.set_as_linux(path, value),
            // Both detection methods of HyStart are always enabled.
            [value, to, path] if to == ">" && path.ends_with("hystart_detect") && value == "3" => Ok(()),
            _ => Err(format!("unsupported command '{}'", words.join(" "))),
        },
        _ if name.starts_with("sysctl_restore_") => Ok(()), // sysctls are reset with each script
        "ip" if args.first().is_some_and(|arg| arg == "tcp_metrics") => Ok(()), // no metrics are cached
        // These commands request the behavior that our host has by default.
        "tc" if args.iter().any(|arg| arg == "pfifo") && !args.iter().any(|arg| arg == "limit") => Ok(()),
        "ethtool" if args.iter().skip(2).step_by(2).eq(["tso", "gso"]) && !args.iter().any(|arg| arg == "on") => Ok(()),
        _ if name.ends_with(".sh") && args.is_empty() => {
            let path = dir.map(|dir| dir.join(command)).ok_or_else(|| format!("{command}: cannot read files here"))?;
            if depth >= DEPTH_MAX {
                return Err(format!("{command}: shell scripts nested too deeply"));
            }
            let text = port::os::read_text(&path, FILE_MAX).map_err(|why| format!("{}: {why}", path.display()))?;
            run(&text, sysctls, path.parent(), depth + 1)
        }
        _ => Err(format!("unsupported command '{}': only sysctls can be set", words.join(" "))),
    }
}
