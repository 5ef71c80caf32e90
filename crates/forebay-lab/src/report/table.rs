//! The tables in the terminal, in the form that mmtests prints, so that a report can be put beside
//! the published ones.

use super::comparison::{Block, Comparison, MergedCell, Row, StallList};
use std::fmt::Write;

/// The whole comparison as text.
pub fn render(comparison: &Comparison) -> String {
    let mut text = heading(comparison);
    for block in &comparison.blocks {
        text.push('\n');
        text.push_str(&render_block(block, comparison));
    }
    for list in &comparison.stalls {
        text.push('\n');
        text.push_str(&render_stalls(list));
    }
    text
}

/// Rows of texts as columns: the first `left` columns to the left, the others to the right.
pub fn grid(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let texts = rows.iter().filter_map(|row| row.get(column));
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let gap = if column == 0 { "" } else { "  " };
            let padded = if column < left {
                format!("{gap}{cell:<width$}")
            } else {
                format!("{gap}{cell:>width$}")
            };
            line.push_str(&padded);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A number for people: an integer if it is whole or large, otherwise with two decimals, or with
/// three digits if it is small.
///
/// ```
/// use forebay_lab::report::table::number;
/// assert_eq!(number(1_985_928_832.0), "1985928832");
/// assert_eq!(number(30.4535), "30.45");
/// assert_eq!(number(0.001_234), "0.00123");
/// assert_eq!(number(0.0), "0");
/// ```
pub fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        "-".into()
    } else if value.fract().abs() < f64::EPSILON || size >= 100_000.0 {
        format!("{value:.0}")
    } else if size >= 0.1 {
        format!("{value:.2}")
    } else {
        let digits = (2.0 - size.log10().floor()).clamp(2.0, 12.0) as usize;
        format!("{value:.digits$}")
    }
}

fn heading(comparison: &Comparison) -> String {
    let mut text = format!("{} on {}\n", comparison.workload, comparison.machine);
    for column in &comparison.columns {
        let seeds: Vec<String> = column.seeds.iter().map(ToString::to_string).collect();
        let plural = if seeds.len() == 1 { "seed" } else { "seeds" };
        let hashes: Vec<String> = column
            .trace_hashes
            .iter()
            .map(|hash| format!("{hash:016x}"))
            .collect();
        let trace = if hashes.is_empty() {
            "no trace in real time".to_owned()
        } else {
            format!("trace {}", hashes.join(" "))
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "  {}: {plural} {}, {trace}",
            column.label,
            seeds.join(" ")
        );
    }
    let runs = comparison
        .columns
        .iter()
        .map(|column| column.seeds.len())
        .max();
    if runs.unwrap_or(0) > 1 {
        text.push_str("  each value is the mean over the runs +- the deviation between them\n");
    }
    if comparison.columns.len() > 1 {
        text.push_str("  (percent) is 100 x (value - first column) / first column\n");
    }
    text
}

fn render_block(block: &Block, comparison: &Comparison) -> String {
    let mut head = vec![
        block.title.clone(),
        String::new(),
        String::new(),
        String::new(),
    ];
    head.extend(comparison.columns.iter().map(|column| column.label.clone()));
    let mut rows = vec![head];
    for row in &block.rows {
        let mut texts = vec![
            row.statistic.clone(),
            row.name.clone(),
            row.unit.clone(),
            row.better.word().into(),
        ];
        let cells = row.cells.iter().enumerate();
        let runs = |column: usize| comparison.columns[column].seeds.len();
        texts.extend(cells.map(|(column, cell)| cell_text(row, column, *cell, runs(column))));
        rows.push(texts);
    }
    // The title stands over all of the left columns instead of widening the first.
    let title = std::mem::take(&mut rows[0][0]);
    format!("{title}\n{}", grid(&rows, 4))
}

fn cell_text(row: &Row, column: usize, cell: Option<MergedCell>, runs: usize) -> String {
    let Some(cell) = cell else {
        return "-".into();
    };
    let mut text = number(cell.spread.mean);
    if cell.spread.runs > 1 {
        // Writing to a String cannot fail.
        let _ = write!(text, " +- {:>6}", number(cell.spread.stddev));
    }
    text.push_str(&of_runs_with_it(cell, runs));
    if row.cells.len() > 1 {
        let change = match cell.change_percent {
            _ if column == 0 => "   0.00%".into(),
            Some(percent) => format!("{percent:>7.2}%"),
            None => format!("{:>8}", "-"),
        };
        let _ = write!(text, " ({change})");
    }
    text
}

/// The number of `runs` that have a value, if not all have it.
pub(super) fn of_runs_with_it(cell: MergedCell, runs: usize) -> String {
    let with_it = cell.spread.runs as usize;
    if with_it == runs {
        String::new()
    } else {
        format!(" in {with_it} of {runs}")
    }
}

fn render_stalls(list: &StallList) -> String {
    let runs = if list.runs > 1 {
        format!(", summed over {} runs", list.runs)
    } else {
        String::new()
    };
    let mut text = format!(
        "Stalls of {} reclaim, {}{runs}\n",
        list.context, list.column
    );
    for line in &list.lines {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:>10} usec_delayed={} reason={}",
            line.count, line.delayed_us, line.reason
        );
    }
    text
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
