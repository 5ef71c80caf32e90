//! The output while the demo runs: a live line for each contender on a terminal, otherwise a line
//! per second.

use super::contender::Contender;
use super::load::READS_PER_S;
use super::tick::Tick;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// Heights of the columns of a trace, from zero to the most.
const COLUMNS: [char; 9] = [
    ' ', '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}',
    '\u{2588}',
];
/// Columns of a trace, for the whole run; both traces and their figures fit into 80 columns.
const TRACE_COLUMNS: usize = 20;
const TICKS_PER_S: usize = 10;
/// The shortest and longest write that a trace distinguishes from others, in ms.
const TRACE_MS: (f64, f64) = (1.0, 1_000.0);

/// The screen of one demo.
pub(super) struct Screen {
    bar: Option<ProgressBar>,
    ticks: usize,
}

impl Screen {
    pub(super) fn new(is_plain: bool, seconds: u32) -> Screen {
        let is_live = !is_plain && std::io::stderr().is_terminal();
        let bar = is_live.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            match ProgressStyle::with_template("{msg}") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Screen {
            bar,
            ticks: seconds as usize * TICKS_PER_S,
        }
    }

    /// Prints a line that stays.
    pub(super) fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }

    /// The line above those that follow.
    pub(super) fn head(&self, contenders: &[Contender]) {
        if self.bar.is_some() {
            self.say(&format!(
                "{:15}  {:27}   longest write",
                "", "reads per second"
            ));
        } else {
            let names = contenders.iter().map(|c| format!("{:>19}", c.kind.name()));
            self.say(&format!("    time{}", names.collect::<String>()));
        }
    }

    /// Shows what the contenders have done so far; the last tick of each is new.
    pub(super) fn show(&self, contenders: &[Contender]) {
        let Some(first) = contenders.first() else {
            return;
        };
        if let Some(bar) = &self.bar {
            let line = |c: &Contender| live(c.kind.name(), &c.ticks, self.ticks);
            bar.set_message(contenders.iter().map(line).collect::<Vec<_>>().join("\n"));
        } else if first.ticks.len().is_multiple_of(TICKS_PER_S) {
            let figures = contenders.iter().map(|c| figures(&c.ticks));
            let at_s = first.ticks.len() / TICKS_PER_S;
            eprintln!("{at_s:6} s{}", figures.collect::<String>());
        }
    }

    /// The live lines stay as they are.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.println(bar.message());
            bar.finish_and_clear();
        }
    }
}

/// The last second: the reader's rate, and the longest write.
fn last_second(seen: &[Tick]) -> (f64, f64) {
    let second = &seen[seen.len().saturating_sub(TICKS_PER_S)..];
    let reads: f64 = second.iter().map(|tick| tick.reads_per_s).sum();
    let longest = second.iter().filter_map(|tick| tick.longest_ms);
    (
        reads / second.len().max(1) as f64,
        longest.fold(0.0, f64::max),
    )
}

fn figures(seen: &[Tick]) -> String {
    let (reads_per_s, longest_ms) = last_second(seen);
    format!("{reads_per_s:7.0}/s {longest_ms:6.1} ms")
}

/// One contender as a line: the rate of its reader, and its longest writes.
fn live(name: &str, seen: &[Tick], ticks: usize) -> String {
    let (reads_per_s, longest_ms) = last_second(seen);
    let rates = trace(seen, ticks, |seen| last_second(seen).0 / READS_PER_S as f64);
    let (least, most) = TRACE_MS;
    let writes = trace(seen, ticks, |seen| {
        (last_second(seen).1.max(least) / least).ln() / (most / least).ln()
    });
    format!("{name:15}  {rates} {reads_per_s:6.0}   {writes} {longest_ms:7.1} ms")
}

/// A column for each part of the run, as high as `height` of its ticks, which is 0 to 1.
fn trace(seen: &[Tick], ticks: usize, height: impl Fn(&[Tick]) -> f64) -> String {
    let column = |number: usize| {
        let (from, to) = (
            number * ticks / TRACE_COLUMNS,
            (number + 1) * ticks / TRACE_COLUMNS,
        );
        let part = &seen[from.min(seen.len())..to.min(seen.len())];
        COLUMNS[((height(part) * 8.0).round() as usize).min(8)]
    };
    (0..TRACE_COLUMNS).map(column).collect()
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(longest_ms: &[f64]) -> Vec<Tick> {
        let tick = |&longest_ms| Tick {
            reads_per_s: 5_000.0,
            longest_ms: Some(longest_ms),
            ..Tick::default()
        };
        longest_ms.iter().map(tick).collect()
    }

    #[test]
    fn a_trace_is_as_high_as_its_ticks() {
        let seen = ticks(&[0.0, 1.0, 31.6, 1_000.0, 9_000.0]);
        let line = live("Forebay", &seen, 20);
        assert!(
            line.contains("\u{2588}\u{2588}\u{2588}\u{2588}\u{2588}     "),
            "{line}"
        );
        assert!(line.contains("  \u{2584}\u{2588}\u{2588} "), "{line}");
    }

    #[test]
    fn a_line_shows_the_last_second() {
        let seen = ticks(&[900.0, 1., 2., 3., 4., 5., 6., 7., 8., 9., 8.]);
        assert_eq!(figures(&seen), "   5000/s    9.0 ms");
    }

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        let seen = ticks(&[99_999.0; 700]);
        let line = live("stops at limit", &seen, 700);
        assert!(line.chars().count() <= 80, "{line}");
    }
}
