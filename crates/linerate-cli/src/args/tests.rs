//! Checks that the parser accepts every command line shown in a page, an example or a help text.

use super::*;
use clap::CommandFactory;
use std::path::Path;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// Returns the words of a `linerate` command in a shell line, starting with the program's name;
/// `None` if there is none.
fn command(line: &str) -> Option<Vec<&str>> {
    let mut words = line.split_whitespace().skip_while(|word| word.contains('=') && !word.starts_with("--"));
    let rest: Vec<&str> = match words.next()? {
        "linerate" => words.collect(),
        "cargo" if words.next() == Some("run") => words.skip_while(|word| *word != "--").skip(1).collect(),
        _ => return None,
    };
    let is_end = |word: &&str| matches!(*word, "|" | "&" | "&&" | ">") || word.starts_with(['#', '(']);
    let end = rest.iter().position(is_end).unwrap_or(rest.len());
    Some(std::iter::once("linerate").chain(rest[..end].iter().copied()).collect())
}

/// Parses the commands among `lines` and returns their number.
#[track_caller]
fn all_parse<'a>(place: &str, lines: impl Iterator<Item = &'a str>) -> usize {
    let mut found = 0;
    for words in lines.filter_map(command) {
        // Commands joined by `+`: each is parsed separately.
        for words in words.split(|word| *word == "+") {
            let program = (words.first() != Some(&"linerate")).then_some("linerate");
            let words: Vec<&str> = program.into_iter().chain(words.iter().copied()).collect();
            // Help and version are valid results, too.
            if let Err(why) = Cli::try_parse_from(&words)
                && why.use_stderr()
            {
                panic!("{place}: {words:?}\n{why}");
            }
        }
        found += 1;
    }
    found
}

#[test]
fn the_pages_commands_parse() {
    let code = |page| {
        let text = read(page);
        all_parse(page, text.lines().filter_map(|line| line.strip_prefix("    ")))
    };
    assert!(code("README.md") >= 4, "the pattern finds no commands any more");
    assert!(code("docs/results/README.md") >= 1, "the pattern finds no commands any more");
    assert!(code("docs/extcap.md") >= 1, "the pattern finds no commands any more");
    assert!(code("examples/pipes/README.md") >= 4, "the pattern finds no commands any more");
}

#[test]
fn the_topologies_commands_parse() {
    let mut found = 0;
    for entry in std::fs::read_dir(root().join("topo")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        found += all_parse(&path.display().to_string(), text.lines().filter_map(|line| line.strip_prefix("#   ")));
    }
    assert!(found >= 3, "the pattern finds no commands any more");
}

#[test]
fn the_helps_examples_parse() {
    let mut found = 0;
    for command in Cli::command().get_subcommands() {
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        found += all_parse(command.get_name(), after.lines().filter_map(|line| line.strip_prefix("  ")));
    }
    assert!(found >= 6, "the pattern finds no commands any more");
}

/// Checks that `linerate WORD` in running text names a command.
#[test]
fn commands_named_in_pages_exist() {
    let cli = Cli::command();
    let mut found = 0;
    for page in [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "VOCABULARY.md",
        "docs/results/README.md",
        "docs/extcap.md",
        "examples/pipes/README.md",
    ] {
        for quoted in read(page).split('`').skip(1).step_by(2) {
            let Some(word) = quoted.strip_prefix("linerate ").and_then(|rest| rest.split_whitespace().next()) else {
                continue;
            };
            assert!(cli.find_subcommand(word).is_some(), "{page}: `{quoted}`");
            found += 1;
        }
    }
    assert!(found >= 8, "the pattern finds no commands any more");
}

#[test]
fn zero_rounds_are_rejected() {
    for words in ["livelock", "bench bridge", "gate --baseline x.json", "repro netisr2005"] {
        let with =
            |rounds| Cli::try_parse_from(["linerate"].into_iter().chain(words.split(' ')).chain(["--rounds", rounds]));
        assert!(with("1").is_ok(), "{words}");
        let why = with("0").unwrap_err().to_string();
        assert!(why.contains("'0' for '--rounds <N>': 0 is not in 1.."), "{why}");
    }
}

#[test]
fn a_command_is_found_in_a_line() {
    assert_eq!(command("A=/b linerate ctl -j ip route | jq ."), Some(vec!["linerate", "ctl", "-j", "ip", "route"]));
    assert_eq!(command("cargo run --release -- repro x"), Some(vec!["linerate", "repro", "x"]));
    assert_eq!(command("linerate up f   (as root)"), Some(vec!["linerate", "up", "f"]));
    assert_eq!((command("cargo test --workspace"), command("ping 10.0.0.2")), (None, None));
}

/// Returns every command and subcommand, built as for a terminal of `width` columns.
fn all_commands(width: usize) -> Vec<clap::Command> {
    let mut program = Cli::command().term_width(width);
    program.build();
    let (mut waiting, mut all) = (vec![program], Vec::new());
    while let Some(command) = waiting.pop() {
        waiting.extend(command.get_subcommands().cloned());
        all.push(command);
    }
    all
}

/// Every help text fits a terminal of 80 columns, the width used if standard output is not a
/// terminal. On other widths it fits as far as its longest words do.
#[test]
fn every_help_fits_the_terminal() {
    for width in [60, 80, 100, 132] {
        for mut command in all_commands(width) {
            for help in [command.render_help(), command.render_long_help()] {
                let help = help.to_string();
                let is_wide = |line: &&str| line.chars().count() > width && line.trim().contains(' ');
                let wide = help.lines().filter(|line| !line.trim_start().starts_with("Usage:")).find(is_wide);
                assert_eq!(wide, None, "{} at {width}", command.get_name());
            }
        }
    }
}

/// No paragraph of a declaration is wrapped by hand, since a narrow terminal would wrap it a second
/// time.
#[test]
fn no_help_is_wrapped_by_hand() {
    let is_text = |line: &str| !line.is_empty() && !line.starts_with(' ');
    for command in all_commands(80) {
        let texts = [command.get_after_help(), command.get_about(), command.get_long_about()];
        let of_flags = command.get_arguments().flat_map(|flag| [flag.get_help(), flag.get_long_help()]);
        for text in texts.into_iter().chain(of_flags).flatten().map(ToString::to_string) {
            let lines: Vec<&str> = text.lines().collect();
            let by_hand = lines.windows(2).find(|pair| pair.iter().all(|line| is_text(line)));
            assert_eq!(by_hand, None, "{}", command.get_name());
        }
    }
}
