//! The output while the demo runs: two live lines for each contender on a terminal, otherwise one
//! line a second.

use super::tick::Tick;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// Heights of the columns of a trace, from zero to the longest.
const COLUMNS: [char; 9] = [
    ' ', '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}',
    '\u{2588}',
];
/// Ticks that a trace shows; together with the name they fit into 80 columns.
const TRACE_TICKS: usize = 64;
const TICKS_PER_S: usize = 10;
/// The shortest and longest write that a trace distinguishes from others, in ms.
const TRACE_MS: (f64, f64) = (1.0, 1_000.0);

/// The screen of one demo.
pub(super) struct Screen {
    bar: Option<ProgressBar>,
}

impl Screen {
    pub(super) fn new(is_plain: bool, seconds: u32) -> Screen {
        let is_live = !is_plain && std::io::stderr().is_terminal();
        let bar = is_live.then(|| {
            let target = ProgressDrawTarget::stderr();
            let ticks = u64::from(seconds) * TICKS_PER_S as u64;
            let bar = ProgressBar::with_draw_target(Some(ticks), target);
            match ProgressStyle::with_template("{prefix}\n{wide_msg}") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Screen { bar }
    }

    /// Prints a line that stays.
    pub(super) fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }

    /// Shows what `name` has done so far; the last tick is new.
    pub(super) fn show(&self, name: &str, seen: &[Tick]) {
        match &self.bar {
            Some(bar) => {
                bar.set_prefix(traced(name, seen));
                bar.set_message(figures(seen));
            }
            None if seen.len().is_multiple_of(TICKS_PER_S) => {
                eprintln!("{name:8} {}", figures(seen));
            }
            None => {}
        }
    }

    /// `name` has finished: its last lines stay.
    pub(super) fn done(&self, name: &str, seen: &[Tick]) {
        if let Some(bar) = &self.bar {
            bar.println(traced(name, seen));
            bar.println(figures(seen));
        }
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The trace of `name`, which is the first of its live lines.
fn traced(name: &str, seen: &[Tick]) -> String {
    format!("{name:8} {}", trace(seen))
}

/// The last second of a contender in one line.
fn figures(seen: &[Tick]) -> String {
    let Some(last) = seen.last() else {
        return String::new();
    };
    let second = &seen[seen.len().saturating_sub(TICKS_PER_S)..];
    let longest_ms = second
        .iter()
        .map(|tick| tick.longest_ms)
        .fold(0.0, f64::max);
    let setpoint = match last.setpoint_mib {
        Some(setpoint_mib) => format!(" of {setpoint_mib:3.0} wanted"),
        None => " ".repeat(14),
    };
    let pauses = match last.pauses {
        Some(_) => {
            let pauses: u64 = second.iter().filter_map(|tick| tick.pauses).sum();
            format!("{pauses:4} pauses")
        }
        None => " ".repeat(11),
    };
    let at_s = last.at_s;
    let level = match last.dirty_mib {
        Some(dirty_mib) => format!("dirty {dirty_mib:3.0} MiB{setpoint}"),
        None => " ".repeat(27),
    };
    format!("{at_s:5.1} s  longest write {longest_ms:6.1} ms  {level}  {pauses}")
}

/// The longest write of each of the last ticks, as columns whose height is its logarithm.
fn trace(seen: &[Tick]) -> String {
    let (least, most) = TRACE_MS;
    let column = |tick: &Tick| {
        let part = (tick.longest_ms.max(least) / least).ln() / (most / least).ln();
        COLUMNS[((part * 8.0).round() as usize).min(8)]
    };
    let first = seen.len().saturating_sub(TRACE_TICKS);
    seen[first..].iter().map(column).collect()
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(longest_ms: &[f64]) -> Vec<Tick> {
        let tick = |&longest_ms| Tick {
            longest_ms,
            pauses: Some(3),
            setpoint_mib: Some(44.0),
            dirty_mib: Some(43.0),
            ..Tick::default()
        };
        longest_ms.iter().map(tick).collect()
    }

    #[test]
    fn a_trace_is_as_high_as_its_writes_are_long() {
        let found = trace(&ticks(&[0.0, 1.0, 31.6, 1_000.0, 9_000.0]));
        assert_eq!(found, "  \u{2584}\u{2588}\u{2588}");
    }

    #[test]
    fn a_line_shows_the_last_second() {
        let seen = ticks(&[900.0, 1., 2., 3., 4., 5., 6., 7., 8., 9., 8.]);
        let line = figures(&seen);
        assert!(line.contains("longest write    9.0 ms"), "{line}");
        assert!(line.contains("dirty  43 MiB of  44 wanted"), "{line}");
        assert!(line.contains("30 pauses"), "{line}");
    }

    #[test]
    fn no_live_line_is_wider_than_a_terminal() {
        let columns = |line: &str| line.chars().count();
        let mut seen = ticks(&[9_999.0; 700]);
        for (tenth, tick) in seen.iter_mut().enumerate() {
            (tick.at_s, tick.pauses) = (tenth as f64 / 10.0 + 530.0, Some(999));
        }
        let (first, second) = (traced("forebay", &seen), figures(&seen));
        assert!(columns(&first) <= 80, "{first}");
        assert!(columns(&second) <= 80, "{second}");
    }
}
