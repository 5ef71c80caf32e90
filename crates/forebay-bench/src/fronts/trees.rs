//! Small files: the mount, beside bindfs and the folder itself. They are made, opened and read in
//! random order, and removed; and `git status` looks at them.

use super::goals::metric;
use super::results::{Front, Name, Who};
use super::server::{Server, is_installed, mount};
use super::stand::{Fronts, value};
use crate::error::BenchError;
use forebay_base::{Prng, Span};
use forebay_fuse::can_mount;
use forebay_rt::thread::Stopwatch;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const FILE_BYTES: usize = 4_096;
/// Files in a folder.
const FOLDER_FILES: usize = 100;
/// The seed of the order in which files are opened.
const ORDER_SEED: u64 = 1;
/// The file that is there once a mount is.
const SEEN: &str = "seen";

/// A tree of small files.
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
        let status = Command::new("git")
            .arg("-C")
            .arg(&self.top)
            .args(["-c", "user.name=bench", "-c", "user.email=bench@localhost"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(BenchError::system("start git"))?;
        if status.success() {
            return Ok(());
        }
        let text = format!("git {} in {}: {status}", arguments[0], self.top.display());
        Err(BenchError::Program(text))
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
        self.trees_under_git(&trees)?;
        servers.into_iter().try_for_each(Server::end)
    }

    fn trees_come_and_go(&mut self, trees: &[Tree]) -> Result<(), BenchError> {
        for round in 1..=self.pace.rounds {
            for tree in trees {
                self.interrupts.check()?;
                let files = tree.files as f64;
                self.note(Front::Files, &format!("round {round}"), tree.who);
                let made = seconds(|| tree.make())?;
                self.add_tree(metric::MAKE, "/s", tree.who, files / made);
                let span = Span::from_millis(self.pace.span_ms);
                let read = tree.read(span)? as f64 * 1e3 / self.pace.span_ms as f64;
                self.add_tree(metric::OPEN, "/s", tree.who, read);
                let removed = seconds(|| tree.remove())?;
                self.add_tree(metric::REMOVE, "/s", tree.who, files / removed);
                self.progress.skip(1);
            }
        }
        Ok(())
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
        for round in 1..=self.pace.rounds {
            for tree in trees {
                self.interrupts.check()?;
                let what = format!("{}, round {round}", metric::STATUS);
                self.note(Front::Files, &what, tree.who);
                let took = seconds(|| tree.git(&["status", "--short"]))?;
                self.add_tree(metric::STATUS, "ms", tree.who, took * 1e3);
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
