//! Runs of pages that are read in, in whole and in part.

use super::*;
use crate::cache::Cache;
use crate::engine::Engine;
use crate::event::CallKind;
use crate::file::{Advice, File};
use crate::lab::LabCache;
use crate::state::zone::Zone;
use forebay_base::Span;
use forebay_rt::{Rt, Virtual, VirtualSettings};
use forebay_store::{Fault, FaultAction, FaultStore, MemoryStore, ObjectId};
use std::sync::Arc;

const PAGES: u64 = 40;

struct World {
    rt: Rt,
    cache: Cache,
    file: File,
    faults: Arc<FaultStore>,
}

impl World {
    /// A file of 40 pages; each page is filled with its number.
    fn new(rt: &Rt) -> World {
        let cache = Cache::small(rt, 8);
        let memory = MemoryStore::new();
        let bytes: Vec<u8> = (0..PAGES)
            .flat_map(|page| [page as u8; PAGE_BYTES])
            .collect();
        memory.fill(ObjectId(1), &bytes);
        let faults = Arc::new(FaultStore::new(rt.clone(), Arc::new(memory)));
        let store = cache.attach(faults.clone()).expect("a store is attached");
        let length_bytes = bytes.len() as u64;
        let file = cache.open(&store, ObjectId(1), length_bytes);
        World {
            rt: rt.clone(),
            file: file.expect("it opens"),
            cache,
            faults,
        }
    }

    fn engine(&self) -> &Arc<Engine> {
        &self.file.handle.engine
    }

    fn free_pages(&self) -> u64 {
        self.engine()
            .memory
            .zones
            .iter()
            .map(Zone::free_pages)
            .sum()
    }

    /// The pages that are in the index.
    fn there(&self) -> Vec<u64> {
        let memory = &self.engine().memory;
        let number = self.file.handle.object.number;
        let is_there = |&page: &u64| memory.find_surely(key(number, page)).is_some();
        (0..2 * PAGES).filter(is_there).collect()
    }

    /// Fills all pages and some more, without a caller that waits. The store answers nothing.
    async fn fill_all(&self) -> u32 {
        let object = &*self.file.handle.object;
        self.faults
            .inject(Fault::each(IoKind::Read, FaultAction::NeverAnswer));
        let plan = FillPlan::unmarked(0..PAGES + 9);
        let call = self
            .engine()
            .dirty
            .call(&self.file.handle, CallKind::Advise, 0, 0);
        self.engine()
            .files
            .fill(&call, &self.file.handle, plan, 0..0)
            .await
            .expect("nobody waits");
        object.in_flight.reads.load(Ordering::Acquire)
    }

    /// Lets the store answer, and checks the content of every page.
    async fn settle(&self) {
        self.faults.clear();
        self.faults.release();
        let mut page = [0; PAGE_BYTES];
        for number in 0..self.file.len() / PAGE_BYTES as u64 {
            let read = self.file.read_at(&mut page, byte_of(number)).await;
            assert_eq!(read, Ok(PAGE_BYTES));
            assert_eq!(page, [number as u8; PAGE_BYTES], "page {number}");
        }
        assert_eq!(self.cache.check(), Vec::<String>::new());
    }
}

fn simulate<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    let world = Virtual::new(VirtualSettings::default());
    world.run(test(World::new(&world.rt())));
}

#[test]
fn a_run_goes_round_the_pages_that_are_there() {
    simulate(|world| async move {
        let all = 0..byte_of(PAGES);
        world
            .file
            .advise(Advice::Random, all)
            .await
            .expect("it is heard");
        let mut byte = [0];
        for page in [5, 17] {
            let read = world.file.read_at(&mut byte, byte_of(page)).await;
            assert_eq!(read, Ok(1));
        }
        let free = world.free_pages();
        assert_eq!(world.fill_all().await, 3, "before, between and behind them");
        assert!(world.there().into_iter().eq(0..PAGES));
        assert_eq!(free - world.free_pages(), PAGES - 2, "no frame is lost");
        assert_eq!(world.cache.times_reached(Mark::FillCut), 1);
        world.settle().await;
    });
}

/// A fill that waited for memory learned before the wait which pages are absent.
#[test]
fn a_run_goes_round_a_page_that_came_meanwhile() {
    simulate(|world| async move {
        let all = 0..byte_of(PAGES);
        let advised = world.file.advise(Advice::Random, all).await;
        advised.expect("it is heard");
        let read = world.file.read_at(&mut [0], byte_of(5)).await;
        assert_eq!(read, Ok(1));
        let (engine, object) = (world.engine(), &*world.file.handle.object);
        world
            .faults
            .inject(Fault::each(IoKind::Read, FaultAction::NeverAnswer));
        let free = world.free_pages();
        let mut run = PendingRun::new(&engine.files, &world.file.handle, 0..0);
        let fresh = engine
            .reclaim
            .run_at_once(NodePolicy::near(0), 9)
            .expect("memory is free");
        let batch = object.begin_batch().expect("nothing is cut");
        assert_eq!(run.put_in(0, None, fresh, &batch), 9);
        drop(batch);
        run.submit();
        assert_eq!((run.requests, run.submitted_pages), (2, 8));
        assert_eq!(free - world.free_pages(), 8, "the page's frame went back");
        drop(run);
        world.settle().await;
    });
}

/// The end of the object may be the end of the pages before: there is nothing there to go round.
#[test]
fn a_run_passes_no_page_at_the_end_of_its_object() {
    simulate(|world| async move {
        let (engine, object) = (world.engine(), &*world.file.handle.object);
        let free = world.free_pages();
        let mut run = PendingRun::new(&engine.files, &world.file.handle, 0..0);
        let fresh = engine.reclaim.run_at_once(NodePolicy::near(0), 2);
        let batch = object.begin_batch().expect("nothing is cut");
        let fresh = fresh.expect("memory is free");
        assert_eq!(run.put_in(PAGES, None, fresh, &batch), 0);
        assert_eq!((run.requests, world.there()), (0, Vec::new()));
        assert_eq!(world.free_pages(), free);
    });
}

#[test]
fn a_run_ends_where_memory_ends() {
    const LEFT: usize = 37;
    simulate(|world| async move {
        let memory = &world.engine().memory;
        let mut taken = Vec::new();
        let run_above_min =
            |wanted| memory.run_above(NodePolicy::near(0), wanted, |marks| marks.min);
        while let Some(run) = run_above_min(1) {
            taken.push(run);
        }
        assert_eq!(run_above_min(9).map(|run| run.len()), None);
        taken.truncate(taken.len() - LEFT);
        let free = world.free_pages();
        world.fill_all().await;
        assert!(world.there().into_iter().eq(0..LEFT as u64));
        assert_eq!(free - world.free_pages(), LEFT as u64);
        assert_eq!(world.cache.times_reached(Mark::FillShort), 1);
        drop(taken);
        world.settle().await;
    });
}

#[test]
fn no_page_is_put_in_while_its_object_is_cut() {
    simulate(|world| async move {
        world
            .faults
            .inject(Fault::each(IoKind::SetLength, FaultAction::NeverAnswer));
        let cutter = world.file.clone();
        let cutting = world.rt.spawn("cutter", async move {
            assert_eq!(cutter.truncate(byte_of(33)).await, Ok(()));
        });
        world.rt.sleep(Span::from_millis(10)).await;
        let free = world.free_pages();
        assert_eq!(world.fill_all().await, 0, "nothing is read");
        assert_eq!((world.there(), world.free_pages()), (Vec::new(), free));
        assert_eq!(world.cache.times_reached(Mark::FillMetResize), 1);
        world.faults.release();
        cutting.join().await;
        world.fill_all().await;
        assert!(
            world.there().into_iter().eq(0..33),
            "the end is in the second run"
        );
        assert_eq!(free - world.free_pages(), 33);
        world.settle().await;
    });
}
