//! `config check` refuses what a start refuses, in the same words, with the file and the line.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn forebay(words: &[&str]) -> Command {
    let mut call = Command::new(env!("CARGO_BIN_EXE_forebay"));
    call.args(words).env_remove("XDG_RUNTIME_DIR");
    call.env_remove("LISTEN_FDS");
    call
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The server that a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Front {
    Nbd,
    Mount,
}

/// The section of an image.
const EXPORT: &str = "[[nbd.export]]";

/// Values of settings just outside of what is allowed, with their section. A setting that takes any
/// text has a value of another kind.
const OUTSIDE: [(Front, &str, &str); 59] = [
    (Front::Nbd, "", "memory = '7M'"),
    (Front::Nbd, "", "memory = '17T'"),
    (Front::Nbd, "", "memory = '8M..8589934592M'"),
    (Front::Nbd, "", "memory = '8M'"),
    (Front::Nbd, "", "memory = '8M..64M'"),
    (Front::Nbd, "", "memory = '15T'"),
    (Front::Mount, "", "memory = '15T'"),
    (Front::Mount, "", "memory = '8M..17T'"),
    (Front::Nbd, "", "metrics = '127.0.0.1'"),
    (Front::Nbd, "", "metrics = '127.0.0.1:65536'"),
    (Front::Nbd, "", "control = 'LONG'"),
    (Front::Nbd, "", "drain = '99ms'"),
    (Front::Nbd, "", "drain = '600000m'"),
    (Front::Nbd, "", "at_risk = '399ms'"),
    (Front::Nbd, "", "at_risk = '600000m'"),
    (Front::Nbd, "", "answer_timeout = '0s'"),
    (Front::Nbd, "", "answer_timeout = '1441m'"),
    (Front::Nbd, "", "read_only = 1"),
    (Front::Nbd, "", "dirty_ratio = -1"),
    (Front::Nbd, "", "dirty_ratio = 101"),
    (Front::Nbd, "", "dirty_bytes = 8191"),
    (Front::Nbd, "", "background_ratio = 101"),
    (Front::Nbd, "", "background_bytes = -1"),
    (Front::Nbd, "", "dirty_expire = '600000m'"),
    (Front::Nbd, "", "writeback_interval = '999us'"),
    (Front::Nbd, "", "readahead_pages = 1048577"),
    (Front::Nbd, "", "stall_threshold = '-1s'"),
    (Front::Nbd, "[store.0]", "min_ratio = 100"),
    (Front::Nbd, "[store.0]", "max_ratio = 101"),
    (Front::Nbd, "[store.0]", "strict_limit = 2"),
    (Front::Nbd, "[store.0]", "drain = '99ms'"),
    (Front::Nbd, "", "store.1.max_ratio = 50"),
    (Front::Nbd, "", "[store.1]"),
    (Front::Mount, "", "[store.3]"),
    (Front::Mount, "", "store.1.max_ratio = 50"),
    (Front::Nbd, "[nbd]", "socket = 'LONG'"),
    (Front::Nbd, "[nbd]", "listen = '0.0.0.0:0'"),
    (Front::Nbd, "[nbd]", "tls_certificates = 1.5"),
    (Front::Nbd, "[nbd]", "tls_cert = 1.5"),
    (Front::Nbd, "[nbd]", "tls_key = 1.5"),
    (Front::Nbd, "[nbd]", "tls_client_ca = 1.5"),
    (Front::Nbd, "[nbd]", "create = 0"),
    (Front::Nbd, "[nbd]", "create = '4097T'"),
    (Front::Nbd, "[nbd]", "chunk = '32K'"),
    (Front::Nbd, "[nbd]", "chunk = '16M'"),
    (Front::Nbd, "[nbd]", "commit_interval = '9ms'"),
    (Front::Nbd, "[nbd]", "commit_interval = '61s'"),
    (Front::Nbd, "[nbd]", "key_file = 1.5"),
    (Front::Nbd, "[nbd]", "snapshot = '../monday'"),
    (Front::Nbd, "[nbd]", "follow = '99ms'"),
    (Front::Nbd, "[nbd]", "follow = '61m'"),
    (Front::Nbd, "[nbd]", "take_over = 1"),
    (Front::Nbd, "[nbd]", "garbage = '10001%'"),
    (Front::Nbd, "[nbd]", "clients = 0"),
    (Front::Nbd, "[nbd]", "clients = 1025"),
    (Front::Nbd, EXPORT, "name = 'LONG'"),
    (Front::Mount, "[mount]", "source = 1.5"),
    (Front::Mount, "[mount]", "mount_point = 'SOURCE/deep'"),
    (Front::Mount, "[mount]", "foreground = 1"),
];

/// Settings that are only on or off, all of one kind.
const SWITCHES: [&str; 5] = ["allow_other", "suid", "dev", "noexec", "sync"];

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().expect("a folder for the test");
        for name in ["source", "at"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let image = std::fs::File::create(folder.path().join("disk.img"));
        let sized = image.and_then(|image| image.set_len(1 << 20));
        sized.expect("an image");
        Bench { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file with all that `front` needs and with `line` in `section`, and the number of that
    /// line.
    fn file(&self, front: Front, section: &str, line: &str) -> (PathBuf, usize) {
        let shown = |name: &str| self.path(name).display().to_string();
        let key = line.split(' ').next().expect("a line has a key");
        let long = "x".repeat(if key == "name" { 4097 } else { 108 });
        let line = line
            .replace("LONG", &long)
            .replace("SOURCE", &shown("source"));
        let mut sections = match front {
            Front::Nbd => vec![
                ("", vec!["memory = '64M'".to_owned()]),
                ("[nbd]", vec![format!("socket = '{}'", shown("s"))]),
                (EXPORT, vec![format!("path = '{}'", shown("disk.img"))]),
            ],
            Front::Mount => vec![
                ("", vec!["memory = '64M'".to_owned()]),
                (
                    "[mount]",
                    vec![
                        format!("source = '{}'", shown("source")),
                        format!("mount_point = '{}'", shown("at")),
                    ],
                ),
            ],
        };
        if !sections.iter().any(|(name, _)| *name == section) {
            sections.push((section, Vec::new()));
        }
        let own = sections.iter_mut().find(|(name, _)| *name == section);
        let (_, lines) = own.expect("it was added");
        // The place to listen is one of two.
        let replaced = if key == "listen" { "socket" } else { key };
        lines.retain(|line| !line.starts_with(&format!("{replaced} = ")));
        lines.push(line.clone());
        let lines = sections.into_iter().flat_map(|(name, mut lines)| {
            lines.insert(0, name.to_owned());
            lines
        });
        let lines: Vec<String> = lines.collect();
        let before = lines.iter().take_while(|it| **it != line);
        let number: usize = before.map(|it| it.lines().count().max(1)).sum();
        let file = self.path("f.toml");
        std::fs::write(&file, lines.join("\n")).expect("a file");
        (file, number + 1)
    }
}

/// What `config check` and a start say of `file`, which both refuse as a bad call.
fn refusals(front: Front, file: &Path) -> [String; 2] {
    let checked = forebay(&["config", "check"]).arg(file).output();
    let words: &[&str] = match front {
        Front::Nbd => &["serve", "nbd", "--config"],
        Front::Mount => &["mount", "--foreground", "--config"],
    };
    let started = forebay(words).arg(file).output();
    [checked, started].map(|output| {
        let output = output.expect("the program starts");
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{front:?}: {text}");
        text
    })
}

#[test]
fn what_is_outside_is_refused_by_a_check_and_by_a_start_in_the_same_words() {
    let bench = Bench::new();
    let switches = SWITCHES.map(|name| format!("{name} = 1"));
    let switches = switches
        .iter()
        .map(|line| (Front::Mount, "[mount]", &**line));
    for (front, section, line) in OUTSIDE.into_iter().chain(switches) {
        let (file, number) = bench.file(front, section, line);
        let [checked, started] = refusals(front, &file);
        assert_eq!(checked, started, "{line}");
        let place = format!("forebay: {}:{number}: ", file.display());
        assert!(checked.starts_with(&place), "{line}: {checked}");
    }
}

/// A new setting is in the list above, or the list does not mean what it says.
#[test]
fn every_setting_is_walked() {
    let printed = forebay(&["config", "print", "--defaults"]).output();
    let printed = printed.expect("the program starts").stdout;
    let printed = String::from_utf8(printed).expect("it is a text");
    let mut keys = BTreeSet::new();
    let mut section = String::new();
    for line in printed.lines() {
        let plain = line.trim_start_matches('#');
        if plain.starts_with('[') {
            section = plain.to_owned();
        } else if !line.starts_with("# ")
            && let Some((key, _)) = plain.split_once(" = ")
        {
            keys.insert((section.clone(), key.to_owned()));
        }
    }
    assert!(keys.len() > 30, "{keys:?}");
    for (_, section, line) in OUTSIDE {
        let key = line.split(' ').next().unwrap_or_default();
        keys.remove(&(section.to_owned(), key.to_owned()));
    }
    for name in SWITCHES {
        keys.remove(&("[mount]".to_owned(), name.to_owned()));
    }
    // Any text is a path.
    keys.remove(&("[[nbd.export]]".to_owned(), "path".to_owned()));
    assert_eq!(keys, BTreeSet::new(), "they are not walked");
}

/// What is refused only together with other settings.
#[test]
fn two_exports_of_one_name_are_refused_with_the_line_of_the_second() {
    let bench = Bench::new();
    let line = format!("name = 'one'\n{EXPORT}\npath = 'a'\nname = 'one'");
    let (file, number) = bench.file(Front::Nbd, EXPORT, &line);
    let [checked, started] = refusals(Front::Nbd, &file);
    assert_eq!(checked, started);
    let place = format!(
        "{}:{}: two exports are called 'one'",
        file.display(),
        number + 3
    );
    assert!(checked.contains(&place), "{checked}");
}
