//! The manual pages in `docs/man`: names, options and examples come from the command line itself,
//! and what only a manual says from `docs/man/sections`. A test compares them with what is
//! committed; with `FOREBAY_WRITE_MANUALS=1` in its environment it writes them.

use clap::{Arg, Command};
use clap_mangen::Man;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Checks the pages of a program, each by the words of its command. A command without a page of its
/// own is a part of the page above it.
pub(crate) fn check(mut program: Command, pages: &[&[&str]]) {
    program.build();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/man");
    let mut expected = BTreeSet::new();
    for words in pages {
        let name = page_name(&program, words);
        let sections = folder.join("sections").join(format!("{name}.man"));
        let sections = std::fs::read_to_string(&sections).expect("each page has its sections");
        let page = page(&program, words, pages) + &sections;
        let file = folder.join(format!("{name}.1"));
        if std::env::var_os("FOREBAY_WRITE_MANUALS").is_some() {
            std::fs::write(&file, page).expect("the folder can be written");
        } else {
            let committed = std::fs::read_to_string(&file).unwrap_or_default();
            let text = "is not what the command line says: run this test with \
                        FOREBAY_WRITE_MANUALS=1";
            assert!(committed == page, "{} {text}", file.display());
        }
        expected.insert(file);
    }
    let prefix = page_name(&program, pages[0]);
    let files = std::fs::read_dir(&folder).expect("it has the pages");
    let paths = files.map(|entry| entry.expect("it can be read").path());
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_of_lab = name.starts_with("forebay-lab");
        name.ends_with(".1") && is_of_lab == (prefix == "forebay-lab")
    };
    let found: BTreeSet<PathBuf> = paths.filter(is_ours).collect();
    assert_eq!(found, expected);
}

fn page_name(program: &Command, words: &[&str]) -> String {
    [&[program.get_name()], words].concat().join("-")
}

fn find<'c>(program: &'c Command, words: &[&str]) -> &'c Command {
    let next = |command: &'c Command, word: &&str| command.find_subcommand(word);
    let found = words.iter().try_fold(program, next);
    found.expect("a page is about a command")
}

/// The page of the command that `words` call, without its last sections.
fn page(program: &Command, words: &[&str], pages: &[&[&str]]) -> String {
    let (command, name) = (find(program, words), page_name(program, words));
    let man = Man::new(command.clone().subcommand_value_name("command"))
        .title(name.to_uppercase())
        .date("")
        .source(format!("Forebay {}", env!("CARGO_PKG_VERSION")))
        .manual("Forebay Manual");
    let mut text = written(|page| {
        man.render_title(page)?;
        man.render_name_section(page)?;
        man.render_synopsis_section(page)?;
        man.render_description_section(page)
    });
    text += &commands(program, words, pages);
    text += &grouped(&options(command));
    text + &after_help(command, "SH")
}

/// The options with each group as a part of their section.
fn grouped(options: &str) -> String {
    let lines = options.lines().map(|line| match line.strip_prefix(".SH ") {
        Some(heading) if heading != "OPTIONS" => {
            let heading = heading.trim_matches('"');
            let (first, rest) = heading.split_at(1);
            format!(".SS {first}{}\n", rest.to_lowercase())
        }
        _ => format!("{line}\n"),
    });
    lines.collect()
}

/// What `render` writes, without the definition of an apostrophe that precedes each part.
fn written(render: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut bytes = Vec::new();
    render(&mut bytes).expect("writing to memory does not fail");
    let text = String::from_utf8(bytes).expect("manuals are text");
    let is_kept = |line: &&str| !line.starts_with(".ie") && !line.starts_with(".el");
    text.lines()
        .filter(is_kept)
        .map(|line| line.trim_end().replace("\\*(Aq", "\\(aq") + "\n")
        .collect()
}

fn options(command: &Command) -> String {
    let man = Man::new(command.clone());
    written(|page| man.render_options_section(page))
}

/// The commands below this one: a reference to the page of each, or all that is to be said.
fn commands(program: &Command, words: &[&str], pages: &[&[&str]]) -> String {
    let below = find(program, words).get_subcommands();
    let below = below.filter(|it| !it.is_hide_set() && it.get_name() != "help");
    let mut text = String::new();
    for command in below {
        let words = [words, &[command.get_name()]].concat();
        if pages.contains(&&words[..]) {
            let about = command.get_about().map(ToString::to_string);
            let (name, about) = (page_name(program, &words), about.unwrap_or_default());
            let (name, about) = (escaped(&name), escaped(&about));
            text += &[".TP\n\\fB", &name, "\\fR(1)\n", &about, "\n"].concat();
        } else if command.has_subcommands() {
            text += &commands(program, &words, pages).replacen(".SH COMMANDS\n", "", 1);
        } else {
            text += &part(command);
        }
    }
    if text.is_empty() {
        return text;
    }
    format!(".SH COMMANDS\n{text}")
}

/// A command in the page of the one above it.
fn part(command: &Command) -> String {
    let hidden = |arg: Arg| {
        let is_help = arg.get_id() == "help";
        arg.hide(is_help)
    };
    let command = &command.clone().mut_args(hidden);
    let man = Man::new(command.clone());
    let synopsis = written(|page| man.render_synopsis_section(page));
    let synopsis = synopsis.trim_start_matches(".SH SYNOPSIS\n");
    let description = written(|page| man.render_description_section(page));
    let description = description.trim_start_matches(".SH DESCRIPTION\n");
    let title = escaped(command.get_name());
    let mut text = format!(".SS {title}\n{synopsis}.PP\n{description}");
    let has_options = command.get_arguments().any(|it| it.get_id() != "help");
    if has_options {
        text += options(command).trim_start_matches(".SH OPTIONS\n");
    }
    text + &after_help(command, "")
}

/// The texts after the help of a command, each with its title. In a part of a page they have no
/// headings of their own.
fn after_help(command: &Command, heading: &str) -> String {
    let text = command.get_after_help().map(ToString::to_string);
    let text = text.unwrap_or_default();
    let paragraphs = text.split("\n\n").filter(|text| !text.is_empty());
    let section = |paragraph: &str| {
        let (title, lines) = paragraph.split_once(":\n").unwrap_or(("", paragraph));
        let lines: String = lines.lines().map(|line| escaped(line) + "\n").collect();
        match heading {
            "" => format!(".PP\n.EX\n{lines}.EE\n"),
            heading => format!(".{heading} {}\n.EX\n{lines}.EE\n", title.to_uppercase()),
        }
    };
    paragraphs.map(section).collect()
}

fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    // At the start of a line these would be a request.
    let is_request = text.starts_with(['.', '\'']);
    format!("{}{text}", if is_request { "\\&" } else { "" })
}
