//! Expectations in the form of a scenario's text.

use super::blames::BlamesText;
use super::{Bounds, Expectation, Level, Term, Window};
use crate::probe::{STALL_CONTEXTS, STALL_REASONS, Suffix, family_of, suffix_of};
use crate::scenario::{ScenarioError, Source};
use forebay_base::PAGE_BYTES;
use forebay_base::units::parse_size;
use serde::Deserialize;

/// The names that expectations may use.
pub(crate) struct Names {
    pub(crate) columns: Vec<String>,
    /// The unit of a column.
    pub(crate) unit_of: fn(&str) -> &'static str,
    /// Figures and counters, without the part after `@` or `;`.
    pub(crate) figures: Vec<String>,
    /// Those figures that each group of processes has.
    pub(crate) figures_of_groups: &'static [&'static str],
    pub(crate) groups: Vec<String>,
    pub(crate) distributions: Vec<String>,
    /// The file systems.
    pub(crate) stores: Vec<String>,
    pub(crate) length_s: f64,
}

/// A column, a sum of columns with `+`, a number or a size.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a number, a size as \"10M\", or columns as \"dirty + writeback\""
)]
pub(crate) enum LevelText {
    Number(f64),
    Text(String),
}

/// One expectation: its term is its only key.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExpectationText {
    Settles(SettlesText),
    Overshoots(OvershootsText),
    NeverAbove(NeverText),
    NeverBelow(NeverText),
    Mean(MeanText),
    Shares(SharesText),
    Figure(FigureText),
    Latency(LatencyText),
    DrainSeconds(DrainText),
    OldestDirty(OldestText),
    Blames(BlamesText),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettlesText {
    of: String,
    near: LevelText,
    within_percent: f64,
    by_s: f64,
    smoothed_s: Option<f64>,
    from_s: Option<f64>,
    until_s: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OvershootsText {
    of: String,
    over: LevelText,
    at_most_percent: f64,
    from_s: Option<f64>,
    until_s: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NeverText {
    of: String,
    limit: LevelText,
    from_s: Option<f64>,
    until_s: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MeanText {
    of: String,
    at_least: Option<LevelText>,
    at_most: Option<LevelText>,
    from_s: Option<f64>,
    until_s: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SharesText {
    of: String,
    within_percent: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FigureText {
    of: String,
    at_least: Option<f64>,
    at_most: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LatencyText {
    of: String,
    percentile: f64,
    at_least_ms: Option<f64>,
    at_most_ms: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DrainText {
    of: String,
    at_most: f64,
    percent: Option<f64>,
    from_s: Option<f64>,
    until_s: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OldestText {
    of: String,
    at_most: f64,
    from_s: Option<f64>,
    until_s: Option<f64>,
}

/// Over how long a level is averaged before the check whether it has settled.
const SMOOTHED_S: f64 = 5.0;

type Checked<T> = Result<T, ScenarioError>;

/// One expectation of a text, and the names that it may use.
struct Checker<'a> {
    start: usize,
    source: &'a Source<'a>,
    names: &'a Names,
}

impl ExpectationText {
    /// The expectation of this text, which starts at byte `start` of `source`.
    pub(crate) fn check(
        &self,
        start: usize,
        source: &Source<'_>,
        names: &Names,
    ) -> Checked<Expectation> {
        let checker = Checker {
            start,
            source,
            names,
        };
        let (from_s, until_s) = self.window();
        Ok(Expectation {
            term: checker.term(self)?,
            window: checker.window(from_s, until_s)?,
        })
    }

    fn window(&self) -> (Option<f64>, Option<f64>) {
        match self {
            ExpectationText::Settles(it) => (it.from_s, it.until_s),
            ExpectationText::Overshoots(it) => (it.from_s, it.until_s),
            ExpectationText::NeverAbove(it) | ExpectationText::NeverBelow(it) => {
                (it.from_s, it.until_s)
            }
            ExpectationText::Mean(it) => (it.from_s, it.until_s),
            ExpectationText::DrainSeconds(it) => (it.from_s, it.until_s),
            ExpectationText::OldestDirty(it) => (it.from_s, it.until_s),
            _ => (None, None),
        }
    }
}

impl Checker<'_> {
    fn wrong(&self, problem: impl Into<String>) -> ScenarioError {
        self.source.wrong(self.start, problem)
    }

    fn term(&self, text: &ExpectationText) -> Checked<Term> {
        Ok(match text {
            ExpectationText::Settles(it) => self.settles(it)?,
            ExpectationText::Overshoots(it) => {
                let of = self.columns(&it.of)?;
                Term::Overshoots {
                    over: self.level(&it.over, &of)?,
                    of,
                    at_most_percent: self.percent("at_most_percent", it.at_most_percent)?,
                }
            }
            ExpectationText::NeverAbove(it) => {
                let (of, limit) = self.never(it)?;
                Term::NeverAbove { of, limit }
            }
            ExpectationText::NeverBelow(it) => {
                let (of, limit) = self.never(it)?;
                Term::NeverBelow { of, limit }
            }
            ExpectationText::Mean(it) => self.mean(it)?,
            ExpectationText::Shares(it) => Term::Shares {
                of: self.name("process", &it.of, &self.names.groups)?,
                within_percent: self.percent("within_percent", it.within_percent)?,
            },
            ExpectationText::Figure(it) => Term::Figure {
                of: self.figure(&it.of)?,
                bounds: self.finite(it.at_least, it.at_most)?,
            },
            ExpectationText::Latency(it) => self.latency(it)?,
            ExpectationText::DrainSeconds(it) => Term::Drain {
                of: self.name("file system", &it.of, &self.names.stores)?,
                at_most_s: self.number(it.at_most)?,
                percent: self.percent("percent", it.percent.unwrap_or(100.0))?,
            },
            ExpectationText::OldestDirty(it) => Term::Oldest {
                of: self.name("file system", &it.of, &self.names.stores)?,
                at_most_s: self.number(it.at_most)?,
            },
            ExpectationText::Blames(it) => {
                let (processes, stores) = (&self.names.groups, &self.names.stores);
                let check = |what: &str, name: &str, known: &[String]| self.name(what, name, known);
                Term::Blames(it.check(processes, stores, check)?)
            }
        })
    }

    fn never(&self, text: &NeverText) -> Checked<(Level, Level)> {
        let of = self.columns(&text.of)?;
        let limit = self.level(&text.limit, &of)?;
        Ok((of, limit))
    }

    fn mean(&self, text: &MeanText) -> Checked<Term> {
        let of = self.columns(&text.of)?;
        let level = |text: &Option<LevelText>| {
            let level = text.as_ref().map(|text| self.level(text, &of));
            level.transpose()
        };
        let (least, most) = (level(&text.at_least)?, level(&text.at_most)?);
        let bounds = self.bounds(least, most, |level| match level {
            Level::Number(number) => Some(*number),
            Level::Columns(_) => None,
        })?;
        Ok(Term::Mean { of, bounds })
    }

    fn settles(&self, text: &SettlesText) -> Checked<Term> {
        let smoothed_s = text.smoothed_s.unwrap_or(SMOOTHED_S);
        if !(0.0..=self.names.length_s).contains(&text.by_s) {
            return Err(self.wrong("by_s lies within the scenario's length"));
        }
        if !(0.0..=self.names.length_s).contains(&smoothed_s) {
            return Err(self.wrong("smoothed_s is 0 to the scenario's length"));
        }
        let of = self.columns(&text.of)?;
        Ok(Term::Settles {
            near: self.level(&text.near, &of)?,
            of,
            within_percent: self.percent("within_percent", text.within_percent)?,
            by_s: text.by_s,
            smoothed_s,
        })
    }

    fn latency(&self, text: &LatencyText) -> Checked<Term> {
        const PERCENTILES: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 100.0];
        let percentile = text.percentile;
        if !PERCENTILES.iter().any(|it| (it - percentile).abs() < 1e-9) {
            return Err(self.wrong(format!(
                "percentile is {percentile}; 50, 90, 95, 99, 99.9 and 100 are allowed"
            )));
        }
        Ok(Term::Latency {
            of: self.name("distribution", &text.of, &self.names.distributions)?,
            percentile,
            bounds: self.finite(text.at_least_ms, text.at_most_ms)?,
        })
    }

    fn window(&self, from_s: Option<f64>, until_s: Option<f64>) -> Checked<Window> {
        let (from_s, until_s) = (
            from_s.unwrap_or(0.0),
            until_s.unwrap_or(self.names.length_s),
        );
        if 0.0 <= from_s && from_s < until_s && until_s <= self.names.length_s {
            return Ok(Window { from_s, until_s });
        }
        Err(self.wrong(format!(
            "from_s is {from_s} and until_s is {until_s}; 0 to {} are allowed, in this order",
            self.names.length_s
        )))
    }

    fn percent(&self, what: &str, value: f64) -> Checked<f64> {
        if (0.0..=1_000.0).contains(&value) {
            return Ok(value);
        }
        Err(self.wrong(format!("{what} is {value}; 0 to 1000 are allowed")))
    }

    /// Bounds; `number` gives the value of a bound if that is known before the run.
    fn bounds<T>(
        &self,
        at_least: Option<T>,
        at_most: Option<T>,
        number: fn(&T) -> Option<f64>,
    ) -> Checked<Bounds<T>> {
        if at_least.is_none() && at_most.is_none() {
            return Err(self.wrong("one of at_least and at_most is given, or both"));
        }
        let least = at_least.as_ref().and_then(number);
        let most = at_most.as_ref().and_then(number);
        if let (Some(least), Some(most)) = (least, most)
            && least > most
        {
            return Err(self.wrong(format!(
                "at_least comes to {least} and at_most to {most}; nothing lies between; at_least \
                 up to at_most is allowed"
            )));
        }
        Ok(Bounds { at_least, at_most })
    }

    /// Bounds that are numbers.
    fn finite(&self, at_least: Option<f64>, at_most: Option<f64>) -> Checked<Bounds<f64>> {
        for bound in [at_least, at_most].into_iter().flatten() {
            self.number(bound)?;
        }
        self.bounds(at_least, at_most, |bound| Some(*bound))
    }

    /// A number that something can be compared with.
    fn number(&self, number: f64) -> Checked<f64> {
        if number.is_finite() {
            return Ok(number);
        }
        let problem = format!("{number} bounds nothing; a finite number is allowed");
        Err(self.wrong(problem))
    }

    /// A figure or a counter. Only the end of a run shows whether it has one, but its possible
    /// names are known before.
    fn figure(&self, name: &str) -> Checked<String> {
        let family = family_of(name);
        let known = &self.names.figures;
        if !known.iter().any(|it| it == family) {
            return Err(self.source.unknown(self.start, "figure", name, known));
        }
        if self.names.figures_of_groups.contains(&family) {
            let group = name.split_once('@').map_or("", |(_, group)| group);
            self.name("process", group, &self.names.groups)?;
            return Ok(name.into());
        }
        let suffixes = match suffix_of(family) {
            Suffix::Nothing => vec![String::new()],
            Suffix::Device => [vec![String::new()], self.places("device_rate")].concat(),
            Suffix::Store => self.places("write_bandwidth"),
            Suffix::Zone => self.places("free"),
            Suffix::Stall => stalls(),
            // Only the simulation knows which tasks there are.
            Suffix::Task => return Ok(name.into()),
        };
        let known = suffixes.iter().map(|suffix| format!("{family}{suffix}"));
        self.name("figure", name, &known.collect::<Vec<String>>())
    }

    /// Everything for which the machine has a column of that kind, with the `@` before it.
    fn places(&self, column: &str) -> Vec<String> {
        let columns = self.names.columns.iter();
        let places = columns.filter_map(|name| name.strip_prefix(column));
        let places = places.filter(|place| place.starts_with('@'));
        places.map(Into::into).collect()
    }

    fn name(&self, what: &str, name: &str, known: &[String]) -> Checked<String> {
        if known.iter().any(|it| it == name) {
            return Ok(name.into());
        }
        Err(self.source.unknown(self.start, what, name, known))
    }

    fn columns(&self, text: &str) -> Checked<Level> {
        let columns = text.split('+').map(str::trim);
        let columns = columns.map(|name| self.name("column", name, &self.names.columns));
        Ok(Level::Columns(columns.collect::<Checked<_>>()?))
    }

    /// The units of what `level` adds up.
    fn units(&self, level: &Level) -> Vec<&'static str> {
        let columns = match level {
            Level::Columns(columns) => columns.as_slice(),
            Level::Number(_) => &[],
        };
        let mut units: Vec<&str> = columns.iter().map(|it| (self.names.unit_of)(it)).collect();
        units.sort_unstable();
        units.dedup();
        units
    }

    /// Columns that `of` is compared with.
    fn other_columns(&self, text: &str, of: &Level) -> Checked<Level> {
        let other = self.columns(text)?;
        let (units, other_units) = (self.units(of), self.units(&other));
        if units.len() == 1 && units == other_units {
            return Ok(other);
        }
        Err(self.wrong(format!(
            "{of} is in {} and {other} in {}; columns of one unit are allowed",
            units.join(" and "),
            other_units.join(" and ")
        )))
    }

    /// What `of` is compared with.
    fn level(&self, text: &LevelText, of: &Level) -> Checked<Level> {
        match text {
            LevelText::Number(number) => self.number(*number).map(Level::Number),
            LevelText::Text(text) if text.starts_with(|first: char| first.is_ascii_digit()) => {
                match text.trim().parse::<u64>() {
                    Ok(number) => Ok(Level::Number(number as f64)),
                    Err(_) => self.size(text, of),
                }
            }
            LevelText::Text(text) => self.other_columns(text, of),
        }
    }

    /// A size in the unit of `of`: most columns are pages.
    fn size(&self, text: &str, of: &Level) -> Checked<Level> {
        let bytes = parse_size(text).map_err(|problem| self.wrong(problem))? as f64;
        let units = self.units(of);
        match units.as_slice() {
            ["pages" | "pages/s"] => Ok(Level::Number(bytes / PAGE_BYTES as f64)),
            ["bytes/s"] => Ok(Level::Number(bytes)),
            _ => Err(self.wrong(format!(
                "{of} is in {}; a number is allowed, not the size {text}",
                units.join(" and ")
            ))),
        }
    }
}

/// What may follow a figure of waits in reclaim.
fn stalls() -> Vec<String> {
    let of = |context: &str| STALL_REASONS.map(|reason| format!("{context};{reason}"));
    let contexts = STALL_CONTEXTS.iter().map(|context| format!(";{context}"));
    let contexts = contexts.chain(std::iter::once(String::new()));
    contexts.flat_map(|context| of(&context)).collect()
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
