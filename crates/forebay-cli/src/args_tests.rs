//! Calls, and the files of settings that they name.

use super::*;
use forebay::Settings;
use forebay::settings::BackingSettings;
use forebay_base::Span;

fn typed(words: &[&str]) -> Result<Command, clap::Error> {
    parsed(
        [&["forebay"], words]
            .concat()
            .into_iter()
            .map(OsString::from)
            .collect(),
    )
}

#[test]
fn the_manuals_are_those_of_the_command_line() {
    let pages: [&[&str]; 9] = [
        &[],
        &["demo"],
        &["serve", "nbd"],
        &["mount"],
        &["why"],
        &["top"],
        &["set"],
        &["volume"],
        &["config"],
    ];
    crate::manuals::check(Typed::command(), &pages);
}

#[test]
fn each_command_has_examples_that_it_accepts_and_help_for_80_columns() {
    let count = crate::examples::check(&Typed::command(), &|words| {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let is_done = |typed: &Typed| matches!(typed.command, TypedCommand::Config(_));
        let typed = Typed::try_parse_from(words)?;
        if is_done(&typed) {
            return Ok(());
        }
        typed.checked().map(drop)
    });
    assert!(count > 25, "{count}");
}

#[test]
fn completions_know_the_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let Command::Print(script) = typed(&["completions", shell]).unwrap() else {
            panic!("a script was asked for");
        };
        assert!(script.contains("answer-timeout"), "{shell}: {script}");
    }
}

#[test]
fn the_lab_and_the_bench_are_told_where_they_are_now() {
    for (words, call) in [
        (
            &["lab", "run", "many-dd", "--vs", "x"][..],
            "forebay-lab run many-dd --vs x",
        ),
        (&["bench", "--quick"], "forebay-lab bench --quick"),
        (&["lab"], "forebay-lab"),
        (&["lab", "--help"], "forebay-lab --help"),
    ] {
        let error = typed(words).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{words:?}");
        let expected = format!("the lab is a program of its own: {call}\n");
        assert!(error.to_string().ends_with(&expected), "{error}");
    }
}

/// A file with `text`.
fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

/// The call of `words` with a file of this text.
fn with_file(words: &[&str], text: &str) -> Result<Command, String> {
    let file = file(text);
    let path = file.path().to_str().unwrap();
    let words = [&["forebay"], words, &["--config", path]].concat();
    let words = words.into_iter().map(OsString::from).collect();
    let place = format!("{path}:");
    let shown = |error: String| error.replace(&place, "FILE:");
    let expanded = config::expand(&Typed::command(), words);
    let expanded = expanded.map_err(|error| shown(error.to_string()))?;
    let mut command = parsed(expanded.words).map_err(|error| shown(error.to_string()))?;
    command.tune(expanded.tuning);
    Ok(command)
}

fn tuning(command: &mut Command) -> &mut Tuning {
    match command {
        Command::Serve(arguments) => &mut arguments.tuning,
        Command::Mount(arguments) => &mut arguments.tuning,
        other => panic!("{other:?} is no server"),
    }
}

const NBD: [&str; 3] = ["serve", "nbd", "a.img"];
const PLACES: [&str; 4] = ["--socket", "s", "--memory", "64M"];

/// Each line with a key and an example, without its mark, and the section that it stands in.
fn examples(text: &str) -> Vec<(String, &str)> {
    let mut section = String::new();
    let mut examples = Vec::new();
    for line in text.lines() {
        if line.starts_with('[') {
            section = format!("{line}\n");
        } else if line.starts_with('#') && !line.starts_with("# ") {
            examples.push((section.clone(), &line[1..]));
        }
    }
    examples
}

#[test]
fn the_printed_file_loads_and_is_the_defaults() {
    let text = config::print_defaults(&Typed::command());
    let nbd = [&NBD[..], &PLACES].concat();
    let mount = [
        "mount",
        "/no/such/source",
        "/no/such/place",
        "--memory",
        "64M",
    ];
    for words in [&nbd[..], &mount] {
        let mut with = with_file(words, &text).unwrap();
        let tuning = std::mem::take(tuning(&mut with));
        assert_eq!(with, typed(words).unwrap());
        let settings = Settings {
            memory_bytes: 64 << 20,
            ..Settings::default()
        };
        assert_eq!(tuning.applied(&settings).unwrap(), settings);
        assert_eq!(
            tuning.of_store(0, BackingSettings::default()).unwrap(),
            BackingSettings::default()
        );
    }
}

#[test]
fn every_key_is_printed_and_every_example_can_be_used() {
    let text = config::print_defaults(&Typed::command());
    let examples = examples(&text);
    let exports = examples.iter().position(|(_, line)| line.starts_with("[["));
    let (keys, export) = examples.split_at(exports.unwrap());
    assert!(keys.len() > 10, "{keys:?}");
    for (section, line) in keys {
        let section = if section.contains("export") {
            ""
        } else {
            section
        };
        let file = file(&format!("{section}{line}\n"));
        let checked = check(file.path()).unwrap();
        assert!(checked.ends_with("no mistake found\n"), "{line}: {checked}");
    }
    let lines: Vec<&str> = export[..3].iter().map(|(_, line)| *line).collect();
    check(file(&lines.join("\n")).path()).unwrap();
    for key in [
        "memory",
        "read_only",
        "dirty_ratio",
        "max_ratio",
        "allow_other",
        "clients",
    ] {
        let is_key = |line: &str| {
            line.trim_start_matches('#')
                .starts_with(&format!("{key} = "))
        };
        assert!(text.lines().any(is_key), "{key}");
    }
}

#[test]
fn what_a_flag_says_a_key_says_too() {
    let text = "memory = '64M'\nmetrics = '127.0.0.1:9100'\nanswer_timeout = '5m'\n\
                [nbd]\nlisten = '[::]:10809'\ntls_certificates = 'pki'\nclients = 3\n\
                create = '1G'\n\
                [[nbd.export]]\npath = '-a.img'\n[[nbd.export]]\npath = 'x/b.img'\nname = 'two'\n\
                [mount]\nsource = '/no/such/source'\nmount_point = '/no/such/place'\n\
                allow_other = true\nforeground = true\n";
    let flags = "serve nbd ./-a.img x/b.img --memory 64M --metrics 127.0.0.1:9100 \
                 --answer-timeout 5m --listen [::]:10809 --tls-certificates pki --clients 3 \
                 --create 1G --export=-a.img --export two";
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let mut with = with_file(&["serve", "nbd"], text).unwrap();
    *tuning(&mut with) = Tuning::default();
    assert_eq!(with, typed(&flags).unwrap());
    let flags = "mount /no/such/source /no/such/place --memory 64M --metrics 127.0.0.1:9100 \
                 --answer-timeout 5m --allow-other --foreground";
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let mut with = with_file(&["mount"], text).unwrap();
    *tuning(&mut with) = Tuning::default();
    assert_eq!(with, typed(&flags).unwrap());
}

#[test]
fn a_flag_wins_over_its_key_and_over_the_keys_that_it_excludes() {
    let text = "memory = '64M'\nread_only = true\n[nbd]\nlisten = '[::]:10809'\n\
                tls_cert = 'c'\ntls_key = 'k'\ntls_client_ca = 'a'\n\
                [[nbd.export]]\npath = 'b.img'\nname = 'b'\n[mount]\nsource = '/x'\n\
                mount_point = '/y'\n";
    for (words, same) in [
        (
            "serve nbd a.img --memory 1G --socket s --read-only=false",
            "serve nbd a.img --memory 1G --socket s",
        ),
        (
            "serve nbd --socket=s --create 1G",
            "serve nbd b.img --memory 64M --socket s --export b --create 1G",
        ),
        (
            "serve nbd --export c --listen 127.0.0.1:1",
            "serve nbd b.img --memory 64M --read-only --export c --listen 127.0.0.1:1 \
             --tls-cert c --tls-key k --tls-client-ca a",
        ),
        (
            "mount /no/such/source /no/such/place",
            "mount /no/such/source /no/such/place --memory 64M --read-only",
        ),
    ] {
        let words: Vec<&str> = words.split_whitespace().collect();
        let mut with = with_file(&words, text).unwrap();
        *tuning(&mut with) = Tuning::default();
        let same: Vec<&str> = same.split_whitespace().collect();
        assert_eq!(with, typed(&same).unwrap(), "{words:?}");
    }
}

#[test]
fn knobs_are_there_from_the_start() {
    let text = "readahead_pages = 10\ndirty_bytes = '1M'\nstall_threshold = '1ms'\n\
                store.1.max_ratio = 50\nstore.1.strict_limit = true\n";
    let mut with = with_file(&[&NBD[..], &PLACES].concat(), text).unwrap();
    let tuning = tuning(&mut with);
    let settings = tuning.applied(&Settings::default()).unwrap();
    assert_eq!(
        (settings.readahead_pages, settings.dirty.dirty_bytes),
        (10, 1 << 20)
    );
    assert_eq!(settings.stall_threshold.as_millis(), 1);
    assert_eq!(settings.memory_bytes, Settings::default().memory_bytes);
    assert_eq!(
        tuning.of_store(0, BackingSettings::default()).unwrap(),
        BackingSettings::default()
    );
    let second = tuning.of_store(1, BackingSettings::default()).unwrap();
    assert_eq!((second.max_ratio_percent, second.strict_limit), (50, true));
    tuning.expect_stores(2).unwrap();
    let text = tuning.expect_stores(1).unwrap_err().to_string();
    assert!(text.contains(":4: there is no store 1"), "{text}");
}

/// Texts, and how the message begins.
const WRONG: &[(&str, &str)] = &[
    (
        "\nbackground_rato = 10",
        "FILE:2: unknown key background_rato; did you mean background_ratio?",
    ),
    (
        "background_ratio = 201",
        "FILE:1: background_ratio cannot be 201: a percentage from 0 to 100",
    ),
    (
        "background_ratio = -1",
        "FILE:1: background_ratio cannot be -1: a percentage from 0 to 100",
    ),
    (
        "background_ratio = []",
        "FILE:1: background_ratio cannot be []: a percentage from 0 to 100",
    ),
    (
        "dirty_ratio = 101",
        "FILE:1: dirty_ratio cannot be 101: a percentage from 0 to 100",
    ),
    (
        "memory = 'fast'",
        "FILE:1: memory cannot be 'fast': 'fast' is not a size: write a whole number and K, \
             M, G or T, as 512M",
    ),
    (
        "memory = '1M'",
        "FILE:1: memory cannot be '1M': the cache of a server needs at least 8 MiB",
    ),
    (
        "memory = 1.5",
        "FILE:1: memory cannot be 1.5: write it as a text, in quotes",
    ),
    (
        "read_only = 'yes'",
        "FILE:1: read_only cannot be 'yes': true or false",
    ),
    (
        "[nbd]\nclients = 0",
        "FILE:2: nbd.clients cannot be 0: 0 is not in 1..=1024",
    ),
    (
        "socket = 's'",
        "FILE:1: unknown key socket; did you mean nbd.socket?",
    ),
    (
        "[nbd]\nmemory = 1",
        "FILE:2: unknown key nbd.memory; did you mean memory?",
    ),
    (
        "config = 'x'",
        "FILE:1: unknown key config; forebay config print --defaults shows all keys",
    ),
    (
        "[nbt]\n",
        "FILE:1: unknown key nbt; forebay config print --defaults shows all keys",
    ),
    (
        "store.0.max_rato = 1",
        "FILE:1: unknown key store.0.max_rato; did you mean store.0.max_ratio?",
    ),
    ("store.x.max_ratio = 1", "FILE:1: unknown key store.x"),
    (
        "[store.0]\nmax_ratio = 10\nmin_ratio = 20",
        "FILE:3: store.0.min_ratio cannot be 20: min_ratio is at most max_ratio, and that at \
             most 100",
    ),
    (
        "store.0.min_ratio = 60\nstore.1.min_ratio = 40",
        "FILE:2: store.1.min_ratio cannot be 40: less than 100 over all stores together",
    ),
    (
        "[nbd]\nlisten = '[::]:1'\nsocket = 's'",
        "FILE:3: nbd.socket cannot be used with nbd.listen in line 2",
    ),
    (
        "[[nbd.export]]\nname = 'a'",
        "FILE:1: nbd.export needs a path",
    ),
    (
        "[[nbd.export]]\npath = 5",
        "FILE:2: nbd.export.path cannot be 5: write it as a text",
    ),
    (
        "nbd.export = 'a'",
        "FILE:1: nbd.export is a list: write [[nbd.export]] for each image",
    ),
    ("nbd.export.path = 'a'\nnbd.export = 'a'", "FILE:2: "),
    ("a = 1\na = 2", "FILE:2: duplicate key"),
    ("dirty_ratio", "FILE:1: "),
];

#[test]
fn what_is_wrong_in_a_file_is_named_with_its_line_and_what_is_allowed() {
    for (text, told) in WRONG {
        let told_instead = with_file(&[&NBD[..], &PLACES].concat(), text).unwrap_err();
        assert!(told_instead.starts_with(told), "{text}: {told_instead}");
        let file = file(text);
        let path = file.path().display().to_string();
        let checked = check(file.path()).unwrap_err();
        assert_eq!(checked.exit_status(), 2);
        let checked = checked.to_string().replace(&path, "FILE");
        assert_eq!(checked, told_instead);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_a_bad_call() {
    let words = |path: &str| {
        let words = ["forebay", "serve", "nbd", "--config", path];
        config::expand(&Typed::command(), words.map(OsString::from).to_vec())
    };
    let long = file(&"#".repeat((1 << 20) + 1));
    let not_text = file("");
    std::fs::write(not_text.path(), b"a = 1\n\xff").unwrap();
    for (path, told) in [
        ("/no/such/file", "cannot read /no/such/file: No such file"),
        (
            "/dev/zero",
            "/dev/zero: a file of settings has at most 1 MiB",
        ),
        ("/", "cannot read /: Is a directory"),
        (
            long.path().to_str().unwrap(),
            ": a file of settings has at most 1 MiB",
        ),
        (not_text.path().to_str().unwrap(), ":2: this is not UTF-8"),
    ] {
        let error = words(path).unwrap_err();
        assert_eq!(error.exit_status(), 2);
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn other_calls_and_calls_without_a_file_stay_as_they_are() {
    for words in [
        &["forebay"][..],
        &["forebay", "serve"],
        &["forebay", "demo", "--config", "x"],
        &["forebay", "serve", "nbd", "a", "--socket", "s"],
        &[
            "forebay",
            "serve",
            "nbd",
            "--help",
            "--config",
            "/no/such/file",
        ],
    ] {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let expanded = config::expand(&Typed::command(), words.clone()).unwrap();
        assert_eq!(expanded.words, words);
    }
}

#[test]
fn a_promise_of_a_store_wins_over_that_of_all_and_a_typed_one_over_both() {
    let text = "drain = '2s'\nstore.1.drain = '5s'\n";
    let call = [&NBD[..], &PLACES].concat();
    for (more, expected) in [(&[][..], [2, 5]), (&["--drain", "9s"], [9, 9])] {
        let with = with_file(&[&call[..], more].concat(), text).unwrap();
        let Command::Serve(arguments) = with else {
            panic!("a server was asked for");
        };
        let all = arguments.flags.promises.backing();
        let drain = |bdi| arguments.tuning.of_store(bdi, all).unwrap().drain.unwrap();
        assert_eq!([0, 1].map(|bdi| drain(bdi).as_millis() / 1_000), expected);
        let short = BackingSettings {
            drain: Some(Span::from_micros(1)),
            ..all
        };
        let of_second = arguments.tuning.of_store(1, short);
        assert_eq!(
            of_second.is_ok(),
            more.is_empty(),
            "its own promise may be allowed"
        );
    }
}
