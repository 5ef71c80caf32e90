//! Whether expectations held.

use super::{Bounds, Expectation, Level, RATE_OF_EACH, Term, Window, drain};
use crate::outcome::{Distribution, ExpectationResult, Outcome};
use crate::probe::family_of;

/// Whether something held, and what was found.
type Verdict = (bool, String);

/// A time, and the values of two levels then.
type Row = (f64, f64, f64);

/// Judges `expectations` of a run that has left `outcome`.
pub(crate) fn judge(expectations: &[Expectation], outcome: &Outcome) -> Vec<ExpectationResult> {
    let one = |expectation: &Expectation| {
        let (held, found) = expectation.verdict(outcome);
        ExpectationResult {
            expected: expectation.to_string(),
            found,
            held,
        }
    };
    expectations.iter().map(one).collect()
}

impl Expectation {
    fn verdict(&self, outcome: &Outcome) -> Verdict {
        let rows = |of: &Level, against: &Level| self.window.rows(outcome, of, against);
        match &self.term {
            Term::Settles {
                of,
                near,
                within_percent,
                by_s,
                smoothed_s,
            } => settles(
                &smooth(&rows(of, near), *smoothed_s),
                *within_percent,
                *by_s,
            ),
            Term::Overshoots {
                of,
                over,
                at_most_percent,
            } => overshoots(&rows(of, over), *at_most_percent),
            Term::NeverAbove { of, limit } => never(&rows(of, limit), |value, limit| value > limit),
            Term::NeverBelow { of, limit } => never(&rows(of, limit), |value, limit| value < limit),
            Term::Mean { of, bounds } => {
                let mean = |level: &Level| mean_of(&rows(level, &Level::Number(0.0)));
                mean_within(mean, of, bounds)
            }
            Term::Shares { of, within_percent } => shares(outcome, of, *within_percent),
            Term::Figure { of, bounds } => figure(outcome, of, bounds),
            Term::Latency {
                of,
                percentile,
                bounds,
            } => latency(outcome, of, *percentile, bounds),
            Term::Drain {
                of,
                at_most_s,
                percent,
            } => {
                let column = |name: &str| Level::Columns(vec![format!("{name}@{of}")]);
                let rows = rows(&column("dirty"), &column("written"));
                drain::verdict(&rows, *at_most_s, *percent)
            }
            Term::Oldest { of, at_most_s } => self.oldest(outcome, of, *at_most_s),
            Term::Blames(blames) => blames.verdict(&outcome.waited),
        }
    }
}

impl Expectation {
    fn oldest(&self, outcome: &Outcome, of: &str, at_most_s: f64) -> Verdict {
        let column = format!("oldest@{of}");
        if outcome.series.column(&column).is_none() {
            let found = "the machine has no at_risk_ms, so nobody looked";
            return (false, found.into());
        }
        let ages = Level::Columns(vec![column]);
        let rows = self.window.rows(outcome, &ages, &Level::Number(at_most_s));
        let oldest = rows.iter().map(|row| row.1).fold(0.0, f64::max);
        if rows.is_empty() {
            return nothing();
        }
        (oldest <= at_most_s, format!("{oldest:.2} s"))
    }
}

impl Window {
    fn rows(&self, outcome: &Outcome, of: &Level, against: &Level) -> Vec<Row> {
        let series = &outcome.series;
        let value = |level: &Level, row: usize| match level {
            Level::Number(number) => *number,
            Level::Columns(names) => {
                let columns = names.iter().filter_map(|name| series.column(name));
                columns.filter_map(|column| column.values.get(row)).sum()
            }
        };
        let rows = series.at_s.iter().enumerate();
        rows.filter(|(_, at_s)| (self.from_s..=self.until_s).contains(*at_s))
            .map(|(row, at_s)| (*at_s, value(of, row), value(against, row)))
            .collect()
    }
}

impl Bounds<f64> {
    fn hold(&self, value: f64) -> bool {
        self.at_least.is_none_or(|least| value >= least)
            && self.at_most.is_none_or(|most| value <= most)
    }
}

fn nothing() -> Verdict {
    (false, "nothing was sampled in that time".into())
}

/// Means over the `span_s` before each row.
fn smooth(rows: &[Row], span_s: f64) -> Vec<Row> {
    let mut first = 0;
    let mut smoothed = Vec::with_capacity(rows.len());
    let mut sums = (0.0, 0.0);
    for (index, (at_s, value, against)) in rows.iter().enumerate() {
        sums = (sums.0 + value, sums.1 + against);
        while first < index && rows[first].0 <= at_s - span_s {
            sums = (sums.0 - rows[first].1, sums.1 - rows[first].2);
            first += 1;
        }
        let count = (index + 1 - first) as f64;
        smoothed.push((*at_s, sums.0 / count, sums.1 / count));
    }
    smoothed
}

fn settles(rows: &[Row], within_percent: f64, by_s: f64) -> Verdict {
    let deviation = |row: &Row| 100.0 * (row.1 - row.2).abs() / row.2.abs().max(1e-9);
    let Some(last) = rows.last() else {
        return nothing();
    };
    let outside = rows.iter().rposition(|row| deviation(row) > within_percent);
    let settled = match outside {
        None => Some(&rows[0]),
        Some(index) => rows.get(index + 1),
    };
    let Some(settled) = settled else {
        let found = deviation(last);
        return (false, format!("{found:.1} percent away at the end"));
    };
    let behind = rows.iter().filter(|row| row.0 >= settled.0);
    let furthest = behind.map(deviation).fold(0.0, f64::max);
    let found = format!(
        "settled at {:.1} s, then at most {furthest:.1} percent away",
        settled.0
    );
    (settled.0 <= by_s, found)
}

fn overshoots(rows: &[Row], at_most_percent: f64) -> Verdict {
    let over = |row: &Row| 100.0 * (row.1 - row.2) / row.2.abs().max(1e-9);
    let Some(worst) = rows
        .iter()
        .max_by(|one, other| over(one).total_cmp(&over(other)))
    else {
        return nothing();
    };
    let found = format!("{:.1} percent at {:.1} s", over(worst), worst.0);
    (over(worst) <= at_most_percent, found)
}

fn never(rows: &[Row], is_beyond: impl Fn(f64, f64) -> bool) -> Verdict {
    if rows.is_empty() {
        return nothing();
    }
    let beyond: Vec<&Row> = rows.iter().filter(|row| is_beyond(row.1, row.2)).collect();
    match beyond.first() {
        None => (true, format!("never in {} samples", rows.len())),
        Some((at_s, value, limit)) => {
            let times = beyond.len();
            let of = rows.len();
            let found = format!("{value:.0} against {limit:.0} at {at_s:.1} s, {times} of {of}");
            (false, found)
        }
    }
}

fn mean_of(rows: &[Row]) -> Option<f64> {
    let sum: f64 = rows.iter().map(|row| row.1).sum();
    (!rows.is_empty()).then(|| sum / rows.len() as f64)
}

fn mean_within(
    mean: impl Fn(&Level) -> Option<f64>,
    of: &Level,
    bounds: &Bounds<Level>,
) -> Verdict {
    let Some(found) = mean(of) else {
        return nothing();
    };
    let bound = |level: &Option<Level>| level.as_ref().and_then(&mean);
    let bounds = Bounds {
        at_least: bound(&bounds.at_least),
        at_most: bound(&bounds.at_most),
    };
    (bounds.hold(found), format!("{found:.0}, wanted {bounds}"))
}

fn shares(outcome: &Outcome, of: &str, within_percent: f64) -> Verdict {
    let samples = outcome.samples.get(&format!("{RATE_OF_EACH}@{of}"));
    let rates = samples.map_or(&[] as &[f64], |samples| &samples.values);
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    if mean <= 0.0 {
        return (false, "nothing was moved".into());
    }
    let away = |rate: &f64| 100.0 * (rate - mean).abs() / mean;
    let worst = rates.iter().map(away).fold(0.0, f64::max);
    let count = rates.len();
    let found = format!("at most {worst:.1} percent from the mean of {count}");
    (worst <= within_percent, found)
}

fn latency(outcome: &Outcome, of: &str, percentile: f64, bounds: &Bounds<f64>) -> Verdict {
    let recorded = outcome.distributions.get(of).filter(|it| it.count > 0);
    let found = match recorded {
        Some(distribution) => percentile_of(distribution, percentile),
        // A writer that was never paused was paused for 0 time; other latencies need calls.
        None => (of == "pause").then_some(0.0),
    };
    found.map_or_else(
        || (false, "nothing was recorded".into()),
        |found| (bounds.hold(found), format!("{found:.2} ms")),
    )
}

/// Figures that a run lacks if nothing of their kind happened: they are 0 then.
const NOTHING_IF_ABSENT: [&str; 5] = [
    "stall_events_total",
    "longest_pause_s",
    "pause_median_ms",
    "pause_mean_ms",
    "pause_max_ms",
];

fn figure(outcome: &Outcome, of: &str, bounds: &Bounds<f64>) -> Verdict {
    let nothing = NOTHING_IF_ABSENT.contains(&family_of(of)).then_some(0.0);
    if let Some(found) = outcome.figure(of).or(nothing) {
        return (bounds.hold(found), format!("{found:.4}"));
    }
    let figures = outcome.figures.keys().chain(outcome.counters.keys());
    let known: Vec<&str> = figures.map(String::as_str).collect();
    let known = known.join(", ");
    (
        false,
        format!("there is no figure '{of}'; there are: {known}"),
    )
}

fn percentile_of(distribution: &Distribution, percentile: f64) -> Option<f64> {
    if percentile >= 100.0 {
        return Some(distribution.max);
    }
    let mut percentiles = distribution.percentiles.iter();
    let found = percentiles.find(|(known, _)| (known - percentile).abs() < 1e-9);
    found.map(|(_, value)| *value)
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
