//! `forebay-lab run`: a workload on a machine under one policy or two.

use crate::error::CommandError;
use crate::progress::{run_with_progress, threads};
use crate::refusal::refusal;
use crate::room::{expect_memory, runs_at_a_time};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory};
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_control::trace::trace;
use forebay_control::waits::Stalls;
use forebay_host::available_bytes;
use forebay_host::output::{
    expect_different_files, expect_writable, is_standard_output, print, write,
};
use forebay_lab::machine::Machine;
use forebay_lab::outcome::Outcome;
use forebay_lab::report::{Document, page, table};
use forebay_lab::run::{Look, Plan, RunError};
use forebay_lab::scenario::Scenario;
use forebay_lab::world::Platform;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The words that were typed.
#[derive(Args)]
pub(crate) struct TypedRun {
    /// Name of a workload ("forebay-lab list" shows them), or a scenario of your own as FILE.toml
    #[arg(value_name = "WORKLOAD|FILE.toml")]
    workload: String,
    /// Name of a machine, or a machine of your own as FILE.toml [default: amd4-512m, or the
    /// scenario's]
    #[arg(long, value_name = "M")]
    machine: Option<String>,
    /// Name of a policy [default: forebay, or the scenario's]
    #[arg(long, value_name = "P")]
    policy: Option<String>,
    /// A second policy, to compare with the first
    #[arg(long, value_name = "P")]
    vs: Option<String>,
    /// Seed of the first run [default: 1, or the scenario's]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Runs of each policy, with consecutive seeds
    #[arg(long, value_name = "K", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// Change a setting of the workload, the machine or the policy
    #[arg(long = "set", value_name = "KNOB=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// Run on real files in a directory instead of the simulated machine: real:DIR
    #[arg(long, value_name = "PLACE", value_parser = place)]
    on: Option<PathBuf>,
    /// Write every run and the comparison to FILE as JSON; - is standard output, without the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write one page with tables and pictures to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the stalls of the run to FILE, as a trace for Perfetto and chrome://tracing
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// A checked call: every name in it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunArguments {
    workload: String,
    machine: Option<String>,
    /// The first one is the baseline; an empty list stands for the default policy.
    policies: Vec<Option<String>>,
    knobs: BTreeMap<String, String>,
    first_seed: Option<u64>,
    runs: u64,
    real_folder: Option<PathBuf>,
    json_file: Option<PathBuf>,
    html_file: Option<PathBuf>,
    trace_file: Option<PathBuf>,
}

impl TypedRun {
    /// The meaning of the words; every name in them is looked up.
    pub(crate) fn checked<C: CommandFactory>(self) -> Result<RunArguments, clap::Error> {
        let arguments = RunArguments {
            workload: self.workload,
            machine: self.machine,
            policies: std::iter::once(self.policy)
                .chain(self.vs.map(Some))
                .collect(),
            knobs: self.settings.into_iter().collect(),
            first_seed: self.seed,
            runs: self.runs,
            real_folder: self.on,
            json_file: self.json,
            html_file: self.html,
            trace_file: self.trace,
        };
        let refuse = |text: String| refusal::<C>("run", ErrorKind::InvalidValue, text);
        expect_different_files(&arguments.files()).map_err(refuse)?;
        let available_bytes = available_bytes();
        let plans = arguments.plans().map_err(refuse)?;
        if arguments.trace_file.is_some() && plans.len() > 1 {
            let text = "a trace is of one run; leave out --vs and --runs, or --trace";
            return Err(refuse(text.into()));
        }
        for plan in plans {
            expect_possible(&plan, available_bytes).map_err(refuse)?;
        }
        Ok(arguments)
    }
}

impl RunArguments {
    /// The files that are written, by their options.
    fn files(&self) -> [(&'static str, Option<&Path>); 3] {
        [
            ("--json", self.json_file.as_deref()),
            ("--html", self.html_file.as_deref()),
            ("--trace", self.trace_file.as_deref()),
        ]
    }

    /// All runs, policy by policy.
    fn plans(&self) -> Result<Vec<Plan>, String> {
        let plan = self.plan()?;
        let of_policy = |policy: &Option<String>, run: u64| Plan {
            policy: policy.clone().unwrap_or_else(|| plan.policy.clone()),
            seed: plan.seed.wrapping_add(run),
            ..plan.clone()
        };
        let runs = |policy| (0..self.runs).map(move |run| (policy, run));
        let all = self.policies.iter().flat_map(runs);
        Ok(all.map(|(policy, run)| of_policy(policy, run)).collect())
    }

    /// The first run, under the default policy.
    fn plan(&self) -> Result<Plan, String> {
        let mut plan = if is_file(&self.workload) {
            if self.machine.is_some() || self.real_folder.is_some() {
                return Err("a scenario has its own machine, which is simulated".into());
            }
            Plan::of_scenario(scenario(&self.workload)?)
        } else {
            let machine = machine(self.machine.as_deref().unwrap_or(USUAL_MACHINE))?;
            Plan::on(machine, &self.workload)
        };
        plan.knobs.extend(self.knobs.clone());
        plan.seed = self.first_seed.unwrap_or(plan.seed);
        if let Some(folder) = &self.real_folder {
            plan.platform = Platform::Real(folder.clone());
        }
        Ok(plan)
    }

    /// How many runs there are at a time: on real files they would share the device, and large
    /// machines would share the memory.
    fn threads(&self, plans: &[Plan]) -> usize {
        if self.real_folder.is_some() {
            return 1;
        }
        let needed = plans.iter().filter_map(|plan| {
            let ready = plan.check().ok()?;
            Some(ready.memory_bytes(&plan.platform))
        });
        runs_at_a_time(threads(), needed.max().unwrap_or(0), available_bytes())
    }
}

/// Refuses a plan with an unknown name, and one that this computer does not have enough memory for.
fn expect_possible(plan: &Plan, available_bytes: Option<u64>) -> Result<(), String> {
    let ready = plan.check().map_err(|error| error.to_string())?;
    let needed_bytes = ready.memory_bytes(&plan.platform);
    expect_memory(&ready.machine.name, needed_bytes, available_bytes)
}

/// Runs everything and prints the report.
pub(crate) fn run(arguments: &RunArguments) -> Result<(), CommandError> {
    let mut plans = arguments.plans().map_err(CommandError::Lab)?;
    expect_writable(&arguments.files().map(|(_, path)| path))?;
    let stalls = SeenStalls::default();
    if arguments.trace_file.is_some() {
        for plan in &mut plans {
            plan.look = Some(stalls.look());
        }
    }
    let titles = plans
        .iter()
        .map(|plan| format!("{} {} seed {}", plan.workload, plan.policy, plan.seed));
    let titles = titles.collect();
    let threads = arguments.threads(&plans);
    let outcomes: Result<Vec<Outcome>, CommandError> = run_with_progress(plans, titles, threads)
        .into_iter()
        .map(|outcome| outcome.map_err(|error| refused(&error)))
        .collect();
    let document = Document::new(outcomes?);
    // Files first: they are written even if nobody reads the output.
    if let Some(path) = &arguments.html_file {
        let comparison = &document.comparison;
        let labels = comparison
            .columns
            .iter()
            .map(|column| column.label.as_str());
        let policies: Vec<&str> = labels.collect();
        let title = format!("{}: {}", comparison.workload, policies.join(" against "));
        write(path, &page::of_runs(&title, &document.outcomes))?;
    }
    if let Some(path) = &arguments.json_file {
        write(path, &document.to_json())?;
    }
    if let Some(path) = &arguments.trace_file {
        write(path, &stalls.trace())?;
    }
    if !is_standard_output(arguments.json_file.as_deref()) {
        print(&table::render(&document.comparison))?;
        print(&judged(&document.outcomes))?;
    }
    broken_expectations(&document.outcomes)
}

/// A run that is found to be impossible only while it runs is a bad call like any other.
fn refused(error: &RunError) -> CommandError {
    if error.is_bad_call() {
        CommandError::BadCall(error.to_string())
    } else {
        CommandError::Lab(error.to_string())
    }
}

/// The expectations of a scenario, and the findings.
fn judged(outcomes: &[Outcome]) -> String {
    let mut lines = Vec::new();
    for outcome in outcomes {
        let setting = &outcome.setting;
        for result in &outcome.expectations {
            let held = result.verdict();
            let (policy, seed) = (&setting.policy, setting.seed);
            lines.push(format!(
                "{held:6}  {policy} seed {seed}: {}; found {}\n",
                result.expected, result.found
            ));
        }
    }
    lines.concat()
}

/// An expectation of a scenario that does not hold is failed work.
fn broken_expectations(outcomes: &[Outcome]) -> Result<(), CommandError> {
    let broken = outcomes.iter().flat_map(|outcome| {
        let seed = outcome.setting.seed;
        let results = outcome.expectations.iter().filter(|result| !result.held);
        results.map(move |result| {
            format!(
                "expected {}, found {} (seed {seed})",
                result.expected, result.found
            )
        })
    });
    let broken: Vec<String> = broken.collect();
    if broken.is_empty() {
        return Ok(());
    }
    Err(CommandError::Lab(broken.join("; ")))
}

/// The machine of a call that names none.
const USUAL_MACHINE: &str = "amd4-512m";

/// Whether a name is that of a file of the user.
fn is_file(name: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|ending| ending == "toml")
}

fn machine(name: &str) -> Result<Machine, String> {
    if !is_file(name) {
        return Machine::named(name).map_err(|error| error.to_string());
    }
    let text = std::fs::read_to_string(name)
        .map_err(|error| format!("cannot read the machine {name}: {error}"))?;
    if Scenario::is_meant_by(&text) {
        return Err(format!(
            "{name} is a scenario, not a machine; it has its own machine and is run as: \
             forebay-lab run {name}"
        ));
    }
    Machine::parse(&text).map_err(|error| format!("{name}: {error}"))
}

fn scenario(path: &str) -> Result<Scenario, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read the scenario {path}: {error}"))?;
    Scenario::parse(&text).map_err(|error| error.in_file(path))
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (knob, value) = text
        .split_once('=')
        .ok_or("write KNOB=VALUE, as dirty_ratio=20; forebay-lab list names the knobs")?;
    Ok((knob.trim().into(), value.trim().into()))
}

fn place(text: &str) -> Result<PathBuf, String> {
    let folder = text
        .strip_prefix("real:")
        .filter(|folder| !folder.is_empty());
    let folder = folder.ok_or("write real:DIR, as real:/tmp")?;
    Ok(folder.into())
}

/// The stalls that a look at the end of a workload finds.
#[derive(Clone, Default)]
struct SeenStalls(Arc<Mutex<Stalls>>);

impl SeenStalls {
    /// The look that finds them.
    fn look(&self) -> Look {
        let seen = self.clone();
        Look::new(move |cache| *lock(&seen.0) = Stalls::all(cache))
    }

    /// Their trace, as JSON. Its times are those of the run.
    fn trace(&self) -> String {
        trace(&lock(&self.0)).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        run: TypedRun,
    }

    fn typed(words: &[&str]) -> Result<RunArguments, clap::Error> {
        let typed = Alone::try_parse_from([&["run"], words].concat())?;
        typed.run.checked::<Alone>()
    }

    #[test]
    fn two_policies_and_three_runs_are_six_plans_with_the_same_seeds() {
        let words = [
            "simple-wb",
            "--vs",
            "linux-3.0",
            "--seed",
            "7",
            "--runs",
            "3",
        ];
        let plans = typed(&words).unwrap().plans().unwrap();
        let seeds: Vec<(&str, u64)> = plans
            .iter()
            .map(|plan| (plan.policy.as_str(), plan.seed))
            .collect();
        assert_eq!(seeds[0], ("forebay", 7));
        assert_eq!(seeds[5], ("linux-3.0", 9));
        assert_eq!(seeds.len(), 6);
    }

    #[test]
    fn unknown_names_are_bad_calls_that_name_the_known_ones() {
        let calls: [(&[&str], &str); 4] = [
            (&["sleepy"], "simple-wb"),
            (&["simple-wb", "--machine", "pdp-11"], "amd4-512m"),
            (&["simple-wb", "--policy", "cp/m"], "linux-3.0"),
            (&["simple-wb", "--set", "colour=red"], "dirty_ratio"),
        ];
        for (words, known) in calls {
            let error = typed(words).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{words:?}");
            assert!(error.to_string().contains(known), "{error}");
        }
    }

    #[test]
    fn one_file_for_both_forms_is_a_bad_call() {
        let error = typed(&["simple-wb", "--json", "x", "--html", "x"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("two files"), "{error}");
    }

    #[test]
    fn a_trace_is_of_one_run() {
        let many: [&[&str]; 2] = [&["--vs", "linux-3.0"], &["--runs", "2"]];
        for more in many {
            let words = [&["simple-wb", "--trace", "x"], more].concat();
            let error = typed(&words).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains("one run"), "{error}");
        }
        assert!(typed(&["simple-wb", "--trace", "x"]).is_ok());
        assert!(typed(&["simple-wb", "--trace", "x", "--json", "x"]).is_err());
    }

    #[test]
    fn places_and_settings_have_one_form() {
        assert!(typed(&["simple-wb", "--on", "real:"]).is_err());
        assert!(typed(&["simple-wb", "--on", "/tmp"]).is_err());
        assert!(typed(&["simple-wb", "--set", "dirty_ratio"]).is_err());
        let arguments = typed(&["simple-wb", "--on", "real:/tmp"]).unwrap();
        assert_eq!(arguments.threads(&[]), 1);
    }

    #[test]
    fn a_machine_that_does_not_fit_into_this_computer_is_refused() {
        let plan = Plan::new("simple-wb", "amd4-4608m").unwrap();
        let reported = expect_possible(&plan, Some(32 << 20)).unwrap_err();
        assert!(reported.contains("scale=N"), "{reported}");
        assert!(expect_possible(&plan.clone().with("scale", "16"), Some(32 << 20)).is_ok());
        let real = Plan {
            platform: Platform::Real("/tmp".into()),
            ..plan
        };
        assert!(expect_possible(&real, Some(1 << 30)).is_err());
        assert!(expect_possible(&real, Some(16 << 30)).is_ok());
    }
}
