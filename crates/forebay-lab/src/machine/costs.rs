//! What work costs on processors of three ages (spec/workloads.md section 6).

use forebay_rt::WorkCosts;
use serde::{Deserialize, Serialize};

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
    /// Bytes that one processor copies in a microsecond.
    copy_bytes_per_us: u64,
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
};

/// Isolating a batch of 32 pages, and putting it back, each holds the lock of the lists.
const LRU_LOCK_NS: u64 = 4_000 + 4_000;

/// Checking whether to pause, without a pause.
const THROTTLE_CHECK_NS: u64 = 500;

impl CostClass {
    /// The costs of one page, one call, one request, at `percent` of what the table says.
    pub fn work_costs(self, percent: u64) -> WorkCosts {
        let column = match self {
            CostClass::Y2011 => Y2011,
            CostClass::Y2017 => Y2017,
            CostClass::Y2021 => Y2021,
            CostClass::Free => return WorkCosts::default(),
        };
        let of = |ns: u64| ns * percent / 100;
        let copy_page_ns = forebay_base::PAGE_BYTES as u64 * 1_000 / column.copy_bytes_per_us;
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
            throttle_check_ns: of(THROTTLE_CHECK_NS),
            lock_handover_ns: 0,
            lru_lock_ns: of(LRU_LOCK_NS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_2011_column_adds_up_to_the_published_processor_time() {
        let costs = CostClass::Y2011.work_costs(100);
        let write_ns = costs.copy_page_ns + costs.lookup_page_ns;
        // fs_mark on 512 MiB with four processes: millions of pages written, written back,
        // scanned and freed, against 53.3 s of processor time.
        let ns = 9.47 * (write_ns + costs.writeback_page_ns) as f64
            + 19.8 * costs.scan_page_ns as f64
            + 9.76 * costs.free_page_ns as f64;
        assert!((ns / 1_000.0 - 52.7).abs() < 0.2, "{ns}");
    }
}
