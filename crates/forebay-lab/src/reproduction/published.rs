//! Rows of the published tables.

use super::Change;
use serde::Deserialize;

/// The tables, by the change whose author published them; the last one has further numbers about
/// all.
const TABLES: [(Option<Change>, &str); 6] = [
    (
        Some(Change::WritebackInReclaim),
        include_str!("../../data/writeback-in-reclaim.csv"),
    ),
    (
        Some(Change::ReclaimThrottling),
        include_str!("../../data/reclaim-throttling.csv"),
    ),
    (
        Some(Change::PerZoneDirty),
        include_str!("../../data/per-zone-dirty.csv"),
    ),
    (
        Some(Change::DirtyThrottling),
        include_str!("../../data/ioless-dirty-throttling.csv"),
    ),
    (
        Some(Change::KswapdClasszone),
        include_str!("../../data/kswapd-classzone.csv"),
    ),
    (None, include_str!("../../data/published-followups.csv")),
];

/// One row of a published table.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedRow {
    /// Stable name, such as `WR-001`.
    pub id: String,
    /// The change whose author published it; none for follow-ups.
    pub change: Option<Change>,
    /// Table or passage.
    pub experiment: String,
    /// Machine.
    pub machine: String,
    /// File system, if it is known.
    pub filesystem: String,
    /// Workload.
    pub workload: String,
    /// What was measured.
    pub metric: String,
    /// `name=value` pairs separated by `;`.
    pub param: String,
    /// Unit of both values.
    pub unit: String,
    /// The kernel after the change.
    pub patched_name: String,
    /// Value before.
    pub before: Option<f64>,
    /// Value after.
    pub after: Option<f64>,
    /// 100 x (after - before) / before, or the percentage that the text gives.
    pub change_percent: Option<f64>,
    /// `table`, `text`, `histogram` and so on.
    pub kind: String,
}

/// A row as it is in the file.
#[derive(Deserialize)]
struct Line {
    id: String,
    experiment: String,
    machine: String,
    filesystem: String,
    workload: String,
    metric: String,
    param: String,
    unit: String,
    patched_name: String,
    baseline: String,
    patched: String,
    pct_change: String,
    kind: String,
}

impl PublishedRow {
    /// The value of `name` in the row's parameters.
    ///
    /// ```
    /// use forebay_lab::reproduction::published::rows;
    /// let row = rows().into_iter().find(|row| row.id == "RT-004").unwrap();
    /// assert_eq!(row.param("workers"), Some("21"));
    /// ```
    pub fn param(&self, name: &str) -> Option<&str> {
        let mut pairs = self
            .param
            .split(';')
            .filter_map(|pair| pair.split_once('='));
        pairs
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }
}

/// All rows of all tables, in the order of the files.
pub fn rows() -> Vec<PublishedRow> {
    TABLES
        .iter()
        .flat_map(|(change, text)| {
            read::<Line>(text)
                .into_iter()
                .map(|line| row(*change, line))
        })
        .collect()
}

/// The records of a table that ships with the program.
pub(super) fn read<T: for<'a> Deserialize<'a>>(text: &str) -> Vec<T> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let records: Result<Vec<T>, csv::Error> = reader.deserialize().collect();
    records.expect("the tables that ship have the columns that their tests check")
}

fn row(change: Option<Change>, line: Line) -> PublishedRow {
    // Parameters that are words or codes are not figures.
    let number = |text: &str| text.parse::<f64>().ok();
    PublishedRow {
        before: number(&line.baseline),
        after: number(&line.patched),
        change_percent: number(&line.pct_change),
        id: line.id,
        change,
        experiment: line.experiment,
        machine: line.machine,
        filesystem: line.filesystem,
        workload: line.workload,
        metric: line.metric,
        param: line.param,
        unit: line.unit,
        patched_name: line.patched_name,
        kind: line.kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_is_there_once() {
        let rows = rows();
        assert_eq!(rows.len(), 126 + 152 + 222 + 45 + 79 + 355);
        let ids: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids.len(), rows.len());
    }

    #[test]
    fn the_printed_changes_follow_from_the_values() {
        for row in rows() {
            let (Some(before), Some(after), Some(change)) =
                (row.before, row.after, row.change_percent)
            else {
                continue;
            };
            if before != 0.0 {
                let ours = 100.0 * (after - before) / before;
                assert!(
                    (ours - change).abs() < 0.02,
                    "{}: {ours} and {change}",
                    row.id
                );
            }
        }
    }
}
