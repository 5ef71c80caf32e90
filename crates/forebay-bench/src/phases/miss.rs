//! Reads that always miss: the order of the pages is random and contains each page once. So a page
//! comes again only after four budgets of other pages, and no cache can have kept it.

use crate::contender::Sample;
use crate::measure::Times;
use crate::zipf::permutation;
use forebay_base::PAGE_BYTES;

/// Reads of one call if it may have several under way. The number under way sinks only while the
/// call waits for the last of them.
pub(crate) const BATCH_PAGES: usize = 256;

/// The endless order of pages.
pub(crate) struct MissOrder {
    pages: Vec<u32>,
    next: usize,
}

impl MissOrder {
    /// An order over `pages` pages that `seed` chooses.
    pub(crate) fn new(pages: u64, seed: u64) -> MissOrder {
        MissOrder {
            pages: permutation(pages, seed),
            next: 0,
        }
    }

    /// The next page.
    pub(crate) fn next_page(&mut self) -> u64 {
        let page = self.pages[self.next];
        self.next = (self.next + 1) % self.pages.len();
        u64::from(page)
    }

    /// First byte of the next page.
    pub(crate) fn next_offset(&mut self) -> u64 {
        self.next_page() * PAGE_BYTES as u64
    }
}

/// The samples of `times.count()` reads that took `elapsed_ns` in all and `processor_ns` of
/// processor time.
pub(crate) fn samples(times: &Times, elapsed_ns: u64, processor_ns: u64) -> Vec<Sample> {
    let mut samples = rates(times.count(), elapsed_ns, processor_ns);
    samples.insert(1, times.micros("read"));
    samples
}

/// The same of reads that were not timed one by one.
pub(crate) fn rates(reads: u64, elapsed_ns: u64, processor_ns: u64) -> Vec<Sample> {
    let reads = reads.max(1) as f64;
    vec![
        Sample::plain("rate", "reads/s", reads * 1e9 / elapsed_ns.max(1) as f64),
        Sample::plain("processor", "us a read", processor_ns as f64 / reads / 1e3),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_page_comes_again_before_all_others() {
        let mut order = MissOrder::new(100, 1);
        let mut last_seen = [None; 100];
        for step in 0..500_usize {
            let page = order.next_page() as usize;
            if let Some(before) = last_seen[page].replace(step) {
                assert_eq!(step - before, 100);
            }
        }
    }

    #[test]
    fn rates_and_costs_are_for_one_read() {
        let mut times = Times::default();
        (0..1_000).for_each(|_| times.record(50_000));
        let found = samples(&times, 100_000_000, 4_000_000);
        assert!((found[0].value - 10_000.0).abs() < 1e-6);
        assert!((found[1].value - 50.0).abs() < 0.1);
        assert!((found[2].value - 4.0).abs() < 1e-6);
    }
}
