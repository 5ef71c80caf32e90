//! Small files: the mount, beside bindfs and the folder itself. They are made, opened and read in
//! random order, and removed; `tar` and `rm` do the same, and `git status` looks at them.
//!
//! What one contender leaves to be written is written before the next one takes its turn, and the
//! time of that belongs to nobody.

use super::server::{Places, Server, is_installed, mount};
use super::stand::Fronts;
use crate::contender::{Concurrency, Phase, Sample, Who};
use crate::error::BenchError;
use crate::goals::metric;
use crate::rounds::Turn;
use forebay_base::{Prng, Span};
use forebay_fuse::can_mount;
use forebay_rt::thread::{Stopwatch, pause_current};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FILE_BYTES: usize = 4_096;
/// Files in a folder.
const FOLDER_FILES: usize = 100;
/// The seed of the order in which files are opened.
const ORDER_SEED: u64 = 1;
/// Longer than any of them lets the kernel keep names and attributes.
const EXPIRY: Span = Span::from_millis(1_200);
/// The file that is there once a mount is.
const SEEN: &str = "seen";

/// A tree of small files.
#[derive(Clone)]
struct Tree {
    top: PathBuf,
    files: usize,
}

impl Tree {
    fn folder(&self, number: usize) -> PathBuf {
        self.top.join(format!("folder-{number:03}"))
    }

    fn file(&self, number: usize) -> PathBuf {
        self.folder(number / FOLDER_FILES)
            .join(format!("file-{number:05}"))
    }

    fn make(&self) -> Result<(), BenchError> {
        let bytes = [b'x'; FILE_BYTES];
        for number in 0..self.files {
            if number % FOLDER_FILES == 0 {
                let folder = self.folder(number / FOLDER_FILES);
                fs::create_dir_all(&folder).map_err(BenchError::in_scratch("make", &folder))?;
            }
            let path = self.file(number);
            fs::write(&path, bytes).map_err(BenchError::in_scratch("write", &path))?;
        }
        Ok(())
    }

    /// Opens, reads and closes files for `span`, and returns how many.
    fn read(&self, span: Span) -> Result<u64, BenchError> {
        let mut order = Prng::from_seed(ORDER_SEED);
        let mut bytes = [0; FILE_BYTES];
        let (watch, mut count) = (Stopwatch::start(), 0);
        while watch.elapsed() < span {
            let path = self.file(order.below(self.files as u64) as usize);
            File::open(&path)
                .and_then(|mut file| file.read_exact(&mut bytes))
                .map_err(BenchError::in_scratch("read", &path))?;
            count += 1;
        }
        Ok(count)
    }

    fn remove(&self) -> Result<(), BenchError> {
        fs::remove_dir_all(&self.top).map_err(BenchError::in_scratch("remove", &self.top))
    }

    /// Runs git in the tree.
    fn git(&self, arguments: &[&str]) -> Result<(), BenchError> {
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.top);
        command.args(["-c", "user.name=bench", "-c", "user.email=bench@localhost"]);
        self.run(command.args(arguments))
    }

    /// Runs a program to its end, without a word.
    fn run(&self, command: &mut Command) -> Result<(), BenchError> {
        let silent = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let status = silent
            .status()
            .map_err(BenchError::system("start a program"))?;
        if status.success() {
            return Ok(());
        }
        let text = format!("{command:?} in {}: {status}", self.top.display());
        Err(BenchError::program(text))
    }

    /// Puts the tree into the file `archive`.
    fn pack(&self, archive: &Path) -> Result<(), BenchError> {
        let mut command = Command::new("tar");
        command.arg("-C").arg(&self.top).arg("-cf").arg(archive);
        self.run(command.arg("."))
    }

    /// Makes the tree as it is in the file `archive`.
    fn unpack(&self, archive: &Path) -> Result<(), BenchError> {
        fs::create_dir(&self.top).map_err(BenchError::in_scratch("make", &self.top))?;
        let mut command = Command::new("tar");
        self.run(command.arg("-C").arg(&self.top).arg("-xf").arg(archive))
    }

    fn remove_by_rm(&self) -> Result<(), BenchError> {
        self.run(Command::new("rm").arg("-r").arg(&self.top))
    }
}

/// How long `act` takes, in seconds.
fn seconds(act: impl FnOnce() -> Result<(), BenchError>) -> Result<f64, BenchError> {
    let watch = Stopwatch::start();
    act()?;
    Ok(watch.elapsed().as_micros() as f64 / 1e6)
}

/// How the files are used, for the progress line.
fn turn(what: &str) -> Turn<'_> {
    Turn {
        phase: Phase::Files,
        what,
        load: Concurrency::new(1, 1),
    }
}

fn millis(metric: &str, seconds: f64) -> Sample {
    Sample::plain(metric, "ms", seconds * 1e3)
}

impl Fronts<'_> {
    /// Runs everything about small files.
    pub(super) fn trees(&mut self) -> Result<(), BenchError> {
        self.rounds
            .heading
            .note(Phase::Files, Phase::Files.of_front().to_owned());
        if let Err(missing) = can_mount() {
            self.leave_out(Phase::Files, &format!("cannot mount: {missing}"));
            return Ok(());
        }
        let present = self.present(Phase::Files);
        let source = self.folder.join("trees");
        fs::create_dir(&source).map_err(BenchError::in_scratch("make", &source))?;
        let seen = source.join(SEEN);
        File::create(&seen).map_err(BenchError::in_scratch("make", &seen))?;
        let (mut trees, mut servers) = (Vec::new(), Vec::new());
        for &who in &present {
            let mut top = source.clone();
            if who != Who::Folder {
                top = self.folder.join(format!("trees-{}", who.name()));
                fs::create_dir(&top).map_err(BenchError::in_scratch("make", &top))?;
                let places = Places {
                    source: source.clone(),
                    mount_point: top.clone(),
                };
                let interrupts = self.rounds.interrupts;
                servers.push(mount(who, &places, self.memory_bytes, SEEN, interrupts)?);
            }
            trees.push(Tree {
                top: top.join(who.name()),
                files: self.pace.files,
            });
        }
        self.trees_come_and_go(&present, &trees)?;
        self.trees_by_programs(&present, &trees)?;
        for tree in &mut trees {
            tree.files = self.pace.git_files;
        }
        self.trees_under_git(&present, &trees)?;
        servers.into_iter().try_for_each(Server::end)
    }

    fn trees_come_and_go(&mut self, present: &[Who], trees: &[Tree]) -> Result<(), BenchError> {
        let pace = self.pace;
        self.rounds
            .rounds(pace.rounds, &turn("come and go"), present, |index| {
                let tree = &trees[index];
                let files = tree.files as f64;
                rustix::fs::sync();
                let made = seconds(|| tree.make())?;
                let read = tree.read(Span::from_millis(pace.span_ms))?;
                rustix::fs::sync();
                let removed = seconds(|| tree.remove())?;
                let read = read as f64 * 1e3 / pace.span_ms as f64;
                let a_second = |metric, number| Sample::plain(metric, "/s", number);
                Ok(vec![
                    a_second(metric::MAKE, files / made),
                    a_second(metric::OPEN, read),
                    a_second(metric::REMOVE, files / removed),
                ])
            })
    }

    fn trees_by_programs(&mut self, present: &[Who], trees: &[Tree]) -> Result<(), BenchError> {
        if !is_installed("tar") {
            let reason = "tar and rm, because tar is not installed";
            self.leave_out(Phase::Files, reason);
            return Ok(());
        }
        let archive = self.folder.join("trees.tar");
        let Some(first) = trees.first() else {
            return Ok(());
        };
        first.make()?;
        first.pack(&archive)?;
        first.remove()?;
        self.rounds
            .rounds(self.pace.rounds, &turn("tar"), present, |index| {
                let tree = &trees[index];
                rustix::fs::sync();
                let extracted = seconds(|| tree.unpack(&archive))?;
                rustix::fs::sync();
                let removed = seconds(|| tree.remove_by_rm())?;
                Ok(vec![
                    millis(metric::EXTRACT, extracted),
                    millis(metric::RM, removed),
                ])
            })?;
        fs::remove_file(&archive).map_err(BenchError::in_scratch("remove", &archive))
    }

    fn trees_under_git(&mut self, present: &[Who], trees: &[Tree]) -> Result<(), BenchError> {
        if !is_installed("git") {
            let reason = "git status, because git is not installed";
            self.leave_out(Phase::Files, reason);
            return Ok(());
        }
        self.rounds.progress.begin("files: git add");
        for tree in trees {
            tree.make()?;
            tree.git(&["init", "--quiet"])?;
            tree.git(&["add", "--all"])?;
            tree.git(&["commit", "--quiet", "--message=all"])?;
        }
        // Git reads once more what was made in the second in which its index was written, and
        // writes that once more.
        pause_current(EXPIRY);
        for tree in trees {
            tree.git(&["status", "--short"])?;
        }
        rustix::fs::sync();
        for number in 1..=self.pace.rounds {
            pause_current(EXPIRY);
            self.rounds
                .round(&turn("git status"), number, present, |_, index| {
                    let status = || seconds(|| trees[index].git(&["status", "--short"]));
                    Ok(vec![
                        millis(metric::STATUS, status()?),
                        millis(metric::STATUS_AGAIN, status()?),
                    ])
                })?;
        }
        trees.iter().try_for_each(Tree::remove)
    }
}
