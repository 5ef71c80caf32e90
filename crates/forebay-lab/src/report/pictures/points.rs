//! A column of a series as points, and the note about its run below a picture.

use crate::outcome::{Column, Outcome, Series};

pub(super) fn note(run: &Outcome) -> String {
    let seed = run.setting.seed;
    match run.series.at_s.as_slice() {
        [first, second, ..] if run.series.at_s.len() > 600 => format!(
            "seed {seed}; a sample each {:.3} s; line: mean, band: least to most",
            second - first
        ),
        [first, second, ..] => format!("seed {seed}; a sample each {:.3} s", second - first),
        _ => format!("seed {seed}"),
    }
}

pub(super) fn points(series: &Series, column: &Column) -> Vec<(f64, f64)> {
    let pairs = series
        .at_s
        .iter()
        .copied()
        .zip(column.values.iter().copied());
    pairs.collect()
}
