//! Progress of the bench, on standard error: a live line on a terminal, otherwise plain lines.

use crate::contender::Sample;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// The progress of one bench.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// The progress of a bench with `runs` runs of a load by a contender.
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

    /// The run called `title` begins.
    pub(crate) fn step(&self, title: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(title.to_owned());
        }
    }

    /// The run called `title` is done.
    pub(crate) fn done(&self, title: &str, samples: &[Sample]) {
        self.skip(1);
        if let Some(first) = samples.first() {
            let (metric, value, unit) = (&first.metric, first.value, &first.unit);
            self.begin(&format!("{title}: {metric} {value:.1} {unit}"));
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
