//! The reproduction as one HTML page.

use super::evidence::Evidence;
use super::judge::{Judgement, Verdict};
use super::table::{Findings, figure_head, figure_line, summary, test_head, test_line};
use super::{Change, Position};
use crate::outcome::Outcome;
use crate::report::page;
use crate::report::pictures::{Gallery, galleries};
use forebay_chart::{Axis, Chart, Layer, Shape};
use forebay_chart::{document, escape, table};

/// Ratios beyond these are drawn at the edge.
const RATIO_ENDS: (f64, f64) = (0.001, 1000.0);

/// For each change the cell whose runs are shown in pictures.
const SHOWN: [(Change, &str); 5] = [
    (Change::WritebackInReclaim, "mmap-strm/512M-xfs"),
    (Change::ReclaimThrottling, "stutterp"),
    (Change::PerZoneDirty, "copy/fuse-ntfs"),
    (Change::DirtyThrottling, "dd=100/hdd1-desktop"),
    (Change::KswapdClasszone, "simoop/numa2-4.11"),
];

/// The page: sums, agreement as a picture, tests, figures, and each effect in pictures.
pub fn render(findings: &Findings, evidence: &Evidence) -> String {
    let lines = summary(findings);
    let sums: Vec<String> = lines
        .iter()
        .map(|line| format!("<li>{}</li>\n", escape(line)))
        .collect();
    let mut parts = vec![
        "<h1>Five changes measured again</h1>\n".to_owned(),
        format!("<ul>\n{}</ul>\n", sums.concat()),
        page::gallery(&agreement(findings)),
        "<h2>Tests</h2>\n<p>A star marks a required test. The value is that of the means over the \
         seeds.</p>\n"
            .to_owned(),
        tests(&findings.judgements),
    ];
    for (change, cell) in SHOWN {
        parts.push(effect(change, cell, evidence));
    }
    for change in Change::ALL {
        let rows = findings
            .figures
            .iter()
            .filter(|figure| figure.change == change);
        let rows: Vec<Vec<String>> = rows.map(figure_line).collect();
        if !rows.is_empty() {
            parts.push(format!(
                "<h2>Published and ours: {}</h2>\n{}",
                change.name(),
                table(&figure_head(), &rows, 5)
            ));
        }
    }
    document("Five changes measured again", &parts.concat())
}

/// Published ratio against ours, one dot for each figure.
fn agreement(findings: &Findings) -> Gallery {
    let mut chart = Chart::new(
        "After / before: published and ours",
        Axis::log("published ratio"),
        Axis::log("our ratio"),
    );
    chart.x.bounds = Some(RATIO_ENDS);
    chart.y.bounds = Some(RATIO_ENDS);
    chart.note =
        "on the middle line both agree; between the dashed ones within a factor of 2".into();
    let line = |factor: f64| {
        vec![
            (RATIO_ENDS.0, RATIO_ENDS.0 * factor),
            (RATIO_ENDS.1, RATIO_ENDS.1 * factor),
        ]
    };
    chart.layers.extend([
        Layer::new("factor 2", 7, Shape::Dashed(line(2.0))),
        Layer::new("", 7, Shape::Line(line(1.0))),
        Layer::new("", 7, Shape::Dashed(line(0.5))),
    ]);
    for (colour, change) in Change::ALL.into_iter().enumerate() {
        let rows = findings
            .figures
            .iter()
            .filter(|figure| figure.change == change);
        let dots = rows.filter_map(|figure| {
            let (published, ours) = (figure.published.ratio()?, figure.ours?.ratio()?);
            let inside = |ratio: f64| ratio.clamp(RATIO_ENDS.0, RATIO_ENDS.1);
            Some((inside(published), inside(ours)))
        });
        chart.add(Layer::new(
            change.name(),
            colour,
            Shape::Dots(dots.collect()),
        ));
    }
    Gallery {
        heading: "Agreement".into(),
        text: "Each dot is a published figure that the lab measures too. What vanished, or came \
               out of nothing, stands at the edge."
            .into(),
        charts: vec![chart],
    }
}

fn tests(judgements: &[Judgement]) -> String {
    let rows = judgements.iter().map(|judgement| {
        let class = match judgement.verdict {
            Verdict::Holds => "good",
            Verdict::Fails => "bad",
            Verdict::NotTested => "none",
        };
        let line = test_line(judgement);
        let cells = line.iter().enumerate().map(|(column, text)| {
            let class = if column == 1 {
                format!(" class=\"{class}\"")
            } else {
                String::new()
            };
            format!("<td{class}>{}</td>", escape(text))
        });
        let words = escape(&judgement.target.words);
        let cells: Vec<String> = cells.collect();
        format!("<tr title=\"{words}\">{}</tr>\n", cells.concat())
    });
    let head: Vec<String> = test_head()
        .iter()
        .map(|text| format!("<th>{text}</th>"))
        .collect();
    let rows: Vec<String> = rows.collect();
    format!(
        "<div class=\"wide\"><table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody>\n\
         </table></div>\n",
        head.concat(),
        rows.concat()
    )
}

/// The pictures of one cell under all its policies.
fn effect(change: Change, cell: &str, evidence: &Evidence) -> String {
    let positions = [
        Position::Before,
        Position::Between,
        Position::After,
        Position::LargeChunk,
    ];
    let runs: Vec<Outcome> = positions
        .iter()
        .flat_map(|position| evidence.runs(cell, *position).iter().cloned())
        .collect();
    let drawn = galleries(&runs);
    if drawn.is_empty() {
        return String::new();
    }
    let pictures: Vec<String> = drawn.iter().map(page::gallery).collect();
    format!(
        "<details><summary>Pictures: {}, {}</summary>\n{}</details>\n",
        change.name(),
        escape(cell),
        pictures.concat()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduction::figures::figures;
    use crate::reproduction::judge::judge_all;

    #[test]
    fn the_page_has_every_test_and_asks_nothing_of_the_network() {
        let evidence = Evidence::default();
        let findings = Findings {
            figures: figures(&evidence),
            judgements: judge_all(&evidence),
        };
        let page = render(&findings, &evidence);
        for judgement in &findings.judgements {
            assert!(page.contains(&format!("<td>{}", judgement.target.test)));
        }
        assert!(!page.contains("src=") && !page.contains("href="));
    }
}
