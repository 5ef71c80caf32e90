//! What the memory budget buys: every byte that a cache takes at start, counted before it is taken.

use crate::counters;
use crate::error::{BuildError, MemoryError};
use crate::lists::shadow;
use crate::marks;
use crate::settings::{Elastic, NodeSettings, PageMemory, Settings, ZoneSettings};
use crate::state::{dirty_index, frame, index, ledger, times, zone};
use forebay_base::PAGE_BYTES;
use forebay_base::units::{byte_of, page_of, show_bytes};
use forebay_rt::machine;

/// The most that a page may cost beyond its own bytes (promise 1 of the design).
pub(crate) const OVERHEAD_LIMIT_BYTES: u64 = 64;

/// A cache of fewer frames may cost more a page: what it needs at least does not shrink with it.
const SMALL_FRAMES: u64 = 1_950;

/// Of every eight frames, this many may sit in dirty blocks of their own, which is twice what the
/// usual dirty limit allows. If a larger limit is set, a writer that scatters its pages may find
/// the slab full before it reaches the limit. It then waits for the flusher.
const DIRTY_BLOCKS_OF_EIGHT: u64 = 3;

/// Frames of the smallest zone that reclaim can work in: its watermarks and two batches.
const SMALLEST_ZONE_PAGES: u64 = 128;

/// What a page costs in all, in a large cache.
const PAGE_PRICE_BYTES: u64 = PAGE_BYTES as u64 + OVERHEAD_LIMIT_BYTES;

/// Costs that do not grow with the number of pages are at most the price of this many pages.
const FIXED_PAGES: u64 = 8;

/// The memory of objects is taken off the pages in steps of this part of the budget, and of at
/// least this many bytes, so that a few objects change nothing.
const OBJECT_STEPS: u64 = 256;
const LEAST_STEP_BYTES: u64 = 8 * PAGE_BYTES as u64;

/// Objects may take this part of the budget before closed files are forgotten for new ones.
const OBJECTS_PART: u64 = 4;

/// The sizes of all parts of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Frames of each zone, node by node.
    pub(crate) zone_pages: Vec<Vec<u64>>,
    pub(crate) frames: u32,
    pub(crate) dirty_blocks: u32,
    pub(crate) io_vectors: usize,
    pub(crate) io_vector_pages: usize,
    pub(crate) wait_queues: usize,
}

impl Settings {
    /// Refuses what [`crate::Cache::new`] would refuse on this machine, and takes no memory.
    ///
    /// # Errors
    /// [`BuildError::BadSetting`], `BudgetTooSmall`, `FloorTooSmall`, `TooMuchMemory`.
    ///
    /// ```
    /// # use forebay_engine as forebay;
    /// use forebay::Settings;
    /// let small = Settings { memory_bytes: 1 << 10, ..Settings::default() };
    /// assert_eq!(small.check(), forebay::Cache::new(small).map(drop));
    /// ```
    pub fn check(&self) -> Result<(), BuildError> {
        Budget::checked(self).map(drop)
    }
}

impl Budget {
    /// Divides the budget of `settings`, if a cache can be built with them on this machine.
    pub(crate) fn checked(settings: &Settings) -> Result<Budget, BuildError> {
        settings.check_values()?;
        let budget = Budget::plan(settings)?;
        budget.check_floor(settings)?;
        budget.check_machine(settings)?;
        Ok(budget)
    }

    /// Divides the budget of `settings`.
    pub(crate) fn plan(settings: &Settings) -> Result<Budget, BuildError> {
        if are_given(settings) {
            return Ok(Budget::of(given_pages(settings)?));
        }
        let mut left = settings.memory_bytes;
        loop {
            let budget = Budget::of(pages_by_weight(settings, left)?);
            // The ledger is beside what a page may cost, and what does not grow with the pages is
            // more than their share of it in a small budget.
            let excess = budget.memory_bytes().saturating_sub(settings.memory_bytes);
            if excess == 0 {
                return Ok(budget);
            }
            left = left.saturating_sub(excess.next_multiple_of(PAGE_PRICE_BYTES));
        }
    }

    fn of(zone_pages: Vec<Vec<u64>>) -> Budget {
        let frames: u64 = zone_pages.iter().flatten().sum();
        let budget = Budget {
            zone_pages,
            frames: frames as u32,
            dirty_blocks: (frames * DIRTY_BLOCKS_OF_EIGHT / 8) as u32,
            io_vectors: (frames / 512).clamp(2, 128) as usize,
            io_vector_pages: (frames / 64).clamp(4, 256) as usize,
            wait_queues: (frames / 512).clamp(4, 256) as usize,
        };
        let overhead = budget.overhead_bytes();
        assert!(
            overhead <= frames * OVERHEAD_LIMIT_BYTES || frames < SMALL_FRAMES,
            "{overhead} bytes beside {frames} pages exceed the promise"
        );
        budget
    }

    /// Checks whether a cache that was built with this budget can have one of `memory_bytes`.
    pub(crate) fn check(&self, settings: &Settings, memory_bytes: u64) -> Result<(), MemoryError> {
        let limit_bytes = self.limit_bytes(settings);
        if memory_bytes > limit_bytes {
            return Err(MemoryError::TooLarge {
                given_bytes: memory_bytes,
                limit_bytes,
            });
        }
        let needed_bytes = byte_of(self.needed_frames(settings)) + self.beside_bytes();
        if memory_bytes < needed_bytes {
            return Err(MemoryError::TooSmall {
                given_bytes: memory_bytes,
                needed_bytes,
            });
        }
        Ok(())
    }

    /// Refuses a budget that this process cannot have, before a page of it is touched: the system
    /// grants the addresses, and later ends the process. Memory that is taken at start has to be
    /// available now; memory that is taken when it is needed has to be there at all, and of an
    /// elastic budget its floor.
    pub(crate) fn check_machine(&self, settings: &Settings) -> Result<(), BuildError> {
        let given_bytes = match settings.elastic {
            Some(elastic) => elastic.floor_bytes,
            None => self.limit_bytes(settings),
        };
        let available_bytes = if settings.prefault && settings.elastic.is_none() {
            machine::available_bytes()
        } else {
            let limits = [machine::memory_bytes(), machine::limit_bytes()];
            limits.into_iter().flatten().min()
        };
        match available_bytes {
            // What the system does not show cannot be checked.
            Some(available_bytes)
                if settings.page_memory == PageMemory::Real && given_bytes > available_bytes =>
            {
                Err(BuildError::TooMuchMemory {
                    given_bytes,
                    available_bytes,
                })
            }
            _ => Ok(()),
        }
    }

    /// Refuses a floor that [`Budget::check`] does not allow.
    pub(crate) fn check_floor(&self, settings: &Settings) -> Result<(), BuildError> {
        let Some(Elastic { floor_bytes }) = settings.elastic else {
            return Ok(());
        };
        self.check(settings, floor_bytes)
            .map_err(|error| match error {
                MemoryError::TooSmall {
                    given_bytes,
                    needed_bytes,
                } => BuildError::FloorTooSmall {
                    given_bytes,
                    needed_bytes,
                },
                error => BuildError::BadSetting {
                    setting: "elastic",
                    given: error.to_string(),
                    allowed: "a floor that is at most memory_bytes",
                },
            })
    }

    /// The largest budget that [`Budget::check`] allows.
    pub(crate) fn limit_bytes(&self, settings: &Settings) -> u64 {
        if are_given(settings) {
            self.memory_bytes()
        } else {
            settings.memory_bytes
        }
    }

    /// The frames of each zone if a cache that was built with this budget gets one of
    /// `memory_bytes`, of which objects take `object_bytes`. The memory beside the pages stays, and
    /// each zone keeps its part of the pages. Objects leave at least half of the pages.
    pub(crate) fn resized(
        &self,
        settings: &Settings,
        memory_bytes: u64,
        object_bytes: u64,
    ) -> Vec<Vec<u64>> {
        let all = u64::from(self.frames);
        let within = |bytes: u64| page_of(bytes.saturating_sub(self.beside_bytes())).min(all);
        let most = within(memory_bytes);
        let least = self.needed_frames(settings).max(most / 2).min(most);
        let frames = within(memory_bytes.saturating_sub(object_bytes)).max(least);
        let part = |&pages: &u64| (u128::from(pages) * u128::from(frames) / u128::from(all)) as u64;
        let of_node = |pages: &Vec<u64>| pages.iter().map(part).collect();
        self.zone_pages.iter().map(of_node).collect()
    }

    /// The fewest frames with which every zone is still usable.
    fn needed_frames(&self, settings: &Settings) -> u64 {
        let all = u64::from(self.frames);
        let pages = self.zone_pages.iter().flatten();
        let needed_frames = |(zone, &pages): (&ZoneSettings, &u64)| {
            let needed = smallest_pages(zone).min(pages) * all;
            needed
                .checked_div(pages)
                .map_or(0, |_| needed.div_ceil(pages))
        };
        let needed = settings.zones().zip(pages).map(needed_frames).max();
        needed.unwrap_or(0)
    }

    /// Bytes of the pages and of everything beside them.
    pub(crate) fn memory_bytes(&self) -> u64 {
        u64::from(self.frames) * PAGE_BYTES as u64 + self.beside_bytes()
    }

    /// Bytes of everything beside the pages: what they cost, and histograms, which are the same
    /// few KiB in each cache.
    pub(crate) fn beside_bytes(&self) -> u64 {
        self.overhead_bytes() + times::BYTES as u64
    }

    /// Bytes that the pages cost beside their own.
    pub(crate) fn overhead_bytes(&self) -> u64 {
        self.bytes_beside_ledger() + self.ledger_room().bytes() as u64
    }

    /// The ledger of waits has what the rest leaves of the promise.
    pub(crate) fn ledger_room(&self) -> ledger::Room {
        let promised = u64::from(self.frames) * OVERHEAD_LIMIT_BYTES;
        let left = promised.saturating_sub(self.bytes_beside_ledger());
        ledger::Room::within(left as usize)
    }

    fn bytes_beside_ledger(&self) -> u64 {
        let per_frame = frame::FRAME_BYTES + index::BYTES_PER_FRAME + shadow::BYTES_PER_FRAME;
        let vectors = self.io_vectors * self.io_vector_pages * size_of::<usize>();
        let queues = self.wait_queues * frame::QUEUE_BYTES;
        let blocks = self.dirty_blocks as usize * dirty_index::BLOCK_BYTES;
        let counts = counters::BYTES + marks::BYTES + index::stretch_bytes(self.frames);
        let free = zone::free_bytes(self.frames);
        (self.frames as usize * per_frame + vectors + queues + blocks + counts + free) as u64
    }
}

/// Whether every zone says how many frames it has.
fn are_given(settings: &Settings) -> bool {
    settings.zones().all(|zone| zone.managed_pages.is_some())
}

/// The steps in which the memory of objects is taken off the pages. None if zones say how many
/// frames they have: then the zones keep their frames, and objects are outside the budget.
pub(crate) fn object_step_bytes(settings: &Settings) -> Option<u64> {
    let step_bytes = (settings.memory_bytes / OBJECT_STEPS).max(LEAST_STEP_BYTES);
    (!are_given(settings)).then_some(step_bytes)
}

/// The memory that objects may take before closed files are forgotten for new ones.
pub(crate) fn object_room_bytes(settings: &Settings, memory_bytes: u64) -> u64 {
    if are_given(settings) {
        u64::MAX
    } else {
        memory_bytes / OBJECTS_PART
    }
}

/// The bytes that are taken off the pages if objects take `object_bytes` and `charged_bytes` were
/// taken off so far. The result does not swing when one object comes and goes at the edge of a
/// step, because bytes are given back only half a step below it. If there are few objects, nothing
/// stays taken off.
pub(crate) fn next_charge(charged_bytes: u64, object_bytes: u64, step_bytes: u64) -> u64 {
    let is_more = object_bytes >= charged_bytes + step_bytes;
    let is_less = object_bytes + step_bytes / 2 < charged_bytes;
    if is_more || is_less {
        object_bytes / step_bytes * step_bytes
    } else {
        charged_bytes
    }
}

/// The fewest frames with which a zone is usable: below twice what it keeps free, it could not hold
/// anything.
fn smallest_pages(zone: &ZoneSettings) -> u64 {
    let mark = zone.marks.map_or(0, |marks| marks.high);
    let reserves = zone.lowmem_reserve_pages.iter().flatten();
    let kept = mark + reserves.max().copied().unwrap_or(0);
    SMALLEST_ZONE_PAGES.max(2 * kept)
}

/// The frames of zones that say how many frames they have.
fn given_pages(settings: &Settings) -> Result<Vec<Vec<u64>>, BuildError> {
    let bad = |given: String| BuildError::BadSetting {
        setting: "managed_pages",
        given,
        allowed: "0, or 128 to 2147483646 frames in all",
    };
    let mut total = 0_u64;
    for zone in settings.zones() {
        let pages = zone.managed_pages.unwrap_or(0);
        if pages > 0 && pages < SMALLEST_ZONE_PAGES {
            return Err(bad(format!("{pages} in {}", zone.name)));
        }
        total = total.saturating_add(pages);
    }
    if total == 0 || total >= u64::from(index::FRAMES_LIMIT) {
        return Err(bad(total.to_string()));
    }
    let of_zone = |zone: &ZoneSettings| zone.managed_pages.unwrap_or(0);
    let of_node = |node: &NodeSettings| node.zones.iter().map(of_zone).collect();
    Ok(settings.nodes.iter().map(of_node).collect())
}

/// The frames that the memory budget buys, divided among the zones by their weight.
fn pages_by_weight(settings: &Settings, memory_bytes: u64) -> Result<Vec<Vec<u64>>, BuildError> {
    let needed_pages = SMALLEST_ZONE_PAGES * settings.zones().count() as u64;
    let frames = (memory_bytes / PAGE_PRICE_BYTES).min(u64::from(index::FRAMES_LIMIT) - 1);
    if frames < needed_pages {
        return Err(too_small(
            settings,
            (needed_pages + FIXED_PAGES) * PAGE_PRICE_BYTES,
            "the smallest zone",
        ));
    }
    // Wider than one weight, because each weight may be as large as its type allows.
    let weights: u128 = settings.zones().map(|zone| u128::from(zone.weight)).sum();
    let mut zone_pages = Vec::new();
    for node in &settings.nodes {
        let mut pages = Vec::new();
        for zone in &node.zones {
            let share = u128::from(frames) * u128::from(zone.weight) / weights;
            if (share as u64) < SMALLEST_ZONE_PAGES {
                let factor = SMALLEST_ZONE_PAGES.div_ceil((share as u64).max(1));
                let needed = settings.memory_bytes.saturating_mul(factor);
                return Err(too_small(settings, needed, &zone.name));
            }
            pages.push(share as u64);
        }
        zone_pages.push(pages);
    }
    Ok(zone_pages)
}

fn too_small(settings: &Settings, needed_bytes: u64, zone: &str) -> BuildError {
    let zone = format!("{zone} ({} in all)", show_bytes(needed_bytes));
    BuildError::BudgetTooSmall {
        given_bytes: settings.memory_bytes,
        needed_bytes,
        zone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(memory_bytes: u64) -> Result<Budget, BuildError> {
        Budget::plan(&Settings {
            memory_bytes,
            ..Settings::default()
        })
    }

    #[test]
    fn a_page_costs_at_most_64_bytes_more_than_its_own() {
        for mib in [8, 16, 64, 256, 1024, 16_384] {
            let budget = plan(mib << 20).expect("the budget is large enough");
            let per_page = budget.overhead_bytes().div_ceil(u64::from(budget.frames));
            assert!(
                per_page <= OVERHEAD_LIMIT_BYTES,
                "{mib} MiB: {per_page} bytes a page"
            );
            let all = budget.memory_bytes();
            assert_eq!(
                all - budget.overhead_bytes() - u64::from(budget.frames) * PAGE_BYTES as u64,
                times::BYTES as u64
            );
            assert!(all <= mib << 20, "{mib} MiB: {all} bytes in all");
        }
    }

    #[test]
    fn a_small_budget_is_kept_as_well() {
        for kib in (640..4096).step_by(7) {
            let budget = plan(kib << 10).expect("the budget is large enough");
            assert!(budget.memory_bytes() <= kib << 10, "{kib} KiB: {budget:?}");
        }
    }

    #[test]
    fn a_budget_too_small_names_the_one_that_works() {
        let Err(BuildError::BudgetTooSmall { needed_bytes, .. }) = plan(64 << 10) else {
            panic!("64 KiB cannot hold a zone");
        };
        assert!(plan(needed_bytes).is_ok());
    }

    #[test]
    fn what_is_taken_off_for_objects_comes_back_when_they_are_gone() {
        let next = |charged_bytes, object_bytes| next_charge(charged_bytes, object_bytes, 100);
        assert_eq!(
            [0, 99, 100, 199, 250].map(|bytes| next(0, bytes)),
            [0, 0, 100, 100, 200]
        );
        // At the edge nothing moves.
        assert_eq!(
            [250, 200, 199, 150, 149].map(|bytes| next(200, bytes)),
            [200, 200, 200, 200, 100]
        );
        assert_eq!(
            [99, 50, 49, 0].map(|bytes| next(100, bytes)),
            [100, 100, 0, 0]
        );
    }

    #[test]
    fn zones_share_by_weight() {
        let zone = |name: &str, weight| ZoneSettings {
            name: name.into(),
            weight,
            ..ZoneSettings::default()
        };
        let nodes = vec![NodeSettings {
            zones: vec![zone("DMA32", 1), zone("Normal", 3)],
        }];
        let settings = Settings {
            memory_bytes: 64 << 20,
            nodes,
            ..Settings::default()
        };
        let budget = Budget::plan(&settings).expect("the budget is large enough");
        let (small, large) = (budget.zone_pages[0][0], budget.zone_pages[0][1]);
        assert!(large.abs_diff(3 * small) <= 3, "{small} and {large}");
    }
}
