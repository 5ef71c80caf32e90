//! One HTML page that needs no other file: its style and its pictures are inside.

use super::comparison::{Block, Comparison, MergedCell, StallList};
use super::pictures::{Gallery, galleries};
use super::table::{number, of_runs_with_it};
use crate::outcome::{ExpectationResult, Outcome};
use forebay_chart::{Chart, document, escape, table};

/// The page of one comparison: tables first, then the pictures.
pub fn of_runs(title: &str, outcomes: &[Outcome]) -> String {
    let comparison = Comparison::of(outcomes);
    let mut parts = vec![
        format!("<h1>{}</h1>\n", escape(title)),
        format!(
            "<p>{} on {}.</p>\n",
            escape(&comparison.workload),
            escape(&comparison.machine)
        ),
    ];
    let pictures = galleries(outcomes);
    parts.extend(pictures.iter().map(gallery));
    parts.push(expectations(outcomes));
    parts.push(tables(&comparison));
    document(title, &parts.concat())
}

/// What each run was expected to do, and what was found; empty if nothing was expected.
fn expectations(outcomes: &[Outcome]) -> String {
    let head = ["", "policy", "seed", "expected", "found"].map(String::from);
    let of_run = |run: &Outcome| -> Vec<Vec<String>> {
        let (policy, seed) = (&run.setting.policy, run.setting.seed);
        let line = |result: &ExpectationResult| {
            let (expected, found) = (result.expected.clone(), result.found.clone());
            vec![
                result.verdict().into(),
                policy.clone(),
                seed.to_string(),
                expected,
                found,
            ]
        };
        run.expectations.iter().map(line).collect()
    };
    let rows: Vec<Vec<String>> = outcomes.iter().flat_map(of_run).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("<h2>What was found</h2>\n{}", table(&head, &rows, 5))
}

/// Pictures with their heading.
pub fn gallery(gallery: &Gallery) -> String {
    let charts = gallery.charts.iter();
    let figures: String = charts.map(Chart::figure).collect();
    format!(
        "<h2>{}</h2>\n<p>{}</p>\n<div class=\"gallery\">\n{figures}</div>\n",
        escape(&gallery.heading),
        escape(&gallery.text)
    )
}

/// Every block of a comparison as a table.
pub fn tables(comparison: &Comparison) -> String {
    let blocks = comparison
        .blocks
        .iter()
        .map(|block| of_block(block, comparison));
    let stalls = comparison.stalls.iter().map(of_stalls);
    blocks.chain(stalls).collect()
}

fn of_block(block: &Block, comparison: &Comparison) -> String {
    let words = ["", "figure", "unit", "better"];
    let mut head: Vec<String> = words.map(String::from).into();
    for (number, column) in comparison.columns.iter().enumerate() {
        head.extend([column.label.clone(), "spread".into()]);
        head.extend((number > 0).then(|| "change".to_owned()));
    }
    let rows: Vec<Vec<String>> = block
        .rows
        .iter()
        .map(|row| {
            let mut texts = vec![
                row.statistic.clone(),
                row.name.clone(),
                row.unit.clone(),
                row.better.word().into(),
            ];
            for (number, cell) in row.cells.iter().enumerate() {
                let runs = comparison.columns[number].seeds.len();
                texts.extend(cell_texts(*cell, number > 0, runs));
            }
            texts
        })
        .collect();
    format!(
        "<h2>{}</h2>\n{}",
        escape(&block.title),
        table(&head, &rows, 4)
    )
}

fn cell_texts(cell: Option<MergedCell>, with_change: bool, runs: usize) -> Vec<String> {
    let mut texts = match cell {
        Some(cell) => vec![
            number(cell.spread.mean),
            format!(
                "+- {}{}",
                number(cell.spread.stddev),
                of_runs_with_it(cell, runs)
            ),
        ],
        None => vec!["-".into(), String::new()],
    };
    if with_change {
        let change = cell.and_then(|cell| cell.change_percent);
        texts.push(change.map_or_else(|| "-".into(), |percent| format!("{percent:+.2}%")));
    }
    texts
}

fn of_stalls(list: &StallList) -> String {
    let head = ["events", "length (us)", "reason"].map(String::from);
    let rows: Vec<Vec<String>> = list
        .lines
        .iter()
        .map(|line| {
            vec![
                line.count.to_string(),
                line.delayed_us.to_string(),
                line.reason.clone(),
            ]
        })
        .collect();
    format!(
        "<details><summary>Stalls of {} reclaim, {} ({} kinds)</summary>\n{}</details>\n",
        escape(&list.context),
        escape(&list.column),
        rows.len(),
        table(&head, &rows, 0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_asks_nothing_of_the_network() {
        let mut outcome = Outcome::default();
        outcome.setting.policy = "<script>".into();
        outcome.elapsed_s = 1.0;
        let page = of_runs("a run", &[outcome]);
        assert!(page.starts_with("<!DOCTYPE html>"));
        for asks in ["src=", "href=", "url(", "@import", "<script"] {
            assert!(!page.contains(asks), "{asks}");
        }
        assert!(page.contains("&lt;script&gt;"));
    }

    #[test]
    fn a_page_says_what_was_found_and_marks_what_is_broken() {
        let mut outcome = Outcome::default();
        let result = |held, found: &str| ExpectationResult {
            expected: "the mean is 5".into(),
            found: found.into(),
            held,
        };
        outcome.expectations.push(result(true, "found this"));
        assert!(!of_runs("a run", std::slice::from_ref(&outcome)).contains("BROKEN"));
        outcome.expectations.push(result(false, "found that"));
        let page = of_runs("a run", &[outcome]);
        for text in ["BROKEN", "holds", "found this", "found that"] {
            assert!(page.contains(&format!("<td>{text}</td>")), "{text}");
        }
    }
}
