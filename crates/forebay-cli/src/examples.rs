//! The examples in the help of each command: they are there, and the command line accepts them.

use clap::{Command, Error};

/// The widest line of help on the smallest usual terminal.
const COLUMNS: usize = 80;

/// Checks a program, whose calls `parse` reads. Returns how many examples it has.
pub(crate) fn check(program: &Command, parse: &dyn Fn(&[String]) -> Result<(), Error>) -> usize {
    let mut program = program.clone().term_width(COLUMNS);
    program.build();
    check_below(&program, parse)
}

fn check_below(command: &Command, parse: &dyn Fn(&[String]) -> Result<(), Error>) -> usize {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let mut command = command.clone();
    let help = command.render_long_help().to_string();
    for line in help.lines() {
        assert!(line.chars().count() <= COLUMNS, "{name}: {line}");
    }
    let examples = examples(&help);
    assert!(!examples.is_empty(), "{name} has no example");
    for words in &examples {
        let parsed = parse(words);
        assert!(parsed.is_ok(), "{name}: {words:?}: {}", parsed.unwrap_err());
    }
    let below = command.get_subcommands();
    let below = below.filter(|it| !it.is_hide_set() && it.get_name() != "help");
    examples.len() + below.map(|it| check_below(it, parse)).sum::<usize>()
}

/// The calls after the line that says that they come.
fn examples(help: &str) -> Vec<Vec<String>> {
    let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
    let calls = lines.take_while(|line| line.starts_with("  "));
    let words = |call: &str| call.split_whitespace().map(str::to_owned).collect();
    calls.map(words).collect()
}
