//! Progress of a batch of runs, on standard error: a bar on a terminal, otherwise one line for each
//! run.

use forebay_lab::outcome::Outcome;
use forebay_lab::run::{Plan, Progress, RunError, run_all};
use forebay_rt::say;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// Runs all `plans`, one for each processor at a time, and shows the progress. `titles` are the
/// names of the runs.
pub(crate) fn run_with_progress(
    plans: Vec<Plan>,
    titles: Vec<String>,
    threads: usize,
) -> Vec<Result<Outcome, RunError>> {
    let bar = bar(plans.len() as u64);
    let shown = bar.clone();
    let outcomes = run_all(plans, threads, move |progress: Progress| {
        let title = titles.get(progress.index).map_or("", String::as_str);
        match &shown {
            Some(bar) => {
                bar.set_position(progress.ended as u64);
                bar.set_message(title.to_owned());
            }
            None => say(format_args!(
                "{}/{} {title}, {:.1} s",
                progress.ended, progress.all, progress.real_s
            )),
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    outcomes
}

/// How many runs there are at a time.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn bar(runs: u64) -> Option<ProgressBar> {
    std::io::stderr().is_terminal().then(|| {
        let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::stderr());
        match ProgressStyle::with_template("[{elapsed}] {bar:24} {pos}/{len} {wide_msg}") {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    })
}
