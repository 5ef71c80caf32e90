//! `forebay-lab reproduce`: the five changes measured again.

use crate::error::CommandError;
use crate::progress::{run_with_progress, threads};
use crate::refusal::refusal;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory};
use forebay_host::output::{
    expect_different_files, expect_writable, is_standard_output, print, write,
};
use forebay_lab::reproduction::evidence::Evidence;
use forebay_lab::reproduction::figures::figures;
use forebay_lab::reproduction::judge::judge_all;
use forebay_lab::reproduction::perturb::{self, Variant};
use forebay_lab::reproduction::plan::{Cell, cells, policy};
use forebay_lab::reproduction::table::{Findings, render};
use forebay_lab::reproduction::{Change, Position, page};
use forebay_lab::run::{Ending, Plan, RunError};
use forebay_rt::say;
use serde::Serialize;
use std::cmp::Reverse;
use std::path::PathBuf;

/// The words that were typed.
#[derive(Args)]
pub(crate) struct TypedReproduce {
    /// Measure only these changes; "forebay-lab list" shows their names
    #[arg(long, value_name = "CHANGE", value_parser = change)]
    only: Vec<Change>,
    /// Runs of each cell under each policy, with the seeds from 1
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Also run the long cells, and all others for their full time
    #[arg(long)]
    full: bool,
    /// Run everything nine times, with other seeds, slower and faster disks, less and more memory,
    /// and other processor costs, and print in how many runs each test holds
    #[arg(long, conflicts_with_all = ["seeds", "html"])]
    perturb: bool,
    /// Write every figure and judgement to FILE as JSON; - is standard output, without the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write one page with tables and pictures to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// A checked call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReproduceArguments {
    changes: Vec<Change>,
    seeds: u64,
    full: bool,
    perturb: bool,
    json_file: Option<PathBuf>,
    html_file: Option<PathBuf>,
}

/// The content of the file for `--json`.
#[derive(Serialize)]
struct Written<'a> {
    seeds: u64,
    failed_runs: &'a [String],
    #[serde(flatten)]
    findings: &'a Findings,
}

/// The content of the same file for `--perturb`.
#[derive(Serialize)]
struct Perturbed<'a> {
    variants: [String; 9],
    failed_runs: &'a [String],
    tests: &'a [perturb::Row],
}

impl TypedReproduce {
    /// The meaning of the words.
    pub(crate) fn checked<C: CommandFactory>(self) -> Result<ReproduceArguments, clap::Error> {
        let refuse = |text: String| refusal::<C>("reproduce", ErrorKind::InvalidValue, text);
        let files = [
            ("--json", self.json.as_deref()),
            ("--html", self.html.as_deref()),
        ];
        expect_different_files(&files).map_err(refuse)?;
        let all = self.only.is_empty();
        Ok(ReproduceArguments {
            changes: if all { Change::ALL.into() } else { self.only },
            seeds: self.seeds,
            full: self.full,
            perturb: self.perturb,
            json_file: self.json,
            html_file: self.html,
        })
    }
}

/// One run of one cell, or of several cells that differ only in something that the workload
/// ignores.
struct Run {
    /// [`Cell::length`].
    length: u32,
    cells: Vec<String>,
    position: Position,
    plan: Plan,
}

/// Runs the experiments and prints the report.
pub(crate) fn run(arguments: &ReproduceArguments) -> Result<(), CommandError> {
    expect_writable(&[
        arguments.json_file.as_deref(),
        arguments.html_file.as_deref(),
    ])?;
    if arguments.perturb {
        return run_perturbed(arguments);
    }
    let (evidence, failed) = gather(arguments, Variant::AsIs);
    let findings = Findings {
        figures: figures(&evidence),
        judgements: judge_all(&evidence),
    };
    let findings = findings.only(&arguments.changes);
    // Files first: they are written even if nobody reads the output.
    if let Some(path) = &arguments.html_file {
        write(path, &page::render(&findings, &evidence))?;
    }
    if let Some(path) = &arguments.json_file {
        let written = Written {
            seeds: arguments.seeds,
            failed_runs: &failed,
            findings: &findings,
        };
        let text = serde_json::to_string_pretty(&written)
            .expect("plain values with text keys become JSON");
        write(path, &text)?;
    }
    if !is_standard_output(arguments.json_file.as_deref()) {
        print(&render(&findings))?;
        if !arguments.full {
            print(&format!("{}\n", shortened()))?;
        }
    }
    report_failed(&failed)?;
    match findings.required_unmet().as_slice() {
        [] => Ok(()),
        unmet => Err(CommandError::Lab(format!(
            "required tests that were not shown to hold: {}",
            unmet.join(", ")
        ))),
    }
}

/// Runs the experiments in every variant and prints in how many each test holds.
fn run_perturbed(arguments: &ReproduceArguments) -> Result<(), CommandError> {
    let mut failed = Vec::new();
    let mut all = Vec::new();
    for variant in Variant::ALL {
        say(format_args!("{}", variant.name()));
        let (evidence, failed_here) = gather(arguments, variant);
        let name = variant.name();
        failed.extend(failed_here.iter().map(|run| format!("{name}: {run}")));
        // The figures are not kept: nine times all runs would not fit into the memory.
        let findings = Findings {
            figures: Vec::new(),
            judgements: judge_all(&evidence),
        };
        all.push(findings.only(&arguments.changes));
    }
    let rows = perturb::rows(&all);
    if let Some(path) = &arguments.json_file {
        let written = Perturbed {
            variants: Variant::ALL.map(Variant::name),
            failed_runs: &failed,
            tests: &rows,
        };
        let text = serde_json::to_string_pretty(&written)
            .expect("plain values with text keys become JSON");
        write(path, &text)?;
    }
    if !is_standard_output(arguments.json_file.as_deref()) {
        print(&perturb::render(&rows))?;
    }
    report_failed(&failed)
}

/// Names the runs that failed.
fn report_failed(failed: &[String]) -> Result<(), CommandError> {
    if failed.is_empty() {
        return Ok(());
    }
    for run in failed {
        say(format_args!("failed: {run}"));
    }
    Err(CommandError::Lab(format!(
        "{} runs failed; what they were for is not tested",
        failed.len()
    )))
}

/// Runs every cell that was asked for. A run that fails does not prevent the judgement of the
/// others; it is reported at the end.
fn gather(arguments: &ReproduceArguments, variant: Variant) -> (Evidence, Vec<String>) {
    let mut failed = Vec::new();
    let mut runs = Vec::new();
    for cell in cells().iter().filter(|cell| wanted(cell, arguments)) {
        match runs_of(cell, arguments, variant) {
            Ok(of_cell) => of_cell.into_iter().for_each(|run| join(&mut runs, run)),
            Err(error) => failed.push(format!("{}: {error}", cell.name)),
        }
    }
    runs.sort_by_key(|run| Reverse(run.length));
    let titles = runs.iter().map(|run| {
        format!(
            "{} {} seed {}",
            run.cells[0],
            run.position.word(),
            run.plan.seed
        )
    });
    let titles = titles.collect();
    let plans = runs.iter().map(|run| run.plan.clone()).collect();
    let mut evidence = Evidence::default();
    let outcomes = run_with_progress(plans, titles, threads());
    let answers = runs.iter().zip(&outcomes).flat_map(|(run, outcome)| {
        let places = run.cells.iter();
        places.map(move |cell| (cell, run.position, outcome.clone()))
    });
    for (cell, position, outcome) in answers {
        match outcome {
            Ok(outcome) => evidence.add(cell, position, outcome),
            Err(error) => failed.push(format!("{cell} {}: {error}", position.word())),
        }
    }
    (evidence, failed)
}

fn wanted(cell: &Cell, arguments: &ReproduceArguments) -> bool {
    arguments.changes.contains(&cell.change) && (arguments.full || !cell.long)
}

/// What this run leaves out of the experiments as they were published.
fn shortened() -> String {
    let all = cells();
    let (long, rest): (Vec<&Cell>, Vec<&Cell>) = all.iter().partition(|cell| cell.long);
    let short = rest.iter().filter(|cell| !cell.shorter.is_empty()).count();
    format!(
        "of {} cells {} were left out, and {short} run for a part of their time; --full runs all",
        all.len(),
        long.len()
    )
}

/// Adds a run, or adds its cell to an equal run.
fn join(runs: &mut Vec<Run>, run: Run) {
    let is_same = |other: &&mut Run| {
        let (one, two) = (&run.plan, &other.plan);
        run.position == other.position
            && (
                &one.workload,
                &one.machine.name,
                &one.policy,
                &one.knobs,
                one.seed,
            ) == (
                &two.workload,
                &two.machine.name,
                &two.policy,
                &two.knobs,
                two.seed,
            )
    };
    match runs.iter_mut().find(is_same) {
        Some(same) => same.cells.extend(run.cells),
        None => runs.push(run),
    }
}

fn runs_of(
    cell: &Cell,
    arguments: &ReproduceArguments,
    variant: Variant,
) -> Result<Vec<Run>, RunError> {
    let mut runs = Vec::new();
    for position in cell.positions {
        for seed in 1..=arguments.seeds {
            let plan =
                Plan::new(cell.workload, cell.machine)?.under(policy(cell.change, *position));
            let knobs = cell.knobs_of(arguments.full);
            let knobs = knobs.iter();
            let mut plan = knobs.fold(plan, |plan, (knob, value)| plan.with(knob, value));
            plan.seed = seed;
            // No test and no published figure is about what follows the workload.
            plan.ending = Ending::AtOnce;
            let plan = variant.of(plan)?;
            plan.check()?;
            runs.push(Run {
                length: cell.length(),
                cells: vec![cell.name.clone()],
                position: *position,
                plan,
            });
        }
    }
    Ok(runs)
}

fn change(name: &str) -> Result<Change, String> {
    Change::named(name).ok_or_else(|| {
        let known = Change::ALL.map(Change::name);
        format!("the changes are {}", known.join(", "))
    })
}
