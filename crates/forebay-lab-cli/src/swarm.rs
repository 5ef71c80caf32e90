//! `forebay-lab swarm`: seeds that look for a broken promise.

use crate::error::CommandError;
use crate::progress::threads;
use crate::span::campaign_time;
use clap::Args;
use forebay_base::Span;
use forebay_host::HostError;
use forebay_host::output::{expect_writable, print, write};
use forebay_lab::swarm::{Campaign, Failed, Part, Reached, Reduction, Report, kept_seeds, shrink};
use serde::Serialize;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;

/// One seed in this many is run twice, and the two runs are compared.
const TWIN_EVERY: u64 = 16;
/// A campaign ends after this many violations: most of them have the same cause.
const MOST_VIOLATIONS: usize = 10;

/// The words that were typed.
#[derive(Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct TypedSwarm {
    /// Seeds to run, from A up to but not including B
    #[arg(long, value_name = "A..B", default_value = "0..1000", value_parser = seeds)]
    seeds: Range<u64>,
    /// First run the seeds that once found something
    #[arg(long)]
    kept: bool,
    /// Start no seed after this time [default: run all seeds]
    #[arg(long, alias = "minutes", value_name = "TIME", value_parser = campaign_time)]
    time: Option<Span>,
    /// Also write the figures to FILE as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Reduce each failing run, and print the command that repeats the reduced run
    #[arg(long)]
    shrink: bool,
    /// Leave these parts out of each run: crash, faults, abandon, readers, ...
    #[arg(long, value_name = "PARTS", value_delimiter = ',', value_parser = part)]
    without: Vec<Part>,
    /// Limit each client to N operations
    #[arg(long, value_name = "N")]
    operations: Option<u64>,
    /// Print each call and each request on standard error
    #[arg(long)]
    loud: bool,
    /// Print how many seeds reached each error arm of the engine
    #[arg(long)]
    marks: bool,
}

/// A checked call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SwarmArguments {
    seeds: Range<u64>,
    runs_kept: bool,
    time: Option<Span>,
    json_file: Option<PathBuf>,
    shrinks: bool,
    shows_marks: bool,
    reduction: Reduction,
}

impl TypedSwarm {
    /// The meaning of the words.
    pub(crate) fn checked(self) -> SwarmArguments {
        SwarmArguments {
            seeds: self.seeds,
            runs_kept: self.kept,
            time: self.time,
            json_file: self.json,
            shrinks: self.shrink,
            shows_marks: self.marks,
            reduction: Reduction {
                operations: self.operations,
                without: self.without,
                is_loud: self.loud,
            },
        }
    }
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("'{text}' is not a range: write A..B with A below B, as 0..300");
    let (first, end) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
    let range = number(first)?..number(end)?;
    if range.is_empty() {
        Err(wrong())
    } else {
        Ok(range)
    }
}

fn part(text: &str) -> Result<Part, String> {
    Part::named(text).ok_or_else(|| {
        let known: Vec<String> = Part::ALL.into_iter().map(Part::name).collect();
        format!(
            "no part is called '{text}'; the parts are {}",
            known.join(", ")
        )
    })
}

/// Runs the seeds and prints the report.
pub(crate) fn run(arguments: &SwarmArguments) -> Result<(), CommandError> {
    expect_writable(&[arguments.json_file.as_deref()])?;
    // A panic of a run is a finding, and reported as one.
    std::panic::set_hook(Box::new(|_| {}));
    let campaign = Campaign {
        kept: if arguments.runs_kept {
            kept_seeds().iter().map(|kept| kept.seed).collect()
        } else {
            Vec::new()
        },
        seeds: arguments.seeds.clone(),
        longest: arguments.time,
        twin_every: TWIN_EVERY,
        threads: threads(),
        most_violations: MOST_VIOLATIONS,
        reduction: arguments.reduction.clone(),
    };
    let commit = commit();
    let mut reported = Ok(());
    let ran = campaign.run(|failed| {
        let line = line_of(arguments, failed, &commit);
        let printed = print(&format!("{line}\n"));
        // The first failure to print is reported once all seeds have run.
        reported = std::mem::replace(&mut reported, Ok(())).and(printed);
    });
    let report = ran.map_err(HostError::system("start threads"))?;
    if let Some(path) = &arguments.json_file {
        let figures = Figures {
            commit: &commit,
            first_seed: arguments.seeds.start,
            end_seed: arguments.seeds.end,
            kept: arguments.runs_kept,
            report: &report,
        };
        let text = serde_json::to_string_pretty(&figures).map_err(|error| {
            CommandError::Lab(format!("the figures cannot be written: {error}"))
        })?;
        write(path, &text)?;
    }
    reported?;
    print(&format!(
        "{}\n",
        summary(&arguments.seeds, &report, &commit)
    ))?;
    print(&format!("{}\n", unreached(&report)))?;
    if arguments.shows_marks {
        print(&marks(&report))?;
    }
    if report.failed.is_empty() {
        return Ok(());
    }
    let count = report.failed.len();
    Err(CommandError::Lab(format!(
        "{count} seeds found a broken promise"
    )))
}

/// The content of the JSON file: the figures, and the commands that repeat the failures.
#[derive(Serialize)]
struct Figures<'a> {
    commit: &'a str,
    first_seed: u64,
    end_seed: u64,
    kept: bool,
    #[serde(flatten)]
    report: &'a Report,
}

/// One line: the command that repeats a failure, the commit, and what was found.
fn line_of(arguments: &SwarmArguments, failed: &Failed, commit: &str) -> String {
    let smaller = if arguments.shrinks {
        shrink(failed.seed)
    } else {
        None
    };
    let (reduction, violation) = match smaller {
        Some((reduction, violation)) => (reduction, violation),
        None => (arguments.reduction.clone(), failed.violation.clone()),
    };
    let mut command = format!(
        "forebay-lab swarm --seeds {}..{}",
        failed.seed,
        failed.seed + 1
    );
    if let Some(operations) = reduction.operations {
        let _ = write!(command, " --operations {operations}");
    }
    if !reduction.without.is_empty() {
        let parts: Vec<String> = reduction.without.iter().map(|part| part.name()).collect();
        let _ = write!(command, " --without {}", parts.join(","));
    }
    format!(
        "{command}  # {commit}; {}: {}",
        violation.oracle, violation.what
    )
}

fn summary(seeds: &Range<u64>, report: &Report, commit: &str) -> String {
    let faults: Vec<String> = report
        .faults
        .iter()
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    format!(
        "seeds {}..{} at {commit}: {} run in {:.0} s ({:.1}/s), {} found something\n\
         {:.1} simulated hours, {} calls ({} dropped, {} refused), {} syncs, {} crashes, \
         {} twins\n\
         faults: {}",
        seeds.start,
        seeds.end,
        report.seeds,
        report.seconds,
        report.seeds_per_s(),
        report.failed.len(),
        report.simulated_hours,
        report.calls,
        report.abandoned,
        report.refused,
        report.syncs,
        report.crashes,
        report.twins,
        faults.join(", ")
    )
}

/// How many error arms were reached, and which were not.
fn unreached(report: &Report) -> String {
    let never = |(_, reached): &(&&str, &Reached)| reached.seeds == 0;
    let never: Vec<&str> = report
        .marks
        .iter()
        .filter(never)
        .map(|(name, _)| *name)
        .collect();
    let reached = report.marks.len() - never.len();
    let names = if never.is_empty() {
        String::new()
    } else {
        format!("; never: {}", never.join(", "))
    };
    format!("marks: {reached} of {} reached{names}", report.marks.len())
}

/// Each error arm, how many seeds reached it, and the first of them; those unreached first.
fn marks(report: &Report) -> String {
    let mut text = String::new();
    let mut rows: Vec<_> = report.marks.iter().collect();
    rows.sort_by_key(|(name, reached)| (reached.seeds, **name));
    for (name, reached) in rows {
        let first = reached
            .first
            .map_or_else(String::new, |seed| format!(", first {seed}"));
        let _ = writeln!(text, "{name}: {} seeds{first}", reached.seeds);
    }
    text
}

/// The commit of the current folder, for people that want to repeat a failure.
fn commit() -> String {
    let words = ["describe", "--always", "--dirty", "--exclude=*"];
    let reported = Command::new("git").args(words).output();
    let text = reported.ok().filter(|reported| reported.status.success());
    let text = text.and_then(|reported| String::from_utf8(reported.stdout).ok());
    text.map_or_else(
        || "unknown commit".into(),
        |text| format!("commit {}", text.trim()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_lab::swarm::{Oracle, Violation};

    fn arguments() -> SwarmArguments {
        SwarmArguments {
            seeds: 0..9,
            runs_kept: false,
            time: None,
            json_file: None,
            shrinks: false,
            shows_marks: false,
            reduction: Reduction {
                operations: Some(5),
                without: vec![Part::Crash, Part::Zones],
                is_loud: false,
            },
        }
    }

    #[test]
    fn a_failure_is_one_line_that_repeats_it() {
        let violation = Violation {
            oracle: Oracle::Bytes,
            what: "byte 3".into(),
        };
        let line = line_of(&arguments(), &Failed { seed: 7, violation }, "commit abc");
        let expected = "forebay-lab swarm --seeds 7..8 --operations 5 --without crash,zones  \
                        # commit abc; bytes: byte 3";
        assert_eq!(line, expected);
    }

    #[test]
    fn ranges_are_read_and_others_refused() {
        assert_eq!(seeds("3..9"), Ok(3..9));
        for text in ["", "3", "9..3", "3..3", "a..b"] {
            assert!(seeds(text).is_err(), "{text}");
        }
        assert!(part("nothing").expect_err("no such part").contains("crash"));
    }
}
