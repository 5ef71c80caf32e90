//! Does a test hold?
//!
//! The targets were set under these rules. The mean over the seeds must lie between
//! the bounds. If the bounds allow only one direction, at least 80% of the single seeds must go
//! that way too. A cell whose baseline does not show the problem is not tested, and a test without
//! a tested cell is not tested. Where fewer cells were run than the table has, the same share of
//! them is needed, rounded up, and the judgement says so.

use super::evidence::Evidence;
use super::plan::{cells, selects};
use super::question::{Question, Reduce, question};
use super::target::{CellsNeeded, Form, Target, targets};
use crate::report::statistics::{Spread, mean};
use serde::{Deserialize, Serialize};

/// Whether a test holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It holds.
    Holds,
    /// It does not.
    Fails,
    /// No run could decide it, or the baseline does not show the problem.
    NotTested,
}

impl Verdict {
    /// The word in tables.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Fails => "does not",
            Verdict::NotTested => "not tested",
        }
    }
}

/// A test with what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The test.
    pub target: Target,
    /// Whether it holds.
    pub verdict: Verdict,
    /// What was found: one value for each cell, or a single value.
    pub found: Vec<Found>,
    /// Why it was not tested, or a note about the verdict; empty if there is none.
    pub remark: String,
}

/// The value of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The cell, and the figure where a test has several.
    pub place: String,
    /// What is compared with the bounds, from the means over the seeds.
    pub value: f64,
    /// The same in each seed.
    pub by_seed: Vec<f64>,
    /// Whether it counts as inside of the bounds.
    pub inside: bool,
}

/// The judgement of every test.
pub fn judge_all(evidence: &Evidence) -> Vec<Judgement> {
    targets()
        .into_iter()
        .map(|target| judge(target, evidence))
        .collect()
}

/// The judgement of one test.
pub fn judge(target: Target, evidence: &Evidence) -> Judgement {
    let question = question(&target.test).expect("every test has a question: a test says so");
    let gathered = gather(&target, question, evidence);
    let found = gathered.found;
    let (verdict, remark) = if found.is_empty() {
        (Verdict::NotTested, gathered.why_nothing)
    } else {
        decide(&target, question, &found)
    };
    Judgement {
        target,
        verdict,
        found,
        remark,
    }
}

struct Gathered {
    found: Vec<Found>,
    why_nothing: String,
}

/// Whether enough of what was found is inside.
fn decide(target: &Target, question: &Question, found: &[Found]) -> (Verdict, String) {
    let inside = found.iter().filter(|found| found.inside).count() as u32;
    let judged = found.len() as u32;
    let (needed, all) = match (target.cells_needed, question.reduce) {
        (CellsNeeded::Of(needed, all), _) => ((judged * needed).div_ceil(all), all),
        (_, Reduce::Each) => (judged, asked_cells(question)),
        _ => (judged, judged),
    };
    let remark = if judged < all {
        format!("{judged} of {all} cells judged, {needed} needed")
    } else {
        String::new()
    };
    let verdict = if inside >= needed {
        Verdict::Holds
    } else {
        Verdict::Fails
    };
    (verdict, remark)
}

/// How many values a test would have if every cell were run.
fn asked_cells(question: &Question) -> u32 {
    let cells = cells();
    let chosen = cells
        .iter()
        .filter(|cell| selects(question.cells, &cell.name));
    (chosen.count() * question.metrics.len()) as u32
}

/// One figure of one cell before and after.
struct Pair<'a> {
    cell: String,
    metric: &'a str,
}

fn gather(target: &Target, question: &Question, evidence: &Evidence) -> Gathered {
    let chosen = |selector: &str| -> Vec<String> {
        let names = cells().into_iter().map(|cell| cell.name);
        names.filter(|name| selects(selector, name)).collect()
    };
    let names = chosen(question.cells);
    let run: Vec<String> = names
        .into_iter()
        .filter(|cell| !evidence.runs(cell, question.new).is_empty())
        .collect();
    if run.is_empty() {
        return nothing("not run".into());
    }
    let tested: Vec<String> = run
        .into_iter()
        .filter(|cell| shows_problem(question, cell, evidence))
        .collect();
    if tested.is_empty() {
        let problem = question.problem.map_or("", |problem| problem.metric);
        return nothing(format!(
            "the {problem} of the baseline does not show the problem"
        ));
    }
    let asked = Asked {
        target,
        question,
        evidence,
    };
    let found = match question.reduce {
        Reduce::Each => asked.each(&tested),
        Reduce::CellsFaster => asked.faster(&tested),
        Reduce::WorstCell => asked.worst(&tested),
        Reduce::Sum => asked.sum(&tested),
        Reduce::GainOver(other) => asked.gain_over(&tested, &chosen(other)),
        Reduce::Over(other) => asked.over(&tested, other),
        Reduce::WorstBefore => asked.worst_before(&tested),
        Reduce::Spread => asked.spread(&tested),
    };
    Gathered {
        why_nothing: why_nothing(question),
        found,
    }
}

/// Why runs that show the problem give a test no value.
fn why_nothing(question: &Question) -> String {
    let metric = question.metrics[0];
    match question.reduce {
        Reduce::WorstBefore => {
            let family = metric.split('@').next().unwrap_or(metric);
            format!("the largest {family} before is less than three times the middle one")
        }
        Reduce::Spread => format!("one run has no spread of {metric}"),
        Reduce::GainOver(other) => format!("no run of {other} measured {metric}"),
        _ => format!("no run measured {}", question.metrics.join(", ")),
    }
}

fn nothing(why_nothing: String) -> Gathered {
    Gathered {
        found: Vec::new(),
        why_nothing,
    }
}

fn shows_problem(question: &Question, cell: &str, evidence: &Evidence) -> bool {
    question.problem.is_none_or(|problem| {
        let found = evidence.mean(cell, problem.position, problem.metric);
        found.is_some_and(|value| value >= problem.least)
    })
}

struct Asked<'a> {
    target: &'a Target,
    question: &'a Question,
    evidence: &'a Evidence,
}

impl Asked<'_> {
    fn each(&self, cells: &[String]) -> Vec<Found> {
        let pairs = cells.iter().flat_map(|cell| {
            let pair = |metric: &&'static str| Pair {
                cell: cell.clone(),
                metric,
            };
            self.question.metrics.iter().map(pair)
        });
        pairs.filter_map(|pair| self.found(&pair)).collect()
    }

    /// The value of a cell's figure; none if a run that it needs did not measure it.
    fn found(&self, pair: &Pair<'_>) -> Option<Found> {
        let old = self
            .evidence
            .values(&pair.cell, self.question.old, pair.metric);
        let new = self
            .evidence
            .values(&pair.cell, self.question.new, pair.metric);
        let mean_of = |values: &std::collections::BTreeMap<u64, f64>| {
            let values: Vec<f64> = values.values().copied().collect();
            mean(&values)
        };
        let form = self.target.form;
        let value = compared(form, mean_of(&old), mean_of(&new))?;
        let seeds: Vec<u64> = match form {
            Form::Baseline => old.keys().copied().collect(),
            _ => new.keys().copied().collect(),
        };
        let by_seed: Vec<f64> = seeds
            .iter()
            .filter_map(|seed| compared(form, old.get(seed).copied(), new.get(seed).copied()))
            .collect();
        let place = if self.question.metrics.len() > 1 {
            format!("{} {}", pair.cell, pair.metric)
        } else {
            pair.cell.clone()
        };
        Some(self.weighed(place, value, by_seed))
    }

    /// `value` with whether it is inside.
    fn weighed(&self, place: String, value: f64, by_seed: Vec<f64>) -> Found {
        let accepted = match self.target.cells_needed {
            CellsNeeded::EveryRun => by_seed.iter().all(|one| self.target.accepts(*one)),
            _ => self.target.accepts(value),
        };
        let way = Way::of(self.target);
        let agreeing = by_seed.iter().filter(|one| way.agrees(**one)).count();
        Found {
            inside: accepted && agreeing as f64 >= 0.8 * by_seed.len() as f64,
            place,
            value,
            by_seed,
        }
    }

    fn ratios(&self, cells: &[String]) -> Vec<Found> {
        let target = Target {
            form: Form::Ratio,
            low: None,
            high: None,
            ..self.target.clone()
        };
        let asked = Asked {
            target: &target,
            ..*self
        };
        asked.each(cells)
    }

    fn faster(&self, cells: &[String]) -> Vec<Found> {
        let ratios = self.ratios(cells);
        let (all, judged) = (12.0, ratios.len() as f64);
        let count = ratios.iter().filter(|found| found.value < 1.0).count();
        // With fewer cells than the table has, the same share is required.
        let scaled = Target {
            low: self.target.low.map(|low| (low * judged / all).ceil()),
            high: self.target.high.map(|high| (high * judged / all).ceil()),
            ..self.target.clone()
        };
        let asked = Asked {
            target: &scaled,
            ..*self
        };
        let place = format!("{count} of {judged} cells");
        let found = asked.weighed(place, count as f64, Vec::new());
        if ratios.is_empty() {
            Vec::new()
        } else {
            vec![found]
        }
    }

    fn worst(&self, cells: &[String]) -> Vec<Found> {
        let ratios = self.ratios(cells).into_iter();
        let worst = ratios.max_by(|a, b| a.value.total_cmp(&b.value));
        worst
            .map(|found| self.weighed(found.place, found.value, found.by_seed))
            .into_iter()
            .collect()
    }

    fn sum(&self, cells: &[String]) -> Vec<Found> {
        let metric = self.question.metrics[0];
        let total = |position| {
            let means = cells
                .iter()
                .map(|cell| self.evidence.mean(cell, position, metric));
            means
                .collect::<Option<Vec<f64>>>()
                .map(|all| all.iter().sum())
        };
        let value = compared(
            self.target.form,
            total(self.question.old),
            total(self.question.new),
        );
        let place = format!("sum of {} cells", cells.len());
        value
            .map(|value| self.weighed(place, value, Vec::new()))
            .into_iter()
            .collect()
    }

    fn gain_over(&self, cells: &[String], others: &[String]) -> Vec<Found> {
        let gain = |cells: &[String]| {
            let gains: Vec<f64> = self
                .ratios(cells)
                .iter()
                .map(|found| found.value - 1.0)
                .collect();
            mean(&gains)
        };
        let (Some(gain_here), Some(gain_there)) = (gain(cells), gain(others)) else {
            return Vec::new();
        };
        let place = format!(
            "gain {:.1}% over {:.1}%",
            100.0 * gain_here,
            100.0 * gain_there
        );
        vec![self.weighed(place, gain_here / gain_there, Vec::new())]
    }

    fn over(&self, cells: &[String], other: &str) -> Vec<Found> {
        let metric = self.question.metrics[0];
        let here = self.evidence.mean(&cells[0], self.question.new, metric);
        let there = self.evidence.mean(other, self.question.new, metric);
        let value = compared(Form::Ratio, there, here);
        let place = format!("{} over {other}", cells[0]);
        value
            .map(|value| self.weighed(place, value, Vec::new()))
            .into_iter()
            .collect()
    }

    /// The figure with the largest value before, if that stands out: three times the middle one.
    fn worst_before(&self, cells: &[String]) -> Vec<Found> {
        let before = |metric: &&'static str| {
            let value = self.evidence.mean(&cells[0], self.question.old, metric)?;
            Some((*metric, value))
        };
        let mut all: Vec<(&str, f64)> = self.question.metrics.iter().filter_map(before).collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1));
        let Some((metric, largest)) = all.last().copied() else {
            return Vec::new();
        };
        if all.len() > 2 && largest < 3.0 * all[all.len() / 2].1 {
            return Vec::new();
        }
        let cell = cells[0].clone();
        self.found(&Pair { cell, metric }).into_iter().collect()
    }

    fn spread(&self, cells: &[String]) -> Vec<Found> {
        let metric = self.question.metrics[0];
        let relative = |position| {
            let values = self.evidence.values(&cells[0], position, metric);
            let values: Vec<f64> = values.into_values().collect();
            let spread = Spread::of(&values).filter(|spread| spread.runs > 1)?;
            Some(spread.stddev / spread.mean)
        };
        let value = compared(
            Form::Ratio,
            relative(self.question.old),
            relative(self.question.new),
        );
        let place = cells[0].clone();
        value
            .map(|value| self.weighed(place, value, Vec::new()))
            .into_iter()
            .collect()
    }
}

/// What a form compares; none if a value that it needs is missing, or the ratio is to 0.
fn compared(form: Form, old: Option<f64>, new: Option<f64>) -> Option<f64> {
    match form {
        Form::Patched => new,
        Form::Baseline => old,
        Form::Diff => Some(new? - old?),
        Form::Ratio | Form::Count | Form::Derived => {
            let old = old.filter(|old| *old != 0.0)?;
            Some(new? / old)
        }
    }
}

/// The single direction that the bounds of a change allow, if they allow only one.
#[derive(Clone, Copy)]
enum Way {
    Up(f64),
    Down(f64),
    Either,
}

impl Way {
    fn of(target: &Target) -> Way {
        let unchanged = match target.form {
            Form::Ratio => 1.0,
            Form::Diff => 0.0,
            _ => return Way::Either,
        };
        match (target.low, target.high) {
            (_, Some(high)) if high <= unchanged => Way::Down(unchanged),
            (Some(low), _) if low >= unchanged => Way::Up(unchanged),
            _ => Way::Either,
        }
    }

    fn agrees(self, value: f64) -> bool {
        match self {
            Way::Up(unchanged) => value >= unchanged,
            Way::Down(unchanged) => value <= unchanged,
            Way::Either => true,
        }
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "small whole numbers are exact")]
#[path = "judge_tests.rs"]
mod tests;
