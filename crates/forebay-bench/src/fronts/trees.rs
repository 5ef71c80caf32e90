//! Small files: the mount, beside bindfs and the folder itself. They are made, opened and read in
//! random order, and removed; `tar` and `rm` do the same, and `git status` looks at them.
//!
//! What one contender leaves to be written is written before the next one takes its turn, and the
//! time of that belongs to nobody.

use super::goals::metric;
use super::results::{Front, Name, Who};
use super::server::{Server, is_installed, mount};
use super::stand::{Fronts, value};
use crate::error::BenchError;
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
    who: Who,
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

impl Fronts<'_> {
    /// Runs everything about small files.
    pub(super) fn trees(&mut self) -> Result<(), BenchError> {
        if let Err(missing) = can_mount() {
            let reason = format!("cannot mount: {missing}");
            self.left_out.push((Front::Files, reason));
            return Ok(());
        }
        let present = self.present(Front::Files);
        let source = self.folder.join("trees");
        fs::create_dir(&source).map_err(BenchError::in_scratch("make", &source))?;
        let seen = source.join(SEEN);
        File::create(&seen).map_err(BenchError::in_scratch("make", &seen))?;
        let (mut trees, mut servers) = (Vec::new(), Vec::new());
        for who in present {
            let top = if who == Who::Folder {
                source.clone()
            } else {
                let top = self.folder.join(format!("trees-{}", who.name()));
                fs::create_dir(&top).map_err(BenchError::in_scratch("make", &top))?;
                let places = (source.as_path(), top.as_path());
                servers.push(mount(
                    who,
                    places,
                    self.memory_bytes,
                    SEEN,
                    self.interrupts,
                )?);
                top
            };
            trees.push(Tree {
                who,
                top: top.join(who.name()),
                files: self.pace.files,
            });
        }
        self.trees_come_and_go(&trees)?;
        self.trees_by_programs(&trees)?;
        for tree in &mut trees {
            tree.files = self.pace.git_files;
        }
        self.trees_under_git(&trees)?;
        servers.into_iter().try_for_each(Server::end)
    }

    fn trees_come_and_go(&mut self, trees: &[Tree]) -> Result<(), BenchError> {
        for round in 1..=self.pace.rounds {
            for tree in trees {
                self.interrupts.check()?;
                let files = tree.files as f64;
                self.note(Front::Files, &format!("round {round}"), tree.who);
                rustix::fs::sync();
                let made = seconds(|| tree.make())?;
                self.add_tree(metric::MAKE, "/s", tree.who, files / made);
                let span = Span::from_millis(self.pace.span_ms);
                let read = tree.read(span)? as f64 * 1e3 / self.pace.span_ms as f64;
                self.add_tree(metric::OPEN, "/s", tree.who, read);
                rustix::fs::sync();
                let removed = seconds(|| tree.remove())?;
                self.add_tree(metric::REMOVE, "/s", tree.who, files / removed);
                self.progress.skip(1);
            }
        }
        Ok(())
    }

    fn trees_by_programs(&mut self, trees: &[Tree]) -> Result<(), BenchError> {
        if !is_installed("tar") {
            let reason = "tar and rm, because tar is not installed".to_owned();
            self.left_out.push((Front::Files, reason));
            return Ok(());
        }
        let archive = self.folder.join("trees.tar");
        let Some(first) = trees.first() else {
            return Ok(());
        };
        first.make()?;
        first.pack(&archive)?;
        first.remove()?;
        for round in 1..=self.pace.rounds {
            for tree in trees {
                self.interrupts.check()?;
                self.note(Front::Files, &format!("tar, round {round}"), tree.who);
                rustix::fs::sync();
                let took = seconds(|| tree.unpack(&archive))?;
                self.add_tree(metric::EXTRACT, "ms", tree.who, took * 1e3);
                rustix::fs::sync();
                let took = seconds(|| tree.remove_by_rm())?;
                self.add_tree(metric::RM, "ms", tree.who, took * 1e3);
                self.progress.skip(1);
            }
        }
        fs::remove_file(&archive).map_err(BenchError::in_scratch("remove", &archive))
    }

    fn trees_under_git(&mut self, trees: &[Tree]) -> Result<(), BenchError> {
        if !is_installed("git") {
            let reason = "git status, because git is not installed".to_owned();
            self.left_out.push((Front::Files, reason));
            return Ok(());
        }
        for tree in trees {
            self.note(Front::Files, "git add", tree.who);
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
        for round in 1..=self.pace.rounds {
            pause_current(EXPIRY);
            for tree in trees {
                self.interrupts.check()?;
                for metric in [metric::STATUS, metric::STATUS_AGAIN] {
                    self.note(Front::Files, &format!("{metric}, round {round}"), tree.who);
                    let took = seconds(|| tree.git(&["status", "--short"]))?;
                    self.add_tree(metric, "ms", tree.who, took * 1e3);
                }
            }
        }
        trees.iter().try_for_each(Tree::remove)
    }

    fn add_tree(&mut self, metric: &'static str, unit: &'static str, who: Who, number: f64) {
        let name = Name {
            front: Front::Files,
            metric,
            unit,
            jobs: 1,
            depth: 1,
        };
        self.results.add(name, who, value(number));
    }
}
