//! For each of the 89 tests: which cells and figures it is about, and what its claim needs to be
//! tested at all.

use super::Position;

/// What one test needs from the runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// The test, `A3.1`.
    pub test: &'static str,
    /// The cells, as [`selects`](super::plan::selects) reads them.
    pub cells: &'static str,
    /// The figures, as [`measure`](super::measure::measure) reads them; several stand for a cell
    /// each.
    pub metrics: &'static [&'static str],
    /// Where the value before is from.
    pub old: Position,
    /// Where the value after is from.
    pub new: Position,
    /// How the cells become the value that the bounds apply to.
    pub reduce: Reduce,
    /// The claim is not tested unless this holds.
    pub problem: Option<Problem>,
}

/// How cells become one value or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// Each cell has a value of its own.
    Each,
    /// How many cells have a ratio below 1.
    CellsFaster,
    /// The largest ratio.
    WorstCell,
    /// The cells are summed before the ratio is taken.
    Sum,
    /// The mean gain of the cells over the mean gain of these others.
    GainOver(&'static str),
    /// The value after of the cell over that of this other.
    Over(&'static str),
    /// Only the figure whose value before is the largest.
    WorstBefore,
    /// The relative standard deviation over the runs.
    Spread,
}

/// What the runs must show for a claim to be tested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Problem {
    /// The figure.
    pub metric: &'static str,
    /// Under which policy.
    pub position: Position,
    /// Its smallest mean in a cell that is tested.
    pub least: f64,
}

/// The 2011 tables without the laptop.
const TABLES: &str = "fsmark/*-xfs simple-wb/*-xfs mmap-strm/*-xfs";
const AT_512: &str = "fsmark/512M*-xfs simple-wb/512M*-xfs mmap-strm/512M*-xfs";
const ABOVE_512: &str = "fsmark/1024M*-xfs simple-wb/1024M*-xfs mmap-strm/1024M*-xfs \
                         fsmark/4608M*-xfs simple-wb/4608M*-xfs mmap-strm/4608M*-xfs";
const WRITES_PER_SCAN: &str = "page_writes_by_reclaim / kswapd_pages_scanned";
/// Mean time of a pass by the number of workers.
const WORKER_MEANS: &[&str] = &[
    "mmap_latency_amean@4",
    "mmap_latency_amean@7",
    "mmap_latency_amean@12",
    "mmap_latency_amean@21",
    "mmap_latency_amean@30",
    "mmap_latency_amean@48",
    "mmap_latency_amean@64",
];
const ALL_LATENCIES: &[&str] = &[
    "read_latency_p50",
    "read_latency_p95",
    "read_latency_p99",
    "write_latency_p50",
    "write_latency_p95",
    "write_latency_p99",
    "allocation_latency_p50",
    "allocation_latency_p95",
    "allocation_latency_p99",
];

const fn ask(
    test: &'static str,
    cells: &'static str,
    metrics: &'static [&'static str],
) -> Question {
    Question {
        test,
        cells,
        metrics,
        old: Position::Before,
        new: Position::After,
        reduce: Reduce::Each,
        problem: None,
    }
}

impl Question {
    const fn to(mut self, new: Position) -> Question {
        self.new = new;
        self
    }

    const fn by(mut self, reduce: Reduce) -> Question {
        self.reduce = reduce;
        self
    }

    const fn if_before(self, metric: &'static str, least: f64) -> Question {
        self.if_at(Position::Before, metric, least)
    }

    const fn if_at(mut self, position: Position, metric: &'static str, least: f64) -> Question {
        self.problem = Some(Problem {
            metric,
            position,
            least,
        });
        self
    }

    /// Only if reclaim wrote file pages before.
    const fn if_wrote(self) -> Question {
        self.if_before("page_writes_file", 1.0)
    }
}

/// The question of a test.
pub fn question(test: &str) -> Option<&'static Question> {
    let all = [A, B, C, D, E].into_iter().flatten();
    all.into_iter().find(|question| question.test == test)
}

const A: &[Question] = &[
    ask("A1.1", "mmap-strm/512M*-xfs", &["direct_file_writes"])
        .if_before("direct_file_writes", 1.0),
    ask("A1.2", "mmap-strm/512M*-xfs", &["direct_file_writes"]).by(Reduce::Sum),
    ask(
        "A2.1",
        "fsmark/*-xfs simple-wb/*-xfs",
        &["page_writes_file"],
    )
    .if_wrote(),
    ask("A2.2", "mmap-strm/*-xfs", &["page_writes_file"]).if_wrote(),
    ask("A3.1", "simple-wb/*-xfs", &["elapsed"]).if_wrote(),
    ask("A4.1", "simple-wb/laptop", &["elapsed"]).if_wrote(),
    ask("A4.2", "fsmark/laptop", &["elapsed"]).if_wrote(),
    ask("A5.1", "fsmark/*-xfs", &["elapsed"]).if_wrote(),
    ask("A5.2", "fsmark/*-xfs", &["files_per_second_mean"]).if_wrote(),
    ask("A6.1", "fsmark/512M*-xfs", &["files_per_second_mean"])
        .by(Reduce::GainOver("fsmark/4608M*-xfs"))
        .if_wrote(),
    ask("A7.1", "fsmark/laptop", &["iostat_await_mean"]).if_wrote(),
    ask("A7.2", "simple-wb/laptop", &["iostat_await_mean"]).if_wrote(),
    ask("A8.1", "mmap-strm/*-xfs", &["elapsed"])
        .by(Reduce::CellsFaster)
        .if_wrote(),
    ask("A8.2", "mmap-strm/*-xfs", &["elapsed"])
        .by(Reduce::WorstCell)
        .if_wrote(),
    ask("A9.1", TABLES, &["kswapd_pages_scanned"]).if_wrote(),
    ask("A9.2", TABLES, &["user_plus_system_cpu"]).if_wrote(),
    ask("A10.1", AT_512, &["kswapd_efficiency"]).if_wrote(),
    ask("A10.2", ABOVE_512, &["kswapd_efficiency"]).if_wrote(),
];

const B: &[Question] = &[
    stutter("B1.1", &["duration_system"]).if_scanned(),
    stutter("B2.1", &["direct_pages_scanned"]).if_scanned(),
    stutter("B3.1", &["page_reclaim_immediate"]).if_scanned(),
    stutter("B4.1", &["stall_share_at_timeout;direct;NOPROGRESS"]),
    stutter("B4.2", &["stall_share_at_timeout;direct;WRITEBACK"]),
    stutter("B4.3", &["stall_share_zero;direct;WRITEBACK"]),
    stutter("B4.4", &["stall_share_at_timeout;direct;ISOLATED"]),
    stutter("B4.5", &["stall_share_zero;direct;ISOLATED"]),
    stutter("B4.6", &["stall_share_at_timeout;kswapd;WRITEBACK"]),
    stutter("B5.1", &["stall_share_zero;wait_iff_congested"]),
    stutter("B5.2", &["stall_share_at_timeout;congestion_wait"]),
    stutter("B6.1", &["percentage_direct_scans"]).if_scanned(),
    stutter("B6.2", &["percentage_direct_scans"]).if_scanned(),
    stutter("B7.1", &["direct_efficiency_pct"]).if_scanned(),
    stutter("B7.2", &["kswapd_efficiency_pct"]).if_scanned(),
    stutter("B8.1", &["pages_reclaimed_total"]).if_scanned(),
    stutter("B9.1", WORKER_MEANS)
        .by(Reduce::WorstBefore)
        .if_scanned(),
    stutter("B10.1", &["page_writes_by_reclaim"]).if_scanned(),
    stutter("B10.2", &["page_writes_anon"]).if_scanned(),
];

const fn stutter(test: &'static str, metrics: &'static [&'static str]) -> Question {
    ask(test, "stutterp", metrics)
}

impl Question {
    /// Only if there was direct reclaim before.
    const fn if_scanned(self) -> Question {
        self.if_before("direct_pages_scanned", 1.0)
    }
}

const C: &[Question] = &[
    ask("C1.1", "copy/fuse-ntfs", &["nr_vmscan_write"]).if_before("nr_vmscan_write", 1.0),
    ask("C1.2", "copy/fuse-ntfs", &["nr_vmscan_write"]),
    ask("C2.1", "copy/fuse-ntfs", &["elapsed"]).if_before("nr_vmscan_write", 1.0),
    ask("C3.1", "trace/fuse-ntfs", &["dirty_of_inactive@Normal"]),
    ask("C3.2", "trace/fuse-ntfs", &["dirty_of_file"]),
    ask("C4.1", "copy/fuse-ntfs", &["zone_dirty_share_p99"])
        .if_before("zone_dirty_share_p99", 0.24),
    ask("C5.1", "fsmark/box-2g-2zones", &["nr_vmscan_write"]).if_before("nr_vmscan_write", 1.0),
    ask("C5.2", "fsmark/box-2g-2zones", &["elapsed"]).if_before("nr_vmscan_write", 1.0),
    ask("C6.1", "copy/xfs copy/ext4 copy/btrfs", &["elapsed"]),
    ask("C7.1", "copy/fuse-ntfs", &["elapsed"]).by(Reduce::Spread),
    ask("C8.1", "copy/box-2g-2zones", &[OF_INACTIVE_DMA]),
    ask("C8.2", "copy/box-2g-2zones", &[OF_INACTIVE_DMA]).if_before(OF_INACTIVE_DMA, 0.5),
    ask("C9.1", "copy/fuse-ntfs", &["task_clock_msecs@dd"]),
    ask("C9.2", "copy/fuse-ntfs", &["context_switches"]),
];

const OF_INACTIVE_DMA: &str = "dirty_and_writeback_of_inactive@DMA";

const D: &[Question] = &[
    ask("D1.1", "dd=1/hdd1-desktop", &["dirty_balance_point"]),
    ask("D1.2", "dd=1/hdd1-desktop", &["throttle_start"]),
    ask("D2.1", "dd=1/hdd1-desktop", &["pause_median_ms"]),
    ask("D2.2", "dd=1000/hdd1-desktop", &["pause_median_ms"]),
    ask("D2.3", "dd=*/hdd1-desktop", &["pause_max_ms"]),
    ask("D3.1", "dd=50/hdd1-3g", &["seek_count"])
        .to(Position::LargeChunk)
        .if_before("seek_count", 1.0),
    ask("D3.2", "dd=50/hdd1-3g", &["write_throughput"])
        .to(Position::LargeChunk)
        .if_before("seek_count", 1.0),
    ask("D4.1", "dd=100/hdd1-desktop", &["cpu_system_share"]),
    ask("D4.2", "dd=100/hdd1-desktop", &["write_throughput"]),
    ask("D5.1", "rsync/hdd1-3g", &["rsync_throughput"]),
    ask("D5.2", "rsync/hdd1-3g", &["rsync_throughput"]).to(Position::LargeChunk),
    ask("D6.1", "dd=100/hdd1-desktop", &["time_to_kill_writer"]),
    ask("D6.2", "dd=100/hdd1-desktop", &["time_to_kill_writer"])
        .if_before("time_to_kill_writer", 0.25),
    metadata("D7.1", &["cpu_percent"]),
    metadata("D7.2", &["write_ios"]),
    metadata("D7.3", &["files_per_second_mean"]),
    metadata("D7.4", &["elapsed"]),
    // The published figures are from the merged version, which includes the chunk.
    ask("D8.1", "dd=1000/raid0-12", &["write_throughput"])
        .to(Position::LargeChunk)
        .by(Reduce::Over("dd=1/raid0-12")),
    ask(
        "D8.2",
        "dd=10/hdd1-desktop dd=100/hdd1-desktop",
        &["per_dd_bytes_per_s_coeffvar"],
    ),
    ask("D9.1", "jbod/hdd-usbkey", &["usb_writer_longest_pause_s"]),
    ask("D9.2", "jbod/hdd-usbkey", &["write_throughput@disk"]),
    ask("D10.1", "nfs/*", &["write_throughput"]).by(Reduce::Sum),
];

/// Writers are slowed from the middle between 10 and 20% of what may be dirty: below it the change
/// of how they are slowed has nothing to change.
const fn metadata(test: &'static str, metrics: &'static [&'static str]) -> Question {
    ask(test, "metadata/vm8-4g", metrics).if_before("dirty_highest_point", 15.0)
}

const E: &[Question] = &[
    simoop("E1.1", &["write_latency_p99"]).if_before("write_latency_p99 / write_latency_p50", 10.0),
    simoop("E1.2", &["write_latency_p95"]).if_before("write_latency_p99 / write_latency_p50", 10.0),
    simoop("E2.1", &[WRITES_PER_SCAN]).to(Position::Between),
    simoop("E2.2", &["kswapd_efficiency"]).to(Position::Between),
    simoop("E2.3", &["allocation_latency_p99"]).to(Position::Between),
    simoop("E3.1", &[WRITES_PER_SCAN]).if_at(Position::Between, WRITES_PER_SCAN, 1e-4),
    simoop("E3.2", &["kswapd_efficiency"]).if_at(Position::Between, WRITES_PER_SCAN, 1e-4),
    simoop("E4.1", &["allocation_latency_p99"]),
    simoop("E4.2", &["allocation_latency_p95"]),
    simoop("E5.1", &["direct_pages_scanned"]).if_before("direct_pages_scanned", 1.0),
    ask("E6.1", "simoop/uma-4.11", ALL_LATENCIES),
    simoop("E7.1", &["read_latency_p50"]),
    simoop("E7.2", &["read_latency_p95"]),
    simoop("E7.3", &["read_latency_p99"]),
    simoop("E8.1", &["write_latency_p50"]),
    simoop("E8.2", &["allocation_latency_p50"]),
];

const fn simoop(test: &'static str, metrics: &'static [&'static str]) -> Question {
    ask(test, "simoop/numa2-4.11", metrics)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduction::plan::{cells, selects};
    use crate::reproduction::target::{CellsNeeded, targets};

    #[test]
    fn every_test_has_a_question_and_no_question_is_of_no_test() {
        let targets = targets();
        for target in &targets {
            assert!(question(&target.test).is_some(), "{}", target.test);
        }
        let asked: usize = [A, B, C, D, E].iter().map(|each| each.len()).sum();
        assert_eq!(asked, targets.len());
    }

    #[test]
    fn every_question_is_about_cells_that_are_run_under_its_policies() {
        let cells = cells();
        for question in [A, B, C, D, E].into_iter().flatten() {
            let chosen: Vec<_> = cells
                .iter()
                .filter(|cell| selects(question.cells, &cell.name))
                .collect();
            let test = question.test;
            assert!(!chosen.is_empty(), "{test}");
            for cell in chosen {
                for position in [question.old, question.new] {
                    assert!(cell.positions.contains(&position), "{test} {}", cell.name);
                }
                assert!(test.starts_with(cell.change.letter()), "{test}");
            }
        }
    }

    #[test]
    fn a_number_of_cells_is_that_of_the_cells_that_are_chosen() {
        let cells = cells();
        for target in targets() {
            let CellsNeeded::Of(_, all) = target.cells_needed else {
                continue;
            };
            let question = question(&target.test).unwrap();
            let chosen = cells
                .iter()
                .filter(|cell| selects(question.cells, &cell.name))
                .count();
            assert_eq!(
                chosen * question.metrics.len(),
                all as usize,
                "{}",
                target.test
            );
        }
    }
}
