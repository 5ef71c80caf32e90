//! Whether the swarm or the explored schedules notice small wrong changes to the engine.
//!
//! The changes of `mutations.toml` are made one after the other in a copy of the tree. For each
//! change the example `swarm` of the lab is built and runs seeds until one finds something, or the
//! tests of schedules are built and run their orders. A seed or an order that also finds something
//! in the unchanged engine proves nothing, so it is run there as well.

mod list;

pub(crate) use list::{BLIND_PATH, Mutation, PATH, parse};

use crate::command::output;
use crate::error::TaskError;
use crate::source::{files, repository};
use list::SeenBy;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Each mutation has to be noticed by one of this many seeds.
const SEEDS: u64 = 2_000;
/// The tests of schedules. Whole caches first, because they have to notice most; then the tests
/// inside the engine.
const SCHEDULES: [[&str; 2]; 2] = [["--test", "schedules"], ["--lib", "schedules"]];

/// What became of a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// An oracle saw it at a seed, or a test at an order.
    Caught { oracle: String, seed: u64 },
    /// The program ended before it could report anything.
    Died,
    /// No seed found anything.
    Missed,
    /// The seed finds something without the mutation too.
    AlsoWithout { seed: u64 },
    /// It does not compile.
    NotBuilt,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Caught { oracle, seed } => write!(f, "{oracle} | {seed}"),
            Verdict::Died => f.write_str("the program died | "),
            Verdict::Missed => f.write_str("MISSED | "),
            Verdict::AlsoWithout { seed } => write!(f, "NOTHING: {seed} fails anyway | {seed}"),
            Verdict::NotBuilt => f.write_str("DOES NOT COMPILE | "),
        }
    }
}

/// Tries the mutations called `names` of the list in the file `list`, or all of them, and prints a
/// table; true if each was caught.
pub(crate) fn run(list: &str, names: &[&str]) -> Result<bool, TaskError> {
    let root = repository()?;
    let text = read(&root.join(list))?;
    let mutations = parse(&text).map_err(|message| failed(format!("read {list}"), message))?;
    let known: Vec<&str> = mutations.iter().map(|of| of.name.as_str()).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(*name)) {
        let message = format!("there are {}", known.join(", "));
        return Err(failed(format!("find the mutation {unknown}"), message));
    }
    let is_asked = |of: &&Mutation| names.is_empty() || names.contains(&of.name.as_str());
    let asked: Vec<&Mutation> = mutations.iter().filter(is_asked).collect();
    let copy = TreeCopy::make(&root)?;
    if asked.iter().any(|of| of.seen_by == SeenBy::Swarm) {
        copy.build_clean()?;
    }
    println!("| mutation | what it breaks | caught by | at seed |");
    println!("|---|---|---|---|");
    let mut caught = 0;
    for mutation in &asked {
        let verdict = copy.try_out(mutation)?;
        println!("| {} | {} | {verdict} |", mutation.name, mutation.breaks);
        caught += usize::from(matches!(verdict, Verdict::Caught { .. } | Verdict::Died));
    }
    println!("\n{caught} of {} caught", asked.len());
    Ok(caught == asked.len())
}

/// A copy of the tree, the folder in which it is built, and the swarm without mutations.
struct TreeCopy {
    tree: PathBuf,
    target: PathBuf,
    clean: PathBuf,
}

impl TreeCopy {
    /// Copies the tree below `root`.
    fn make(root: &Path) -> Result<TreeCopy, TaskError> {
        let target = std::env::var_os("CARGO_TARGET_DIR");
        let target = target.map_or_else(|| root.join("target"), PathBuf::from);
        let target = target.join("mutations");
        let copy = TreeCopy {
            tree: target.join("tree"),
            clean: target.join("swarm"),
            target,
        };
        for path in files(root)? {
            let from = root.join(&path);
            let content = fs::read(&from).map_err(|cause| TaskError::Read { path: from, cause })?;
            copy.put(&path, &content)?;
        }
        Ok(copy)
    }

    /// Writes a file of the copy if it has to change: cargo rebuilds what was written.
    fn put(&self, path: &str, content: &[u8]) -> Result<(), TaskError> {
        let to = self.tree.join(path);
        if fs::read(&to).is_ok_and(|there| there == content) {
            return Ok(());
        }
        let folder = to.parent().expect("a file of the tree is in a folder");
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&to, content));
        written.map_err(|cause| TaskError::Write { path: to, cause })
    }

    /// Builds the swarm without mutations, and keeps it.
    fn build_clean(&self) -> Result<(), TaskError> {
        let Some(swarm) = self.build_swarm()? else {
            let command = "build the swarm without mutations".to_owned();
            return Err(failed(command, "see above".to_owned()));
        };
        let written = fs::copy(swarm, &self.clean).map(|_| ());
        let path = self.clean.clone();
        written.map_err(|cause| TaskError::Write { path, cause })
    }

    /// Makes the change, checks whether it is noticed, and takes it back.
    fn try_out(&self, mutation: &Mutation) -> Result<Verdict, TaskError> {
        let text = read(&self.tree.join(&mutation.file))?;
        let changed = mutation.apply(&text).ok_or_else(|| {
            let message = format!("its text must be in {} exactly once", mutation.file);
            failed(format!("apply {}", mutation.name), message)
        })?;
        self.put(&mutation.file, changed.as_bytes())?;
        let verdict = match mutation.seen_by {
            SeenBy::Schedules => self.run_schedules(None),
            SeenBy::Swarm => self.build_swarm().and_then(|swarm| match swarm {
                None => Ok(Verdict::NotBuilt),
                Some(swarm) => run_swarm(&swarm, 0, SEEDS),
            }),
        };
        self.put(&mutation.file, text.as_bytes())?;
        let verdict = verdict?;
        let Verdict::Caught { seed, .. } = verdict else {
            return Ok(verdict);
        };
        let without = match mutation.seen_by {
            SeenBy::Schedules => self.run_schedules(Some(seed))?,
            SeenBy::Swarm => run_swarm(&self.clean, seed, 1)?,
        };
        let is_alone = without == Verdict::Missed;
        Ok(if is_alone {
            verdict
        } else {
            Verdict::AlsoWithout { seed }
        })
    }

    /// A command of cargo in the copy.
    fn cargo(&self, arguments: &[&str], target: &str) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.args(arguments).args(["--quiet", "--locked"]);
        cargo.env("CARGO_TARGET_DIR", self.target.join(target));
        cargo.current_dir(&self.tree);
        cargo
    }

    /// Builds the swarm of the copy, unless that does not compile.
    fn build_swarm(&self) -> Result<Option<PathBuf>, TaskError> {
        let arguments = [
            "build",
            "--release",
            "--package=forebay-lab",
            "--example=swarm",
        ];
        let mut build = self.cargo(&arguments, "build");
        // With these a build takes seconds, and the seeds take hardly longer.
        build.env("CARGO_INCREMENTAL", "1");
        build.env("CARGO_PROFILE_RELEASE_LTO", "off");
        build.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        build.env("CARGO_PROFILE_RELEASE_DEBUG", "false");
        let is_built = output(build.stderr(Stdio::inherit()))?.status.success();
        Ok(is_built.then(|| self.target.join("build/release/examples/swarm")))
    }

    /// Runs the tests of schedules of the copy, each under all its orders or under one alone.
    fn run_schedules(&self, order: Option<u64>) -> Result<Verdict, TaskError> {
        for tests in SCHEDULES {
            let [kind, filter] = tests;
            let mut test = self.cargo(&["test", "--package=forebay", kind, filter], "shuttle");
            test.env("CARGO_PROFILE_DEV_DEBUG", "false");
            test.env("RUSTFLAGS", "--cfg shuttle");
            if let Some(order) = order {
                test.env("FOREBAY_FIRST_ORDER", order.to_string());
                test.env("FOREBAY_ORDERS", "1");
            }
            let output = output(&mut test)?;
            if !output.status.success() {
                let text = [output.stdout, output.stderr].concat();
                return Ok(of_schedules(&String::from_utf8_lossy(&text)));
            }
        }
        Ok(Verdict::Missed)
    }
}

/// The meaning of the output of failed tests of schedules.
fn of_schedules(text: &str) -> Verdict {
    let order = text.lines().find_map(|line| {
        let (_, rest) = line.split_once("it failed under order ")?;
        rest.split_once(';')?.0.parse().ok()
    });
    let failed = text.lines().rev().find(|line| {
        let name = line.strip_prefix("    ");
        name.is_some_and(|name| name.contains("::") && !name.contains(' '))
    });
    match (order, failed) {
        (Some(seed), Some(test)) => Verdict::Caught {
            oracle: test.trim().to_owned(),
            seed,
        },
        _ if text.contains("could not compile") => Verdict::NotBuilt,
        _ => Verdict::Died,
    }
}

/// Runs `count` seeds of `swarm` from `first` on until one finds something.
fn run_swarm(swarm: &Path, first: u64, count: u64) -> Result<Verdict, TaskError> {
    let mut run = Command::new(swarm);
    run.args([first.to_string(), (first + count).to_string()]);
    // A mutation that panics says so thousands of times.
    let output = output(run.stderr(Stdio::null()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(match text.lines().filter_map(found).min() {
        Some((seed, oracle)) => Verdict::Caught { oracle, seed },
        None if output.status.success() => Verdict::Missed,
        None => Verdict::Died,
    })
}

/// The seed and the oracle of a line `seed 12 bytes: what`.
fn found(line: &str) -> Option<(u64, String)> {
    let (seed, rest) = line.strip_prefix("seed ")?.split_once(' ')?;
    let (oracle, _) = rest.split_once(':')?;
    Some((seed.parse().ok()?, oracle.to_owned()))
}

fn read(path: &Path) -> Result<String, TaskError> {
    let path = path.to_owned();
    fs::read_to_string(&path).map_err(|cause| TaskError::Read { path, cause })
}

fn failed(command: String, message: String) -> TaskError {
    TaskError::Failed { command, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_swarm_prints_is_understood() {
        let line = "seed 12 bytes: a read of 4096 bytes at 0 has another byte: 7";
        assert_eq!(found(line), Some((12, "bytes".to_owned())));
        assert_eq!(found("2000 seeds, 8.7 a second"), None);
    }

    #[test]
    fn what_tests_of_schedules_print_is_understood() {
        let text = "test limits::a ... forebay: it failed under order 12; again: FOREBAY_..=12\n\
                    FAILED\n\nfailures:\n\n---- limits::a stdout ----\n  left: 1s\n\n\
                    failures:\n    limits::a\n\ntest result: FAILED.\n";
        let caught = Verdict::Caught {
            oracle: "limits::a".to_owned(),
            seed: 12,
        };
        assert_eq!(of_schedules(text), caught);
        let refused = "error: could not compile `forebay` (lib) due to 1 previous error";
        assert_eq!(of_schedules(refused), Verdict::NotBuilt);
        assert_eq!(of_schedules("signal: 6"), Verdict::Died);
    }
}
