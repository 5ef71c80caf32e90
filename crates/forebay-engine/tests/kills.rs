//! A writer process is killed at some moment, 500 times: its files hold what each returned `sync`
//! promised, and nothing that was not written.
//!
//! The writer is this same test binary, started anew. It reports each operation that has ended
//! through a pipe, so that the killer knows which sync was the last that returned and which
//! operations may have begun since. The kill comes after a number of lines that the seed draws;
//! what the writer does meanwhile is up to the system. The seed of a failure is printed; with
//! `FOREBAY_KILL_SEED=n` the test runs only that seed.

use forebay_base::{PAGE_BYTES, Prng, Span};
use forebay_engine::{Cache, Settings, blocking};
use forebay_rt::thread;
use forebay_store::{FileStore, FileStoreSettings, Method, OpenMode};
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const KILLS: u64 = 500;
/// How many writers live at the same time.
const TOGETHER: u64 = 4;
/// The most lines after which a writer is killed.
const MOST_LINES: u64 = 240;
/// The variables that make a process the writer: its seed and its folder.
const SEED: &str = "FOREBAY_KILLS_WRITER_SEED";
const FOLDER: &str = "FOREBAY_KILLS_WRITER_FOLDER";
const FILES: u64 = 2;
const WORD: u64 = 8;
/// Longest file, in words; two of them are more than the memory.
const FILE_WORDS: u64 = 400 * PAGE_BYTES as u64 / WORD;

/// What a writer does to one file. Ranges are in words.
#[derive(Clone, Debug)]
enum Operation {
    Write(Range<u64>),
    Cut(u64),
    Discard(Range<u64>),
    Sync,
}

/// The operations on the file `file` of the writer `seed`, without end.
fn operations(seed: u64, file: u64) -> impl Iterator<Item = Operation> {
    let mut chance = Prng::from_seed(seed).child(&format!("file {file}"));
    std::iter::repeat_with(move || {
        let start = chance.below(FILE_WORDS);
        let end = (start + 1 + chance.below(4 * PAGE_BYTES as u64 / WORD)).min(FILE_WORDS);
        match chance.below(20) {
            0 | 1 => Operation::Sync,
            2 if chance.chance(1, 3) => Operation::Cut(start),
            3 => Operation::Discard(start..end),
            _ => Operation::Write(start..end),
        }
    })
}

/// What operation number `number` writes into each word.
fn stamp(file: u64, number: usize) -> u64 {
    (file + 1) << 32 | (number as u64 + 1)
}

/// What a file holds after some operations.
#[derive(Clone, Debug, Default)]
struct Image {
    words: Vec<u64>,
}

impl Image {
    fn apply(&mut self, operation: &Operation, stamp: u64) {
        match operation {
            Operation::Write(range) => {
                let end = range.end as usize;
                self.words.resize(self.words.len().max(end), 0);
                self.words[range.start as usize..end].fill(stamp);
            }
            Operation::Cut(words) => self.words.resize(*words as usize, 0),
            Operation::Discard(range) => {
                let end = (range.end as usize).min(self.words.len());
                let start = (range.start as usize).min(end);
                self.words[start..end].fill(0);
            }
            Operation::Sync => {}
        }
    }
}

/// The life of a writer process, until it is killed.
fn write_until_killed(seed: u64, folder: &Path) -> ! {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("the writer: {panic}");
        std::process::abort();
    }));
    let methods = [Method::Auto, Method::Positioned];
    let store = FileStore::new(FileStoreSettings {
        method: methods[(seed / 2 % 2) as usize],
        ..FileStoreSettings::default()
    });
    let store = store.expect("a store starts");
    let cache = Cache::new(Settings {
        memory_bytes: 2 << 20,
        prefault: false,
        writeback_interval: Span::from_millis(5),
        dirty_expire: Span::from_millis(5),
        // A disk that other processes keep busy is slow, not broken.
        answer_timeout: Span::from_secs(600),
        ..Settings::default()
    });
    let cache = cache.expect("the settings are good");
    let attached = cache.attach(store.clone()).expect("a store is attached");
    let mut threads = Vec::new();
    for number in 0..FILES {
        let create = OpenMode::Create {
            length_bytes: Some(0),
        };
        let opened = store.open(&path_of(folder, number), create);
        let object = opened.expect("the file is made").object;
        let file = cache.open(&attached, object, 0).expect("it opens");
        let file = file.blocking();
        let thread = thread::spawn("writer", move || write(&file, seed, number));
        threads.push(thread.expect("a thread starts"));
    }
    threads.into_iter().for_each(thread::Joiner::join);
    unreachable!("its threads never end")
}

fn path_of(folder: &Path, file: u64) -> PathBuf {
    folder.join(file.to_string())
}

/// Does one operation after the other and reports the end of each.
fn write(file: &blocking::File, seed: u64, number: u64) {
    for (at, operation) in operations(seed, number).enumerate() {
        match operation {
            Operation::Write(range) => {
                let words = (range.end - range.start) as usize;
                let bytes = stamp(number, at).to_le_bytes().repeat(words);
                file.write_at(&bytes, range.start * WORD)
            }
            Operation::Cut(words) => file.truncate(words * WORD),
            Operation::Discard(range) => file.discard(range.start * WORD..range.end * WORD),
            Operation::Sync => {
                file.sync().expect("the files are well");
                Ok(())
            }
        }
        .expect("the files are well");
        let line = format!("\nended {number} {at}\n");
        let mut pipe = std::io::stdout().lock();
        let reported = pipe.write_all(line.as_bytes()).and_then(|()| pipe.flush());
        reported.expect("the killer listens");
    }
}

/// Starts a writer, kills it after `lines` lines, and returns how many operations of each file
/// have ended for certain.
fn write_and_kill(seed: u64, folder: &Path, lines: u64) -> [usize; FILES as usize] {
    let binary = std::env::current_exe().expect("a test knows its binary");
    let mut writer = Command::new(binary)
        .args(["--exact", TEST, "--nocapture"])
        .env(SEED, seed.to_string())
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the writer starts");
    let pipe = writer.stdout.take().expect("its output was asked for");
    let mut ended = [0; FILES as usize];
    let mut reported = 0;
    for line in BufReader::new(pipe).lines() {
        let line = line.expect("a pipe is read");
        let Some((file, at)) = ended_of(&line) else {
            continue;
        };
        ended[file] = at + 1;
        reported += 1;
        // Lines that it still prints before it is dead count as well.
        if reported == lines {
            writer.kill().expect("a child can be killed");
        }
    }
    let status = writer.wait().expect("a child is waited for");
    assert!(
        reported >= lines && status.code().is_none(),
        "seed {seed}: the writer ended by itself, after {reported} of {lines} lines: {status}"
    );
    ended
}

/// The file and the operation of a line `ended 0 12`.
fn ended_of(line: &str) -> Option<(usize, usize)> {
    let (file, at) = line.strip_prefix("ended ")?.split_once(' ')?;
    Some((file.parse().ok()?, at.parse().ok()?))
}

/// Judges a file whose first `ended` operations have ended and whose next may have begun.
fn judge(seed: u64, folder: &Path, file: u64, ended: usize) {
    let done: Vec<Operation> = operations(seed, file).take(ended + 1).collect();
    let is_sync = |operation: &Operation| matches!(operation, Operation::Sync);
    let synced = done[..ended].iter().rposition(is_sync).unwrap_or(0);
    let mut promised = Image::default();
    for (at, operation) in done[..synced].iter().enumerate() {
        promised.apply(operation, stamp(file, at));
    }
    let bytes = std::fs::read(path_of(folder, file)).expect("the writer made the file");
    let words: Vec<u64> = bytes
        .chunks_exact(WORD as usize)
        .map(|word| u64::from_le_bytes(word.try_into().expect("a word has 8 bytes")))
        .collect();
    let mut after = promised.clone();
    let mut lengths = (after.words.len(), after.words.len());
    for (at, operation) in done.iter().enumerate().skip(synced) {
        after.apply(operation, stamp(file, at));
        lengths = (
            lengths.0.min(after.words.len()),
            lengths.1.max(after.words.len()),
        );
    }
    assert!(
        (lengths.0..=lengths.1).contains(&words.len()),
        "seed {seed}: file {file} has {} words, not {lengths:?}; {ended} operations ended, the \
         last sync was {synced}",
        words.len()
    );
    for (place, &word) in words.iter().enumerate() {
        let base = promised.words.get(place).copied().unwrap_or(0);
        let may_be = |(at, operation): (usize, &Operation)| match operation {
            Operation::Write(range) => range.contains(&(place as u64)) && word == stamp(file, at),
            Operation::Cut(words) => place as u64 >= *words && word == 0,
            Operation::Discard(range) => range.contains(&(place as u64)) && word == 0,
            Operation::Sync => false,
        };
        assert!(
            word == base || done.iter().enumerate().skip(synced).any(may_be),
            "seed {seed}: word {place} of file {file} is {word:#x}, not {base:#x}; {ended} \
             operations ended, the last sync was {synced}"
        );
    }
}

/// Kills the writer `seed` once.
fn kill_once(seed: u64) {
    let folder = tempfile::tempdir().expect("a folder is made");
    let lines = 1 + Prng::from_seed(seed).child("kill").below(MOST_LINES);
    let ended = write_and_kill(seed, folder.path(), lines);
    for (file, &ended) in (0..).zip(&ended) {
        if path_of(folder.path(), file).exists() {
            judge(seed, folder.path(), file, ended);
        } else {
            assert_eq!(ended, 0, "seed {seed}: file {file} was written");
        }
    }
}

const TEST: &str = "what_syncs_promised_survives_a_kill";

#[test]
fn what_syncs_promised_survives_a_kill() {
    let of_environment = |name| std::env::var(name).ok();
    if let (Some(seed), Some(folder)) = (of_environment(SEED), std::env::var_os(FOLDER)) {
        let seed = seed.parse().expect("a seed is a number");
        write_until_killed(seed, Path::new(&folder));
    }
    let (first, end) = match of_environment("FOREBAY_KILL_SEED") {
        Some(seed) => {
            let seed: u64 = seed.parse().expect("FOREBAY_KILL_SEED is a number");
            (seed, seed + 1)
        }
        None => (0, KILLS),
    };
    println!("kills of the writers {first} to {}", end - 1);
    let threads: Vec<_> = (0..TOGETHER)
        .map(|thread| {
            let seeds = (first..end).filter(move |seed| seed % TOGETHER == thread);
            let kill = move || seeds.for_each(kill_once);
            thread::spawn("kills", kill).expect("a thread starts")
        })
        .collect();
    threads.into_iter().for_each(thread::Joiner::join);
}
