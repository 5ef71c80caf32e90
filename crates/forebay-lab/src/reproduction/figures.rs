//! Each published figure beside ours: before, after and change.

use super::evidence::Evidence;
use super::published::{PublishedRow, rows};
use super::{Change, Position};
use crate::report::statistics::change_percent;
use serde::{Deserialize, Serialize};

/// A published figure that the lab measures too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The row of the published table.
    pub id: String,
    /// The experiment that it is of.
    pub change: Change,
    /// Whether the author of the change published it, or it comes from the discussion.
    pub of_the_author: bool,
    /// The cell that is run for it.
    pub cell: String,
    /// The figure's name in our runs.
    pub metric: String,
    /// Unit of the values.
    pub unit: String,
    /// The policy that the value after is from.
    pub position: Position,
    /// As it was published.
    pub published: Values,
    /// As we measured it; none if it was not run.
    pub ours: Option<Values>,
}

/// One figure before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Values {
    /// Before, if it is known.
    pub before: Option<f64>,
    /// After, if it is known.
    pub after: Option<f64>,
    /// 100 x (after - before) / before; none if `before` is 0.
    pub change_percent: Option<f64>,
}

/// How many figures agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreement {
    /// Figures that were published and measured.
    pub compared: u32,
    /// Of them, those whose ratio after / before is within a factor of 2 of the published one.
    pub ratio_within_2: u32,
    /// Those whose change in percent has the same sign and is within a factor of 2.
    pub change_within_2: u32,
}

/// Ratios smaller than this count as 0: a count that vanished is not distinguished from one that
/// nearly did.
const NOTHING: f64 = 0.001;

impl Values {
    fn of(before: Option<f64>, after: Option<f64>) -> Values {
        let change = before.zip(after);
        Values {
            before,
            after,
            change_percent: change.and_then(|(before, after)| change_percent(before, after)),
        }
    }

    fn is_nothing(&self) -> bool {
        (self.before, self.after) == (Some(0.0), Some(0.0))
    }

    /// After / before, infinite for something that was 0 before.
    pub fn ratio(&self) -> Option<f64> {
        if let Some(change) = self.change_percent {
            return Some(1.0 + change / 100.0);
        }
        match (self.before, self.after) {
            (Some(_), Some(after)) if after > 0.0 => Some(f64::INFINITY),
            (Some(_), Some(_)) => Some(1.0),
            _ => None,
        }
    }
}

impl Figure {
    /// Whether the ratios are within a factor of 2 of each other. A figure that is 0 before and
    /// after agrees only with one that is 0 too: it does not stay the same, it does not occur.
    pub fn ratio_within_2(&self) -> Option<bool> {
        let (published, ours) = (self.published.ratio()?, self.ours?.ratio()?);
        if self.published.is_nothing() != self.ours?.is_nothing() {
            return Some(false);
        }
        Some(if published <= NOTHING || ours <= NOTHING {
            published <= NOTHING && ours <= NOTHING
        } else if published >= 1.0 / NOTHING || ours >= 1.0 / NOTHING {
            published >= 1.0 / NOTHING && ours >= 1.0 / NOTHING
        } else {
            (0.5..=2.0).contains(&(ours / published))
        })
    }

    /// Whether the changes in percent have one sign and are within a factor of 2 of each other.
    pub fn change_within_2(&self) -> Option<bool> {
        let (published, ours) = (self.published.change_percent?, self.ours?.change_percent?);
        if published == 0.0 {
            return Some(ours.abs() < 0.5);
        }
        Some((0.5..=2.0).contains(&(ours / published)))
    }
}

/// Every published figure for which there is a cell, with what `evidence` has for it.
pub fn figures(evidence: &Evidence) -> Vec<Figure> {
    rows()
        .into_iter()
        .filter_map(|row| {
            let place = place(&row)?;
            let scale = if row.unit == "MB/s" { 1e-6 } else { 1.0 };
            let mean = |position| {
                let value = evidence.mean(&place.cell, position, &place.metric)?;
                Some(value * scale)
            };
            let (before, after) = (mean(Position::Before), mean(place.position));
            Some(Figure {
                published: Values {
                    before: row.before,
                    after: row.after,
                    change_percent: row.change_percent,
                },
                ours: before.and(after).map(|_| Values::of(before, after)),
                id: row.id,
                change: place.change,
                of_the_author: row.change.is_some(),
                cell: place.cell,
                metric: place.metric,
                unit: row.unit,
                position: place.position,
            })
        })
        .collect()
}

/// How many of `figures` agree.
pub fn agreement<'a>(figures: impl Iterator<Item = &'a Figure>) -> Agreement {
    figures.fold(Agreement::default(), |mut all, figure| {
        if let Some(within) = figure.ratio_within_2() {
            all.compared += 1;
            all.ratio_within_2 += u32::from(within);
            all.change_within_2 += u32::from(figure.change_within_2() == Some(true));
        }
        all
    })
}

/// Where a published figure is found in our runs.
struct FoundAt {
    change: Change,
    cell: String,
    metric: String,
    position: Position,
}

fn at(change: Change, cell: &str, metric: &str) -> FoundAt {
    FoundAt {
        change,
        cell: cell.into(),
        metric: metric.into(),
        position: Position::After,
    }
}

/// Where the figure of a row is found; none if it has no values before and after, or is not
/// simulated.
fn place(row: &PublishedRow) -> Option<FoundAt> {
    let both = row.before.is_some() && row.after.is_some();
    match row.change {
        Some(Change::DirtyThrottling) => dirty_throttling(row),
        _ if !both => None,
        Some(Change::WritebackInReclaim) => writeback_in_reclaim(row),
        Some(Change::ReclaimThrottling) if row.kind == "table" => {
            let metric = match row.param("workers") {
                Some(workers) => format!("{}@{workers}", row.metric),
                None => row.metric.clone(),
            };
            Some(at(Change::ReclaimThrottling, "stutterp", &metric))
        }
        Some(Change::PerZoneDirty) => per_zone_dirty(row),
        Some(Change::KswapdClasszone) if row.kind == "table" => {
            let between = row.patched_name.contains("clear");
            let place = at(Change::KswapdClasszone, "simoop/numa2-4.11", &row.metric);
            let position = if between {
                Position::Between
            } else {
                Position::After
            };
            Some(FoundAt { position, ..place })
        }
        Some(_) => None,
        None => follow_up(row),
    }
}

fn writeback_in_reclaim(row: &PublishedRow) -> Option<FoundAt> {
    let cell = if row.machine.starts_with("laptop") {
        format!("{}/laptop", row.workload)
    } else if row.experiment.ends_with("-xfs") && row.machine.starts_with("amd4-") {
        format!("{}/{}", row.workload, row.experiment)
    } else {
        return None;
    };
    Some(at(Change::WritebackInReclaim, &cell, &row.metric))
}

/// The processor's own counters are not simulated.
fn per_zone_dirty(row: &PublishedRow) -> Option<FoundAt> {
    let cell = if row.experiment.starts_with("dd 8 GiB") {
        "copy/fuse-ntfs"
    } else if row.experiment.starts_with("fs_mark on a 2G") {
        "fsmark/box-2g-2zones"
    } else {
        return None;
    };
    let metric = match row.metric.as_str() {
        "task_clock_msecs" => "task_clock_msecs@dd",
        known
        @ ("elapsed" | "nr_vmscan_write" | "context_switches" | "user_cpu" | "system_cpu") => known,
        _ => return None,
    };
    Some(at(Change::PerZoneDirty, cell, metric))
}

/// The text of 2011 gives most changes without their values.
fn dirty_throttling(row: &PublishedRow) -> Option<FoundAt> {
    use Position::{After, LargeChunk};
    let (cell, metric, position) = match row.id.as_str() {
        "IO-005" => ("metadata/vm8-4g", "cpu_percent", After),
        "IO-009" => ("metadata/vm8-4g", "files_per_second_mean", After),
        "IO-010" => ("metadata/vm8-4g", "write_ios", After),
        "IO-011" => ("metadata/vm8-4g", "elapsed", After),
        "IO-012" => ("dd=100/hdd1-desktop", "cpu_system_share", After),
        "IO-013" => ("dd=100/hdd1-desktop", "write_throughput", After),
        "IO-015" => ("dd=50/hdd1-3g", "seek_count", LargeChunk),
        "IO-016" => ("dd=50/hdd1-3g", "write_throughput", LargeChunk),
        "IO-018" => ("rsync/hdd1-3g", "rsync_throughput", After),
        "IO-019" => ("rsync/hdd1-3g", "rsync_throughput", LargeChunk),
        _ => return None,
    };
    let place = at(Change::DirtyThrottling, cell, metric);
    Some(FoundAt { position, ..place })
}

fn follow_up(row: &PublishedRow) -> Option<FoundAt> {
    let eight_nodes = row.experiment.contains("8N");
    if row.metric == "page_writes_file" && row.experiment.ends_with("-xfs") && !eight_nodes {
        let cell = format!("{}/{}", row.workload, row.experiment);
        return Some(at(Change::WritebackInReclaim, &cell, &row.metric));
    }
    if row.experiment == "512M-xfs, v2 of the series, monitors on" {
        let cell = format!("{}/512M-xfs", row.workload);
        return Some(at(Change::WritebackInReclaim, &cell, &row.metric));
    }
    if row.experiment.starts_with("dd 10 GiB") && row.filesystem != "fuse-ntfs" {
        let cell = format!("copy/{}", row.filesystem);
        let known = row.metric == "elapsed";
        return known.then(|| at(Change::PerZoneDirty, &cell, &row.metric));
    }
    if let Some(limit) = row.machine.strip_prefix("NFS-thresh=") {
        let cell = format!("nfs/{limit}-{}", row.workload.replace(' ', ""));
        return Some(at(Change::DirtyThrottling, &cell, "write_throughput"));
    }
    None
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "small whole numbers are exact")]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use crate::reproduction::plan::cells;
    use std::collections::BTreeSet;

    #[test]
    fn every_figure_is_of_a_cell_that_is_run_under_its_policy() {
        let cells = cells();
        for figure in figures(&Evidence::default()) {
            let cell = cells.iter().find(|cell| cell.name == figure.cell);
            let cell = cell.unwrap_or_else(|| panic!("{} is of {}", figure.id, figure.cell));
            assert!(cell.positions.contains(&figure.position), "{}", figure.id);
            assert_eq!(cell.change, figure.change, "{}", figure.id);
        }
    }

    #[test]
    fn the_tables_of_all_five_are_there() {
        let figures = figures(&Evidence::default());
        let of = |start: &str| {
            figures
                .iter()
                .filter(|figure| figure.id.starts_with(start))
                .count()
        };
        // 94 of 2011; 28 latencies and 18 counters of 2021; 10 texts of 2011; 18 latencies, 50
        // counters of 2017.
        assert_eq!([of("WR"), of("RT"), of("IO"), of("KC")], [94, 46, 10, 68]);
        assert_eq!(of("PZ"), 8);
        let changes: BTreeSet<Change> = figures.iter().map(|figure| figure.change).collect();
        assert_eq!(changes.len(), 5);
    }

    fn figure(published: (f64, f64), ours: (f64, f64)) -> Figure {
        let values = |(before, after)| Values::of(Some(before), Some(after));
        Figure {
            id: String::new(),
            change: Change::PerZoneDirty,
            of_the_author: true,
            cell: String::new(),
            metric: String::new(),
            unit: String::new(),
            position: Position::After,
            published: values(published),
            ours: Some(values(ours)),
        }
    }

    #[test]
    fn within_a_factor_of_two() {
        let ratio = |published, ours| figure(published, ours).ratio_within_2().unwrap();
        assert!(ratio((100.0, 50.0), (10.0, 10.0)));
        assert!(!ratio((100.0, 50.0), (10.0, 11.0)));
        assert!(ratio((667_839.0, 0.0), (1000.0, 1.0)), "nothing is nothing");
        assert!(!ratio((667_839.0, 0.0), (1000.0, 2.0)));
        assert!(ratio((0.0, 4e6), (0.0, 9.0)), "out of nothing");
        assert!(ratio((0.0, 0.0), (0.0, 0.0)));
        assert!(!ratio((9.0, 8.0), (0.0, 0.0)), "it is not there");
        assert!(!ratio((0.0, 0.0), (9.0, 8.0)));
        let change = |published, ours| figure(published, ours).change_within_2().unwrap();
        assert!(change((100.0, 90.0), (100.0, 80.0)));
        assert!(!change((100.0, 90.0), (100.0, 79.0)));
        assert!(!change((100.0, 90.0), (100.0, 110.0)));
    }

    #[test]
    fn ours_are_means_over_the_seeds_in_the_published_unit() {
        let mut evidence = Evidence::default();
        for (position, value) in [(Position::Before, 30e6), (Position::After, 45e6)] {
            for seed in 1..=2 {
                let mut run = Outcome::default();
                run.setting.seed = seed;
                run.figures.insert("write_throughput".into(), value);
                evidence.add("dd=100/hdd1-desktop", position, run);
            }
        }
        let figures = figures(&evidence);
        let figure = figures.iter().find(|figure| figure.id == "IO-013").unwrap();
        let ours = figure.ours.unwrap();
        assert_eq!((ours.before, ours.after), (Some(30.0), Some(45.0)));
        assert_eq!(agreement(figures.iter()).compared, 1);
    }
}
