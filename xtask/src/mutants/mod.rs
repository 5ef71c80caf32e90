//! Mutation testing: checks whether the tests of a part notice each small change that the tool
//! `cargo-mutants` makes to it.
//!
//! The tool lists the changes. They are woven into one text and built once, and each is switched on
//! in turn: a build for each of them takes minutes where a run of the tests takes seconds. A mutant
//! that no test notices can be played by seeds of the swarm, and is a survivor if they find nothing
//! either. `mutants-survivors.toml` says why each known one may live;
//! one that is not in it fails the run. The tool is no dependency: it is installed beside the
//! repository.

mod build;
mod list;
mod part;
mod sample;
mod sites;
mod survivors;
mod swarm;
mod trial;
mod weave;

pub(crate) use survivors::{PATH, Survivor, parse};

use crate::error::TaskError;
use crate::source::repository;
use crate::tree_copy::TreeCopy;
use list::Mutant;
use part::Part;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use survivors::Reason;
use swarm::Swarm;

/// The command that installs the tool. The output of this version is understood.
const INSTALL: &str = "cargo install --locked --root target/tools cargo-mutants --version 27.1.0";
/// The mutants of laws that are tried on one day.
const A_DAY: usize = 12;
/// The package that the swarm plays; it has stores of its own.
const ENGINE: &str = "forebay";

/// The call of the task.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    part: Part,
    /// Only those of files whose path ends like this.
    file: String,
    /// How many mutants are tried, and the seed that chooses them; all if there is none.
    sample: Option<(usize, u64)>,
    /// Only those that the list of survivors has.
    only_listed: bool,
    /// How many seeds of the swarm are run with a mutant that the tests missed.
    swarm: u64,
    /// Survivors are reported, and are no failure.
    only_reports: bool,
}

impl Call {
    fn parse(words: &[&str], day: u64) -> Option<Call> {
        let (mut part, mut size, mut seed, mut only_reports) = (Part::Laws, None, 0, false);
        let (mut only_listed, mut swarm, mut file) = (false, 0, String::new());
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            match word {
                "--sample" => size = Some(words.next()?.parse().ok()?),
                "--seed" => seed = words.next()?.parse().ok()?,
                "--file" => file = String::from(*words.next()?),
                "--listed" => only_listed = true,
                "--swarm" => swarm = words.next()?.parse().ok()?,
                "--today" => {
                    (size, seed) = (Some(A_DAY), day);
                    only_reports = true;
                }
                _ => part = Part::named(word)?,
            }
        }
        let is_played = part.package() == ENGINE;
        if swarm > 0 && !is_played {
            return None;
        }
        Some(Call {
            part,
            file,
            sample: size.map(|size| (size, seed)),
            only_listed,
            swarm,
            only_reports,
        })
    }
}

/// Tries the mutants that `words` ask for; true if each is caught or listed. None if the words make
/// no sense.
pub(crate) fn run(words: &[&str]) -> Option<Result<bool, TaskError>> {
    Call::parse(words, today()).map(|call| try_out(&call))
}

/// Days since 1970.
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a sample of the day asks which day it is"
)]
fn today() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() / 86_400)
}

fn try_out(call: &Call) -> Result<bool, TaskError> {
    let root = repository()?;
    let survivors = listed(&root)?;
    let mut all = mutants_of(&root, call.part)?;
    all.retain(|mutant| mutant.file.ends_with(&call.file));
    let chosen = choose(call, &all, &root, &survivors)?;
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), PathBuf::from)
        .join("mutants");
    let tree = TreeCopy::make(&root, target.join("tree"))?;
    let built = build::build(&tree, &target.join("build"), call.part, &chosen)?;
    let swarm = match call.swarm {
        0 => None,
        seeds => Some(Swarm::build(&tree, &target.join("build"), seeds)?),
    };
    let plays_well = |number| swarm.as_ref().map_or(Ok(true), |of| of.passes(number));
    let failed = |by: &str| TaskError::Failed {
        command: format!("run {by} of {} without a mutant", call.part.name()),
        message: format!("see {:?}", built.programs),
    };
    let programs = trial::quickest_first(tree.path(), call.part, &built.programs)?;
    let programs = programs.ok_or_else(|| failed("the tests"))?;
    if !plays_well(0)? {
        return Err(failed("the swarm"));
    }
    let notices = |number, mutant| -> Result<Option<&'static str>, TaskError> {
        if !trial::passes(tree.path(), call.part, &programs, (number, mutant))? {
            return Ok(Some("the tests"));
        }
        Ok((!plays_well(number)?).then_some("the swarm"))
    };
    let mut tally = Tally::default();
    for (number, mutant) in (1..).zip(&chosen) {
        if built.unviable.contains(&number) {
            tally.unviable += 1;
        } else if built.left_out.contains(&number) {
            println!("not woven in: {}", mutant.name());
            tally.left_out += 1;
        } else {
            let caught_by = notices(number, mutant)?;
            tally.note(caught_by, mutant, &mutant.line_of(&root)?, &survivors);
        }
    }
    println!("{}", tally.said(all.len()));
    // A sample of the day only reports: whether a change passes must not depend on the day.
    Ok(tally.unlisted == 0 || call.only_reports)
}

/// Those of `all` that the call asks for.
fn choose(
    call: &Call,
    all: &[Mutant],
    root: &Path,
    survivors: &[Survivor],
) -> Result<Vec<Mutant>, TaskError> {
    let mut chosen: Vec<Mutant> = match call.sample {
        Some((size, seed)) => {
            let chosen = sample::choose(all.len(), size, seed).into_iter();
            chosen.map(|index| all[index].clone()).collect()
        }
        None => all.to_vec(),
    };
    if call.only_listed {
        let mut wanted = Vec::new();
        for mutant in chosen {
            let line = mutant.line_of(root)?;
            if survivors.iter().any(|known| known.is(&mutant, &line)) {
                wanted.push(mutant);
            }
        }
        chosen = wanted;
    }
    Ok(chosen)
}

fn listed(root: &Path) -> Result<Vec<Survivor>, TaskError> {
    let path = root.join(PATH);
    let text = fs::read_to_string(&path).map_err(|cause| TaskError::Read { path, cause })?;
    parse(&text).map_err(|message| TaskError::Failed {
        command: format!("read {PATH}"),
        message,
    })
}

/// All mutants of `part`, as the tool lists them.
fn mutants_of(root: &Path, part: Part) -> Result<Vec<Mutant>, TaskError> {
    let tools = root.join("target/tools/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(tools).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(paths).unwrap_or(path);
    let mut command = Command::new("cargo");
    command
        .args(["mutants", "--list", "--json", "--package", part.package()])
        .args(["--exclude", "**/*_tests.rs"]);
    for files in part.files() {
        command.args(["--file", files]);
    }
    let output = command.current_dir(root).env("PATH", path).output();
    let output = output.map_err(|cause| TaskError::Start {
        command: "cargo mutants".to_owned(),
        cause,
    })?;
    let failed = |message| TaskError::Failed {
        command: "cargo mutants --list".to_owned(),
        message,
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("{said}\nif it is not installed: {INSTALL}")));
    }
    list::parse(&String::from_utf8_lossy(&output.stdout)).map_err(failed)
}

/// What became of the mutants.
#[derive(Debug, Default)]
struct Tally {
    caught: usize,
    /// Of these the ones that the tests missed and the swarm found.
    by_swarm: usize,
    /// Missed, and the list says that they change nothing.
    equivalent: usize,
    missed: usize,
    /// Missed, and not in the list.
    unlisted: usize,
    unviable: usize,
    left_out: usize,
}

impl Tally {
    fn note(
        &mut self,
        caught_by: Option<&str>,
        mutant: &Mutant,
        line: &str,
        survivors: &[Survivor],
    ) {
        let known = survivors.iter().find(|known| known.is(mutant, line));
        let name = mutant.name();
        match (caught_by, known) {
            (Some(by), None) => println!("caught by {by}: {name}"),
            (Some(by), Some(_)) => println!("caught by {by}, and in {PATH}: {name}"),
            (None, Some(known)) => {
                self.equivalent += usize::from(known.reason == Reason::Equivalent);
                println!("survivor, {}: {name}", known.reason);
            }
            (None, None) => {
                self.unlisted += 1;
                println!("SURVIVOR that is not in {PATH}: {name}\n    {line}");
            }
        }
        self.caught += usize::from(caught_by.is_some());
        self.by_swarm += usize::from(caught_by == Some("the swarm"));
        self.missed += usize::from(caught_by.is_none());
    }

    /// The last line of the report, for a part that has `all` mutants.
    fn said(&self, all: usize) -> String {
        let viable = self.caught + self.missed;
        let (low, high) = sample::interval(self.caught, viable);
        let tried = viable + self.unviable + self.left_out;
        let percent = self.caught as f64 * 100.0 / viable.max(1) as f64;
        let of_all = if tried < all {
            format!("; of all {low:.1} to {high:.1} %, in 95 of 100 samples")
        } else {
            String::new()
        };
        let differing = viable - self.equivalent;
        let of_differing = self.caught as f64 * 100.0 / differing.max(1) as f64;
        format!(
            "{} of {viable} viable mutants caught ({percent:.1} %{of_all}), {} of them by the \
             swarm alone; {of_differing:.1} % of the {differing} that are not equivalent; \
             {} survivors unlisted; {tried} of {all} tried, {} do not compile, {} not woven in",
            self.caught, self.by_swarm, self.unlisted, self.unviable, self.left_out
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use list::{Genre, example};

    #[test]
    fn words_choose_a_part_and_a_sample() {
        let call = |words: &[&str]| Call::parse(words, 75);
        let laws = Call {
            part: Part::Laws,
            file: String::new(),
            sample: None,
            only_listed: false,
            swarm: 0,
            only_reports: false,
        };
        assert_eq!(call(&[]), Some(laws.clone()));
        let sample = Call {
            part: Part::State,
            sample: Some((40, 3)),
            ..laws.clone()
        };
        assert_eq!(
            call(&["--sample", "40", "--seed", "3", "state"]),
            Some(sample)
        );
        let of_file = Call {
            file: "drain.rs".into(),
            ..laws.clone()
        };
        assert_eq!(call(&["--file", "drain.rs"]), Some(of_file));
        let today = Call {
            sample: Some((A_DAY, 75)),
            only_reports: true,
            ..laws
        };
        assert_eq!(call(&["--today"]), Some(today));
        let listed = Call {
            part: Part::Flows,
            only_listed: true,
            swarm: 300,
            ..call(&[]).unwrap()
        };
        let words = ["--listed", "--swarm", "300", "flows"];
        assert_eq!(call(&words), Some(listed));
        let no_swarm = ["--swarm", "300", "stores"];
        for wrong in [&["nothing"][..], &["--sample"], &["--seed", "x"], &no_swarm] {
            assert_eq!(call(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_survivor_that_is_not_listed_is_counted() {
        let mutant = example(Genre::BinaryOperator, 1, 1, "-");
        let list = "[[survivor]]\nfile = 'a.rs'\nmutation = 'replace x with - in f'\n\
                    line = 'a + b'\nreason = 'equivalent'\nwhy = 'b is 0'\n";
        let list = parse(list).unwrap();
        let mut tally = Tally::default();
        tally.note(None, &mutant, "a + b", &list);
        tally.note(Some("the swarm"), &mutant, "a + c", &list);
        assert_eq!(tally.unlisted, 0);
        tally.note(None, &mutant, "a + c", &list);
        assert_eq!(tally.unlisted, 1);
        let said = tally.said(3);
        assert!(
            said.starts_with("1 of 3 viable mutants caught (33.3 %), 1 of them by the swarm"),
            "{said}"
        );
        assert!(
            tally.said(4).contains("; of all 6.1 to 79.2 %"),
            "{}",
            tally.said(4)
        );
        assert!(
            said.contains("50.0 % of the 2 that are not equivalent"),
            "{said}"
        );
    }
}
