//! The experiments: which cells are run, on which machine, under which policies.
//!
//! A cell is one entry of a published table: a workload on a machine in a variant. Its name is
//! what tests and published rows refer to.

use super::{Change, Position};

/// One cell of an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// `fsmark/512M-4X-xfs`, `dd=100/hdd1-desktop`.
    pub name: String,
    /// The experiment.
    pub change: Change,
    /// The workload's name.
    pub workload: &'static str,
    /// The machine's name.
    pub machine: &'static str,
    /// Knobs of workload and machine.
    pub knobs: Vec<(&'static str, String)>,
    /// The policies it is run under.
    pub positions: &'static [Position],
    /// Run only if everything is asked for: it takes long, and others show the same.
    pub long: bool,
    /// Knobs of a shorter run, which replaces the whole one unless everything is asked for.
    pub shorter: &'static [(&'static str, &'static str)],
}

const PAIR: &[Position] = &[Position::Before, Position::After];
const WITH_BETWEEN: &[Position] = &[Position::Before, Position::Between, Position::After];
const WITH_CHUNK: &[Position] = &[Position::Before, Position::After, Position::LargeChunk];
/// A third of the time for which many writers are watched. The figures that are judged are steady
/// long before.
const SHORT_WRITERS: &[(&str, &str)] = &[("seconds", "200"), ("settle_seconds", "60")];

const FROM_BOOT: &[(&str, &str)] = &[("seconds", "200")];

/// Twelve disks write as many pages in a tenth of the time as one in all of it.
const SHORT_ARRAY: &[(&str, &str)] = &[("seconds", "60"), ("settle_seconds", "20")];

/// Boots of the 2011 tables: label, machine.
const BOOTS: [(&str, &str); 3] = [
    ("512M", "amd4-512m"),
    ("1024M", "amd4-1024m"),
    ("4608M", "amd4-4608m"),
];

/// Variants of the 2011 tables: label, processors, fs_mark processes.
const VARIANTS: [(&str, u32, u32); 4] = [("1P", 1, 1), ("", 4, 4), ("-4X", 4, 16), ("-16X", 4, 64)];

/// The form of fs_mark that is about metadata: processes that make small files, each in a directory
/// of its own.
const METADATA: &[(&str, &str)] = &[
    ("processes", "8"),
    ("files", "120000"),
    ("file_bytes", "1"),
    ("subdirectories", "1"),
    ("files_per_subdirectory", "120000"),
    ("iterations", "6"),
];

/// A sixteenth of the memory and short steps, up to the one at which the published latencies were
/// worst: at full size the seven steps take many minutes of real time.
const STUTTERP: &[(&str, &str)] = &[
    ("scale", "16"),
    ("warm_up_seconds", "1"),
    ("seconds", "6"),
    ("most_workers", "30"),
];

/// Time for what was dirty when the files were made to be written, and less than an hour after it.
const SIMOOP: &[(&str, &str)] = &[
    ("warm_up_seconds", "120"),
    ("seconds", "240"),
    ("report_seconds", "30"),
];

/// Half of the memory. With an eighth the watermarks are so near to each other that the disk, which
/// is not divided, never matters.
const SHORT_SIMOOP: &[(&str, &str)] =
    &[("scale", "2"), ("warm_up_seconds", "60"), ("seconds", "60")];

/// Seconds of processor time that one run of a cell takes on the machines of the project, about.
/// The other cells take less than 6.
const LONG_RUNS: &[(&str, u32)] = &[
    ("metadata/*", 13),
    ("fsmark/box-2g-2zones", 13),
    ("simoop/numa2-4.11", 12),
    ("dd=1000/*", 9),
    ("simoop/uma-4.11", 8),
    ("simple-wb/1024M*", 6),
];

/// The policy of a position in an experiment.
///
/// Writers that do no I/O came with 3.2, and so did reclaim that leaves writing to the flusher.
/// Their experiment stands on 3.2 on both sides: with the reclaim of 3.1 the single pages that
/// kswapd writes from a 15 MiB zone would be most seeks of both, and hide what the switch does.
pub fn policy(change: Change, position: Position) -> &'static str {
    use Position::{After, Before, Between, LargeChunk};
    match (change, position) {
        (Change::WritebackInReclaim | Change::PerZoneDirty, Before) => "linux-3.0",
        (Change::WritebackInReclaim, _) => "linux-3.0+reclaim-writeback",
        (Change::ReclaimThrottling, Before) => "linux-5.15",
        (Change::ReclaimThrottling, _) => "linux-5.15+throttle-v2",
        (Change::PerZoneDirty, _) => "linux-3.0+zone-dirty-limits",
        (Change::DirtyThrottling, Before) => "linux-3.2+foreground",
        (Change::DirtyThrottling, LargeChunk) => "linux-3.2",
        (Change::DirtyThrottling, Between | After) => "linux-3.2+small-chunk",
        (Change::KswapdClasszone, Before) => "linux-4.11",
        (Change::KswapdClasszone, Between) => "linux-4.11+clear",
        (Change::KswapdClasszone, _) => "linux-4.11+keepawake",
    }
}

/// All cells of all experiments.
pub fn cells() -> Vec<Cell> {
    [
        writeback_in_reclaim(),
        reclaim_throttling(),
        per_zone_dirty(),
        dirty_throttling(),
        kswapd_classzone(),
    ]
    .concat()
}

/// A workload and the machine that it runs on.
#[derive(Clone, Copy)]
struct Place {
    workload: &'static str,
    machine: &'static str,
}

fn on(workload: &'static str, machine: &'static str) -> Place {
    Place { workload, machine }
}

fn cell(
    change: Change,
    name: &str,
    place: Place,
    knobs: &[(&'static str, &str)],
    positions: &'static [Position],
) -> Cell {
    Cell {
        name: name.into(),
        change,
        workload: place.workload,
        machine: place.machine,
        knobs: knobs
            .iter()
            .map(|(knob, value)| (*knob, (*value).into()))
            .collect(),
        positions,
        long: false,
        shorter: &[],
    }
}

impl Cell {
    fn long(mut self) -> Cell {
        self.long = true;
        self
    }

    fn shorter(mut self, knobs: &'static [(&'static str, &'static str)]) -> Cell {
        self.shorter = knobs;
        self
    }

    /// Many writers that are measured from the first moment on, as their authors did: what a store
    /// has not learned yet counts.
    fn measured_from_boot(mut self) -> Cell {
        self.knobs.push(("settle_seconds", "0".into()));
        self.shorter(FROM_BOOT)
    }

    /// How long one run of it takes beside the others: those that take longest are begun first, so
    /// that no processor waits for them at the end.
    ///
    /// ```
    /// let cells = forebay_lab::reproduction::plan::cells();
    /// let longest = cells.iter().max_by_key(|cell| cell.length()).expect("there are some");
    /// assert!(longest.length() > 0);
    /// ```
    pub fn length(&self) -> u32 {
        let found = LONG_RUNS.iter().find(|(cell, _)| selects(cell, &self.name));
        found.map_or(0, |(_, seconds)| *seconds)
    }

    /// The knobs of a run that is `whole`, or those of the shorter one.
    pub fn knobs_of(&self, whole: bool) -> Vec<(&'static str, String)> {
        let mut knobs = self.knobs.clone();
        if !whole {
            let shorter = self.shorter.iter();
            knobs.extend(shorter.map(|(knob, value)| (*knob, (*value).to_owned())));
        }
        knobs
    }
}

fn writeback_in_reclaim() -> Vec<Cell> {
    let change = Change::WritebackInReclaim;
    let mut cells = Vec::new();
    for (boot, machine) in BOOTS {
        for (variant, processors, processes) in VARIANTS {
            let (processors, processes) = (processors.to_string(), processes.to_string());
            for (printed, workload) in [
                ("fsmark", "fs-mark"),
                ("simple-wb", "simple-wb"),
                ("mmap-strm", "mmap-strm"),
            ] {
                let mut knobs = vec![("processors", processors.as_str())];
                // mmap-strm has this many processes of each kind.
                knobs.extend((printed != "simple-wb").then_some(("processes", processes.as_str())));
                let name = format!("{printed}/{boot}{variant}-xfs");
                let cell = cell(change, &name, on(workload, machine), &knobs, PAIR);
                // Of 1024M the one that is run soonest: four cells are few for a claim of ten in
                // twelve.
                let is_usual = boot == "512M" || boot == "1024M" && printed == "simple-wb";
                cells.push(if is_usual { cell } else { cell.long() });
            }
        }
    }
    for printed in ["fsmark", "simple-wb", "mmap-strm"] {
        let name = format!("{printed}/laptop");
        let place = on("laptop", "laptop-usb-1024m");
        let cell = cell(change, &name, place, &[("test", printed)], PAIR);
        cells.push(if printed == "simple-wb" {
            cell
        } else {
            cell.long()
        });
    }
    cells
}

fn reclaim_throttling() -> Vec<Cell> {
    let place = on("stutterp", "srv16-5.15");
    vec![cell(
        Change::ReclaimThrottling,
        "stutterp",
        place,
        STUTTERP,
        PAIR,
    )]
}

/// The author measured copies that followed each other: six of the first kind, ten of each control.
const AFTER_ANOTHER: (&str, &str) = ("runs_before", "1");

fn per_zone_dirty() -> Vec<Cell> {
    let change = Change::PerZoneDirty;
    let copy = |name: &str, knobs: &[(&'static str, &str)]| {
        cell(change, name, on("ntfs-copy", "box-4g-3zones"), knobs, PAIR)
    };
    let control = |file_system: &str| {
        let knobs = [
            ("file_system", file_system),
            ("bytes", "10G"),
            ("dirty_ratio", "40"),
            AFTER_ANOTHER,
        ];
        copy(&format!("copy/{file_system}"), &knobs)
    };
    vec![
        copy("copy/fuse-ntfs", &[AFTER_ANOTHER]),
        cell(
            change,
            "trace/fuse-ntfs",
            on("ntfs-copy", "laptop-4g-3zones"),
            &[("anonymous", "4K"), ("use_seconds", "3600"), AFTER_ANOTHER],
            PAIR,
        ),
        control("xfs"),
        control("ext4"),
        control("btrfs"),
        cell(
            change,
            "copy/box-2g-2zones",
            on("ntfs-copy", "box-2g-2zones"),
            &[("file_system", "xfs")],
            PAIR,
        ),
        cell(
            change,
            "fsmark/box-2g-2zones",
            on("fs-mark", "box-2g-2zones"),
            &[("processes", "2"), ("files", "300"), ("iterations", "25")],
            PAIR,
        ),
    ]
}

fn dirty_throttling() -> Vec<Cell> {
    let change = Change::DirtyThrottling;
    let many = |count: &str, machine: &'static str, positions| {
        let name = format!("dd={count}/{machine}");
        cell(
            change,
            &name,
            on("many-dd", machine),
            &[("writers", count)],
            positions,
        )
        .shorter(SHORT_WRITERS)
    };
    let mut cells = vec![
        many("1", "hdd1-desktop", PAIR),
        many("10", "hdd1-desktop", PAIR).measured_from_boot(),
        many("100", "hdd1-desktop", PAIR).measured_from_boot(),
        many("1000", "hdd1-desktop", PAIR),
        many("50", "hdd1-3g", WITH_CHUNK),
        cell(
            change,
            "rsync/hdd1-3g",
            on("many-dd", "hdd1-3g"),
            &[("writers", "50"), ("rsync", "1")],
            WITH_CHUNK,
        )
        .shorter(SHORT_WRITERS),
        many("1", "raid0-12", WITH_CHUNK).shorter(SHORT_ARRAY),
        many("1000", "raid0-12", WITH_CHUNK).shorter(SHORT_ARRAY),
        cell(
            change,
            "metadata/vm8-4g",
            on("fs-mark", "vm8-4g"),
            METADATA,
            PAIR,
        ),
        cell(
            change,
            "jbod/hdd-usbkey",
            on("jbod", "hdd-usbkey"),
            &[],
            PAIR,
        ),
    ];
    // The flusher starts at a tenth of the limit.
    for (limit, background) in [
        ("1M", "100K"),
        ("10M", "1M"),
        ("100M", "10M"),
        ("1G", "100M"),
    ] {
        for writers in ["1", "2", "10"] {
            let name = format!("nfs/{limit}-{writers}dd");
            let knobs = [
                ("dirty_limit", limit),
                ("background_limit", background),
                ("writers", writers),
            ];
            cells.push(cell(change, &name, on("nfs", "nfs-client"), &knobs, PAIR));
        }
    }
    cells
}

fn kswapd_classzone() -> Vec<Cell> {
    let change = Change::KswapdClasszone;
    vec![
        cell(
            change,
            "simoop/numa2-4.11",
            on("simoop", "numa2-4.11"),
            SIMOOP,
            WITH_BETWEEN,
        )
        .shorter(SHORT_SIMOOP),
        cell(
            change,
            "simoop/uma-4.11",
            on("simoop", "uma-4.11"),
            SIMOOP,
            PAIR,
        )
        .shorter(SHORT_SIMOOP),
    ]
}

/// Whether `name` is one of `selector`, a list of names separated by spaces in which a `*` matches
/// any letters.
///
/// ```
/// use forebay_lab::reproduction::plan::selects;
/// assert!(selects("fsmark/512M*-xfs copy/xfs", "fsmark/512M-4X-xfs"));
/// assert!(!selects("fsmark/512M*-xfs copy/xfs", "copy/ext4"));
/// ```
pub fn selects(selector: &str, name: &str) -> bool {
    let matches = |pattern: &str| match pattern.split_once('*') {
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
        None => pattern == name,
    };
    selector.split(' ').any(matches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Plan;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn cells_have_different_names() {
        let cells = cells();
        let names: BTreeSet<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(names.len(), cells.len());
    }

    #[test]
    fn every_long_run_is_one_of_a_cell() {
        let cells = cells();
        for (selector, seconds) in LONG_RUNS {
            let mut named = cells.iter().filter(|cell| selects(selector, &cell.name));
            assert!(named.any(|cell| cell.length() == *seconds), "{selector}");
        }
    }

    #[test]
    fn every_cell_names_what_there_is() {
        for cell in cells() {
            for &position in cell.positions {
                let plan = Plan::new(cell.workload, cell.machine).expect("it ships");
                for whole in [true, false] {
                    let knobs = cell.knobs_of(whole);
                    let turned = knobs
                        .iter()
                        .fold(plan.clone(), |plan, (knob, value)| plan.with(knob, value));
                    let checked = turned.under(policy(cell.change, position)).check();
                    assert!(checked.is_ok(), "{}: {:?}", cell.name, checked.err());
                }
            }
        }
    }

    #[test]
    fn what_is_run_for_two_positions_is_two_plans() {
        for whole in [true, false] {
            let mut seen = BTreeMap::new();
            for cell in cells() {
                for &position in cell.positions {
                    let knobs: BTreeMap<_, _> = cell.knobs_of(whole).into_iter().collect();
                    let policy = policy(cell.change, position);
                    let plan = (cell.workload, cell.machine, policy, knobs);
                    // Cells of one plan share its run, but only if they ask for the same form of
                    // it.
                    let first = *seen.entry(plan).or_insert(position);
                    assert_eq!(first, position, "{}", cell.name);
                }
            }
        }
    }

    #[test]
    fn no_position_has_the_policy_of_another_but_where_a_knob_makes_the_difference() {
        for change in Change::ALL {
            let before = policy(change, Position::Before);
            assert_ne!(before, policy(change, Position::After), "{change:?}");
        }
        let between = policy(Change::KswapdClasszone, Position::Between);
        assert_ne!(between, policy(Change::KswapdClasszone, Position::After));
    }
}
