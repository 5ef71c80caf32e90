//! The squeeze: memory is used up repeatedly while others work. A call that needs a frame then
//! waits for one in the middle of its work. Nothing else in a run makes that likely.
//!
//! One task holds as many pages as it gets. Others use anonymous memory that needs more than what
//! is left, through a swap with few slots. Others read single pages of a file that is cut at the
//! places where they read.

use super::client::PAGE;
use super::roles::judge_apart;
use super::searches::{USED_UP_WAITS, wait_for_searches};
use super::verdict::Oracle;
use super::world::World;
use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicU64, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_engine::File;
use forebay_engine::lab::LabCache;
use forebay_engine::lab::LabFile;
use forebay_store::ObjectId;
use std::sync::Arc;

/// The object that is read and cut, and the one whose pages are held.
const CUT: ObjectId = ObjectId(3_003);
const HELD: ObjectId = ObjectId(3_004);
/// Readers of the file, and of the anonymous memory.
const READERS: u64 = 3;
/// Pages of the file.
const FILE_PAGES: u64 = 200;
/// Longest time that pages are held. A caller that waits looks through all of memory meanwhile.
const HELD_MOST_US: u64 = 500_000;
/// After this many looks through all of memory the holder lets go. Further looks would show nothing
/// new and take most of the time of a run.
const MOST_SEARCHES: u64 = 50;
/// Most rounds of each task, because a run may last a long time.
const USED_UP: usize = 10;
const READS: usize = 500;
const CUTS: usize = 150;
const CHURNS: usize = 50;
const CHURN_READS: usize = 400;
/// Bytes at the start of an anonymous page that say which write was the last.
const STAMP: usize = 8;

/// Starts all of them.
pub(super) fn start_squeeze(world: &Arc<World>) {
    let open = |object, pages: u64| {
        let attached = &world.stores[0].1;
        let opened = world.cache.open(attached, object, pages * PAGE);
        opened.expect("there is room for the objects of a plan")
    };
    let held = open(HELD, world.cache.statistics().frames);
    world.spawn("squeeze", use_up(world.clone(), held));
    let places: Arc<[AtomicU64]> = (0..READERS).map(|_| AtomicU64::new(0)).collect();
    let file = open(CUT, FILE_PAGES);
    for number in 0..READERS {
        let file = file.on_node(number as usize % world.plan.settings.nodes.len());
        let read = read_places(world.clone(), file, number, places.clone());
        world.spawn("reader of places", read);
    }
    world.spawn("cutter", cut(world.clone(), file, places));
    if let Some((pages, swap_pages)) = world.plan.anonymous {
        start_churn(world, pages, swap_pages);
    }
}

/// Holds pages until there are no more, for a while.
async fn use_up(world: Arc<World>, file: File) {
    let mut chance = world.chance("squeeze", 0);
    for _ in 0..USED_UP {
        world.sleep_below(&mut chance, 2_000_000).await;
        if !world.goes_on() {
            return;
        }
        let mut guards = Vec::new();
        for page in 0..file.len() / PAGE {
            let waits = (!guards.is_empty()).then_some(USED_UP_WAITS);
            let held = world.call("page", waits, file.page(page)).await;
            judge_apart(&world, "a page that is held", held.as_ref());
            match held {
                Some(Ok(guard)) if world.goes_on() => guards.push(guard),
                _ => break,
            }
        }
        let span = Span::from_micros(chance.below(HELD_MOST_US));
        wait_for_searches(&world, span, MOST_SEARCHES).await;
    }
}

/// Reads single pages, and publishes which one while it does.
async fn read_places(world: Arc<World>, file: File, number: u64, places: Arc<[AtomicU64]>) {
    let mut chance = world.chance("reader of places", number);
    for _ in 0..READS {
        if !world.goes_on() {
            return;
        }
        let page = chance.below(FILE_PAGES);
        let mut bytes = [1; 64];
        places[number as usize].store(page, Ordering::Relaxed);
        let read = file.read_at(&mut bytes, page * PAGE);
        let read = world.call("read_at", None, read).await;
        let is_read = judge_apart(&world, "a read", read.as_ref());
        if let Some(Ok(count)) = read
            && is_read
            && bytes[..count].iter().any(|&byte| byte != 0)
        {
            let what = format!("page {page} of a file of zeros holds {:?}", &bytes[..count]);
            world.broken(Oracle::Bytes, what);
        }
        world.sleep_below(&mut chance, 20_000).await;
    }
}

/// Cuts the file where a reader reads, and then makes it as long as before.
async fn cut(world: Arc<World>, file: File, places: Arc<[AtomicU64]>) {
    let mut chance = world.chance("cutter", 0);
    for _ in 0..CUTS {
        world.sleep_below(&mut chance, 200_000).await;
        if !world.goes_on() {
            return;
        }
        let reader = chance.below(READERS) as usize;
        let page = places[reader].load(Ordering::Relaxed);
        for length in [page * PAGE, FILE_PAGES * PAGE] {
            let cut = world.call("truncate", None, file.truncate(length)).await;
            judge_apart(&world, "a cut", cut.as_ref());
            world.sleep_below(&mut chance, 100_000).await;
            for what in world.cache.check_ends() {
                world.broken(Oracle::Books, what);
            }
        }
    }
}

/// For each page: the number of the last write that was surely made, and of the last one begun.
type Stamps = Arc<Mutex<Vec<(u64, u64)>>>;

/// Anonymous memory that hardly fits in what memory is left and in swap.
fn start_churn(world: &Arc<World>, others: u64, swap_pages: u64) {
    let frames = world.cache.statistics().frames;
    let mut chance = world.chance("churn", 0);
    let most = if swap_pages > frames {
        // Slots are scarce once half are used. With this size neighbours stay neighbours in swap.
        swap_pages / 2
    } else {
        // A quarter of memory is left for files, and a little for the tasks that use it briefly.
        (frames * 3 / 4 + swap_pages).saturating_sub(others + 32)
    };
    let pages = most - chance.below(frames / 8);
    let Ok(memory) = world.cache.anonymous(pages * PAGE) else {
        world.broken(Oracle::Errors, "a plan's anonymous memory is refused");
        return;
    };
    let stamps: Stamps = Arc::new(Mutex::new(vec![(0, 0); pages as usize]));
    for number in 0..READERS {
        let read = read_churned(world.clone(), memory.clone(), number, stamps.clone());
        world.spawn("churn reader", read);
    }
    world.writer_begins();
    let of = world.clone();
    world.spawn("churn", async move {
        churn(&of, memory, stamps).await;
        of.writer_ends();
    });
}

/// Writes all pages in order, so that neighbours are neighbours in swap. Then it writes any pages.
async fn churn(world: &World, memory: File, stamps: Stamps) {
    let mut chance = world.chance("churn", 1);
    let pages = lock(&stamps).len() as u64;
    let mut next = 0;
    for round in 0..CHURNS {
        let is_swept = round == 0 || chance.chance(1, 2);
        let most = if is_swept { 120 } else { 20 };
        let count = if round == 0 {
            pages
        } else {
            1 + chance.below(most)
        };
        for _ in 0..count {
            let page = if is_swept { next } else { chance.below(pages) };
            next = (page + 1) % pages;
            if world.is_over() {
                return;
            }
            stamp(world, &memory, page, &stamps).await;
        }
        world.sleep_below(&mut chance, 50_000).await;
    }
}

async fn stamp(world: &World, memory: &File, page: u64, stamps: &Stamps) {
    let number = {
        let stamp = &mut lock(stamps)[page as usize];
        stamp.1 += 1;
        stamp.1
    };
    let bytes = number.to_le_bytes();
    let written = memory.write_at(&bytes, page * PAGE);
    let written = world.call("write_at", None, written).await;
    if judge_apart(world, "a write", written.as_ref()) {
        lock(stamps)[page as usize].0 = number;
    }
}

/// Reads pages of the memory, alone or in sequence in either direction, so that some are brought in
/// together with a neighbour. It gives up a read now and then.
async fn read_churned(world: Arc<World>, memory: File, number: u64, stamps: Stamps) {
    let mut chance = world.chance("churn reader", number);
    let pages = lock(&stamps).len() as u64;
    for _ in 0..CHURN_READS {
        let first = chance.below(pages);
        let count = [1, 1, 1 + chance.below(24)][chance.below(3) as usize];
        let is_backward = chance.chance(2, 3);
        for step in 0..count {
            if !world.goes_on() {
                return;
            }
            let step = if is_backward { pages - step } else { step };
            let page = (first + step) % pages;
            let waits = chance.chance(1, 2).then(|| 1 + chance.below(12) as u32);
            read_stamp(&world, &memory, page, waits, &stamps).await;
        }
        world.sleep_below(&mut chance, 50_000).await;
    }
}

async fn read_stamp(world: &World, memory: &File, page: u64, waits: Option<u32>, stamps: &Stamps) {
    let mut bytes = [0; STAMP];
    let (surely, _) = lock(stamps)[page as usize];
    let read = memory.read_at(&mut bytes, page * PAGE);
    let read = world.call("read_at", waits, read).await;
    let (_, begun) = lock(stamps)[page as usize];
    let found = u64::from_le_bytes(bytes);
    let is_read = judge_apart(world, "a read", read.as_ref());
    if is_read && !(surely..=begun).contains(&found) {
        let what =
            format!("page {page} of anonymous memory is of write {found}, not {surely} to {begun}");
        world.broken(Oracle::Bytes, what);
    }
}
