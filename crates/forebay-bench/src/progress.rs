//! Progress of the bench, on standard error: a live line on a terminal, otherwise plain lines.

use crate::contender::{Sample, Step, Who};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// The progress of one bench.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// The progress of a bench with `runs` runs of a step by a contender.
    pub(crate) fn new(runs: u64) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("[{elapsed}] {bar:24} {pos}/{len} {wide_msg}");
            match style {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Progress { bar }
    }

    /// Shows a part of the bench that is not counted in the runs.
    pub(crate) fn begin(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None => eprintln!("{what}"),
        }
    }

    /// `who` is about to run `step` for round `round`.
    pub(crate) fn step(&self, step: &Step, round: u32, who: Who) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{} {}", title(step, round), who.name()));
        }
    }

    /// `who` has run `step`.
    pub(crate) fn done(&self, step: &Step, round: u32, who: Who, samples: &[Sample]) {
        let Some(first) = samples.first() else {
            self.skip(1);
            return;
        };
        let text = format!(
            "{} {}: {} {:.1} {}",
            title(step, round),
            who.name(),
            first.metric,
            first.value,
            first.unit
        );
        match &self.bar {
            Some(bar) => {
                bar.inc(1);
                bar.set_message(text);
            }
            None => eprintln!("{text}"),
        }
    }

    /// `runs` runs are left out: there was nothing to do in them, or no time for them.
    pub(crate) fn skip(&self, runs: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(runs);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn title(step: &Step, round: u32) -> String {
    format!("{}: {}, round {round},", step.phase.name(), step.describe())
}
