//! What work costs on processors of three ages (spec/workloads.md section 6).

use forebay_rt::WorkCosts;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, de};
use std::fmt;

/// The age of a machine's processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CostClass {
    /// The machines on which write-back was measured.
    #[serde(rename = "2011")]
    Y2011,
    /// The two-node server.
    #[serde(rename = "2017")]
    Y2017,
    /// The server with sixteen processors.
    #[serde(rename = "2021")]
    Y2021,
    /// Work takes no time.
    #[serde(rename = "none")]
    Free,
}

/// One column of the table, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Column {
    call: u64,
    /// A buffered write of one page: copy, insertion, accounting.
    write_page: u64,
    writeback_page: u64,
    request: u64,
    scan_page: u64,
    free_page: u64,
    reclaim_write: u64,
    fault: u64,
    swap_in: u64,
    map_present: u64,
    map_new: u64,
    unmap: u64,
    switch: u64,
    /// Bytes that one processor copies in a microsecond; 0 if a copy takes no time.
    copy_bytes_per_us: u64,
    throttle_check: u64,
    lru_lock: u64,
    file_step: u64,
    create: u64,
    inode: u64,
}

const Y2011: Column = Column {
    call: 150,
    write_page: 2_300,
    writeback_page: 1_600,
    request: 8_000,
    scan_page: 400,
    free_page: 800,
    reclaim_write: 4_000,
    fault: 1_500,
    swap_in: 5_000,
    map_present: 1_000,
    map_new: 3_000,
    unmap: 200,
    switch: 3_000,
    copy_bytes_per_us: 2_500,
    throttle_check: THROTTLE_CHECK_NS,
    lru_lock: LRU_LOCK_NS,
    file_step: FILE_STEP_NS,
    create: 0,
    inode: 0,
};

const Y2017: Column = Column {
    call: 150,
    write_page: 1_000,
    writeback_page: 600,
    request: 6_000,
    scan_page: 250,
    free_page: 500,
    reclaim_write: 2_500,
    fault: 1_600,
    swap_in: 4_000,
    map_present: 700,
    map_new: 2_000,
    unmap: 150,
    switch: 2_000,
    copy_bytes_per_us: 6_000,
    throttle_check: THROTTLE_CHECK_NS,
    lru_lock: LRU_LOCK_NS,
    file_step: FILE_STEP_NS,
    create: 0,
    inode: 0,
};

const Y2021: Column = Column {
    call: 250,
    write_page: 700,
    writeback_page: 400,
    request: 5_000,
    scan_page: 200,
    free_page: 400,
    reclaim_write: 2_000,
    fault: 900,
    swap_in: 3_000,
    map_present: 500,
    map_new: 1_500,
    unmap: 100,
    switch: 2_000,
    copy_bytes_per_us: 8_000,
    throttle_check: THROTTLE_CHECK_NS,
    lru_lock: LRU_LOCK_NS,
    file_step: FILE_STEP_NS,
    create: 0,
    inode: 0,
};

/// How long the lock of a store's dirty files is held for a step over one.
const FILE_STEP_NS: u64 = 6_000;

/// Isolating a batch of 32 pages, and putting it back, each holds the lock of the lists.
const LRU_LOCK_NS: u64 = 4_000 + 4_000;

/// Checking whether to pause, without a pause.
const THROTTLE_CHECK_NS: u64 = 500;

/// The longest that work may take: a second for a page is no processor.
const MOST_NS: u64 = 1_000_000_000;

/// What work costs on the processors of a machine: as a class says, or spelled out.
///
/// ```
/// use forebay_lab::machine::{CostClass, Costs};
/// assert_eq!(Costs::from(CostClass::Y2021).work_costs(100).call_ns, 250);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    column: Column,
}

impl From<CostClass> for Costs {
    fn from(class: CostClass) -> Costs {
        let column = match class {
            CostClass::Y2011 => Y2011,
            CostClass::Y2017 => Y2017,
            CostClass::Y2021 => Y2021,
            CostClass::Free => Column::default(),
        };
        Costs { column }
    }
}

/// Costs that are spelled out: those of a class, except the ones that are given.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spelled {
    like: CostClass,
    call_ns: Option<u64>,
    write_page_ns: Option<u64>,
    writeback_page_ns: Option<u64>,
    request_ns: Option<u64>,
    scan_page_ns: Option<u64>,
    free_page_ns: Option<u64>,
    reclaim_write_page_ns: Option<u64>,
    fault_ns: Option<u64>,
    swap_in_page_ns: Option<u64>,
    map_present_page_ns: Option<u64>,
    map_new_page_ns: Option<u64>,
    unmap_page_ns: Option<u64>,
    switch_ns: Option<u64>,
    copy_bytes_per_us: Option<u64>,
    create_ns: Option<u64>,
    inode_ns: Option<u64>,
}

impl Spelled {
    fn costs(&self) -> Result<Costs, String> {
        let mut costs = Costs::from(self.like);
        let column = &mut costs.column;
        let given = [
            ("call_ns", self.call_ns, &mut column.call),
            ("write_page_ns", self.write_page_ns, &mut column.write_page),
            (
                "writeback_page_ns",
                self.writeback_page_ns,
                &mut column.writeback_page,
            ),
            ("request_ns", self.request_ns, &mut column.request),
            ("scan_page_ns", self.scan_page_ns, &mut column.scan_page),
            ("free_page_ns", self.free_page_ns, &mut column.free_page),
            (
                "reclaim_write_page_ns",
                self.reclaim_write_page_ns,
                &mut column.reclaim_write,
            ),
            ("fault_ns", self.fault_ns, &mut column.fault),
            ("swap_in_page_ns", self.swap_in_page_ns, &mut column.swap_in),
            (
                "map_present_page_ns",
                self.map_present_page_ns,
                &mut column.map_present,
            ),
            ("map_new_page_ns", self.map_new_page_ns, &mut column.map_new),
            ("unmap_page_ns", self.unmap_page_ns, &mut column.unmap),
            ("switch_ns", self.switch_ns, &mut column.switch),
            (
                "copy_bytes_per_us",
                self.copy_bytes_per_us,
                &mut column.copy_bytes_per_us,
            ),
            ("create_ns", self.create_ns, &mut column.create),
            ("inode_ns", self.inode_ns, &mut column.inode),
        ];
        for (name, value, cost) in given {
            let Some(value) = value else { continue };
            if value > MOST_NS {
                return Err(format!("{name} is {value}; 0 to {MOST_NS} are allowed"));
            }
            *cost = value;
        }
        let (page, copy) = (column.write_page, column.copy_page());
        if page < copy {
            return Err(format!(
                "write_page_ns is {page}; at least the {copy} of its copy, by copy_bytes_per_us, \
                 are allowed"
            ));
        }
        Ok(costs)
    }
}

/// A class by its name, or a table that spells the costs out.
impl<'de> Deserialize<'de> for Costs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Costs, D::Error> {
        struct NameOrTable;
        impl<'de> Visitor<'de> for NameOrTable {
            type Value = Costs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("2011, 2017, 2021 or none, or a table { like = \"2021\", .. }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Costs, E> {
                CostClass::deserialize(text.into_deserializer()).map(Costs::from)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Costs, A::Error> {
                let spelled = Spelled::deserialize(MapAccessDeserializer::new(map))?;
                spelled.costs().map_err(de::Error::custom)
            }
        }
        deserializer.deserialize_any(NameOrTable)
    }
}

impl Column {
    fn copy_page(&self) -> u64 {
        let page_bytes = forebay_base::PAGE_BYTES as u64;
        (page_bytes * 1_000)
            .checked_div(self.copy_bytes_per_us)
            .unwrap_or(0)
    }
}

impl Costs {
    /// The costs of one page, one call, one request, at `percent` of what the table says.
    pub fn work_costs(self, percent: u64) -> WorkCosts {
        let column = self.column;
        let of = |ns: u64| ns * percent / 100;
        let copy_page_ns = column.copy_page();
        WorkCosts {
            call_ns: of(column.call),
            copy_page_ns: of(copy_page_ns),
            // What a buffered write costs besides its copy.
            lookup_page_ns: of(column.write_page - copy_page_ns),
            fault_page_ns: of(column.fault),
            map_present_page_ns: of(column.map_present),
            map_new_page_ns: of(column.map_new),
            swap_in_page_ns: of(column.swap_in),
            unmap_page_ns: of(column.unmap),
            switch_ns: of(column.switch),
            scan_page_ns: of(column.scan_page),
            free_page_ns: of(column.free_page),
            writeback_page_ns: of(column.writeback_page),
            request_ns: of(column.request),
            reclaim_write_page_ns: of(column.reclaim_write),
            throttle_check_ns: of(column.throttle_check),
            lock_handover_ns: 0,
            lru_lock_ns: of(column.lru_lock),
            file_step_ns: of(column.file_step),
            create_ns: of(column.create),
            inode_ns: of(column.inode),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_is_free_costs_nothing() {
        let free = Costs::from(CostClass::Free).work_costs(100);
        assert_eq!(free, WorkCosts::default());
    }

    #[test]
    fn the_2011_column_adds_up_to_the_published_processor_time() {
        let costs = Costs::from(CostClass::Y2011).work_costs(100);
        let write_ns = costs.copy_page_ns + costs.lookup_page_ns;
        // fs_mark on 512 MiB with four processes: millions of pages written, written back,
        // scanned and freed, against 53.3 s of processor time.
        let ns = 9.47 * (write_ns + costs.writeback_page_ns) as f64
            + 19.8 * costs.scan_page_ns as f64
            + 9.76 * costs.free_page_ns as f64;
        assert!((ns / 1_000.0 - 52.7).abs() < 0.2, "{ns}");
    }
}
