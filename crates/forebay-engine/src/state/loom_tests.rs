//! Every order of the steps of a few threads around frame words, the index, resizes and the turns
//! of a writer. Run by
//! `RUSTFLAGS="--cfg loom" cargo test -p forebay-engine --lib --release loom_tests`.
//!
//! The bytes of a page stand in a cell that the explorer watches: two threads in it at once, one
//! of them writing, or one that does not see what the last one wrote, are reported.

use crate::settings::PageMemory;
use crate::state::arena::Arena;
use crate::state::frame::{FrameTable, HOLDS, claimable, flag};
use crate::state::index::{Index, key};
use crate::state::loom_explorer::explore;
use crate::state::object::{CutPlace, ObjectState, Origin};
use crate::state::objects::ObjectTable;
use crate::state::pause_turn::{PauseTurn, TurnNumber};
use forebay_law::blame::Cause;
use forebay_rt::block_on;
use forebay_store::ObjectId;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// One more than is needed for a lost wake-up or a doubled page.
const PREEMPTIONS: usize = 3;

/// The bytes of one page, for the explorer.
struct Bytes {
    watched: UnsafeCell<()>,
    content: AtomicU64,
}

impl Bytes {
    fn read(&self) -> u64 {
        self.watched.with(|_| self.content.load(Ordering::Relaxed))
    }

    fn write(&self, content: u64) {
        self.watched
            .with_mut(|_| self.content.store(content, Ordering::Relaxed));
    }
}

/// A cache of a few frames, each with its bytes.
struct SmallCache {
    frames: FrameTable,
    index: Index,
    bytes: Vec<Bytes>,
}

/// Three pages that share a bucket, and one of another bucket.
const PAGES: [u64; 4] = [1 << 40, 2 << 40, 3 << 40, 1 << 40 | 1];

fn cache(frames: u32) -> Arc<SmallCache> {
    assert_eq!(PAGES[1], key(2, 0), "the keys are built as the index does");
    let bytes = || Bytes {
        watched: UnsafeCell::new(()),
        content: AtomicU64::new(0),
    };
    let arena = Arena::new(frames, PageMemory::Real, false).expect("a few pages can be mapped");
    Arc::new(SmallCache {
        frames: FrameTable::new(arena, 1),
        index: Index::new(frames),
        bytes: (0..frames).map(|_| bytes()).collect(),
    })
}

impl SmallCache {
    /// Puts the page in with its own number as content, as a fill that has just ended. False if
    /// it is there already; then the frame is blank again.
    fn bring_in(&self, frame: u32, page: u64) -> bool {
        let mut hold = self.frames.exclude_free(frame);
        if self.index.insert(&self.frames, page, &mut hold).is_err() {
            hold.blank();
            return false;
        }
        self.bytes[frame as usize].write(page);
        self.frames.end_fill(hold.leave());
        true
    }

    /// Takes the page out if nobody holds it.
    fn evict(&self, frame: u32, page: u64) -> bool {
        let Ok(hold) = self.frames.exclude(frame, page, 0) else {
            return false;
        };
        self.index.remove(&self.frames, &hold);
        self.bytes[frame as usize].write(0);
        hold.blank();
        true
    }

    /// Reads the page if it is available at once.
    fn read(&self, page: u64) -> Option<u64> {
        let frame = self.index.find(&self.frames, page)?;
        let hold = self.frames.hold(frame, page).ok()?;
        Some(self.bytes[hold.frame() as usize].read())
    }

    fn is_at_rest(&self, frame: u32) -> bool {
        self.frames.word(frame) & (HOLDS | flag::EXCLUSIVE) == 0
    }
}

#[test]
fn invariant_f1_and_f2_nobody_reads_a_page_that_is_written() {
    explore(PREEMPTIONS, || {
        let cache = cache(1);
        cache.bring_in(0, PAGES[0]);
        let write = |cache: &SmallCache, content| {
            if let Ok(mut hold) = cache.frames.exclude(0, PAGES[0], flag::WRITEBACK) {
                cache.bytes[0].write(content);
                hold.set(flag::DIRTY);
            }
        };
        let (writer, reader) = (cache.clone(), cache.clone());
        let writer = thread::spawn(move || write(&writer, 1));
        let reader = thread::spawn(move || reader.read(PAGES[0]));
        write(&cache, 2);
        writer.join().unwrap();
        reader.join().unwrap();
        assert!(cache.is_at_rest(0));
    });
}

#[test]
fn invariant_f3_a_hold_has_the_page_that_it_asked_for() {
    explore(PREEMPTIONS, || {
        let cache = cache(1);
        cache.bring_in(0, PAGES[0]);
        let (replacer, other) = (cache.clone(), cache.clone());
        let replacer = thread::spawn(move || {
            if replacer.evict(0, PAGES[0]) {
                assert!(replacer.bring_in(0, PAGES[1]), "nobody else has it");
            }
        });
        let other = thread::spawn(move || other.read(PAGES[1]));
        let first = cache.read(PAGES[0]);
        let second = other.join().unwrap();
        replacer.join().unwrap();
        assert!(first.is_none_or(|content| content == PAGES[0]));
        assert!(second.is_none_or(|content| content == PAGES[1]));
        assert!(cache.is_at_rest(0));
    });
}

#[test]
fn invariant_f4_what_is_written_while_it_is_claimed_is_not_lost() {
    explore(PREEMPTIONS, || {
        let cache = cache(1);
        cache.bring_in(0, PAGES[0]);
        cache.frames.set(0, flag::DIRTY);
        let flusher = cache.clone();
        let flusher = thread::spawn(move || {
            let hold = flusher.frames.hold(0, PAGES[0]).ok()?;
            let found = flusher.frames.claim_for_writing(0);
            drop(hold);
            if !claimable(found) {
                return None;
            }
            let written = flusher.bytes[0].read();
            flusher.frames.clear(0, flag::WRITEBACK);
            Some(written)
        });
        let evictor = cache.clone();
        let evictor = thread::spawn(move || {
            let kept = flag::DIRTY | flag::WRITEBACK;
            evictor.frames.exclude(0, PAGES[0], kept).map(drop).is_ok()
        });
        let wrote = match cache.frames.exclude(0, PAGES[0], flag::WRITEBACK) {
            Ok(mut hold) => {
                cache.bytes[0].write(7);
                hold.set(flag::DIRTY);
                true
            }
            Err(_) => false,
        };
        let written = flusher.join().unwrap();
        let was_clean = evictor.join().unwrap();
        let is_dirty = cache.frames.word(0) & flag::DIRTY != 0;
        assert!(
            !was_clean || written.is_some(),
            "only a written page is clean"
        );
        let expected = if wrote { 7 } else { PAGES[0] };
        assert!(is_dirty || written == Some(expected));
        assert!(cache.is_at_rest(0));
    });
}

/// Waits until none of `busy` is in the word.
fn settle(cache: &SmallCache, busy: u64) {
    block_on(async {
        loop {
            let (listener, word) = cache.frames.listen(0);
            if word & busy == 0 {
                return;
            }
            listener.await;
        }
    });
}

/// A run of two pages is put in while somebody else puts in the second one.
#[test]
fn invariant_x2_a_run_and_a_page_of_it_are_put_in_once() {
    explore(PREEMPTIONS, || {
        let cache = cache(3);
        let (first, second) = (PAGES[0], PAGES[3]);
        let other = cache.clone();
        let other = thread::spawn(move || other.bring_in(2, second));
        for frame in [0_u32, 1] {
            cache.frames.exclude_free(frame).leave();
        }
        let placed = cache.index.insert_run(&cache.frames, first, &[0_u32, 1], 0);
        for frame in [0_u32, 1] {
            if placed & 1 << frame == 0 {
                cache.frames.adopt(frame).blank();
            } else {
                cache.bytes[frame as usize].write(first + u64::from(frame));
                cache.frames.end_fill(frame);
            }
        }
        let is_others = other.join().unwrap();
        assert_eq!(placed, if is_others { 0b01 } else { 0b11 });
        assert_eq!(cache.read(first), Some(first));
        assert_eq!(cache.read(second), Some(second));
        assert!([0, 1, 2].into_iter().all(|frame| cache.is_at_rest(frame)));
        assert_eq!(cache.index.stretches_off([first, second].into_iter()), 0);
    });
}

#[test]
fn invariant_f5_a_waiter_for_a_fill_is_woken() {
    explore(PREEMPTIONS, || {
        let cache = cache(1);
        let mut hold = cache.frames.exclude_free(0);
        assert!(
            cache
                .index
                .insert(&cache.frames, PAGES[0], &mut hold)
                .is_ok()
        );
        hold.leave();
        let (store, other) = (cache.clone(), cache.clone());
        let store = thread::spawn(move || {
            store.bytes[0].write(PAGES[0]);
            store.frames.end_fill(0);
        });
        // A hold that is refused: it changes the word too.
        let other = thread::spawn(move || other.read(PAGES[0]));
        settle(&cache, flag::EXCLUSIVE);
        assert_eq!(cache.read(PAGES[0]), Some(PAGES[0]));
        store.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn invariant_f5_waiters_for_holds_and_for_writeback_are_woken() {
    explore(PREEMPTIONS, || {
        let cache = cache(1);
        cache.bring_in(0, PAGES[0]);
        cache.frames.set(0, flag::WRITEBACK);
        let (store, reader) = (cache.clone(), cache.clone());
        let store = thread::spawn(move || store.frames.clear(0, flag::WRITEBACK));
        let reader = thread::spawn(move || reader.read(PAGES[0]));
        settle(&cache, HOLDS | flag::WRITEBACK);
        store.join().unwrap();
        reader.join().unwrap();
    });
}

#[test]
fn invariant_x2_one_of_two_inserts_wins_and_the_other_learns_it() {
    explore(PREEMPTIONS, || {
        let cache = cache(2);
        let insert = |cache: &SmallCache, frame| {
            let mut hold = cache.frames.exclude_free(frame);
            let inserted = cache.index.insert(&cache.frames, PAGES[0], &mut hold);
            if inserted.is_err() {
                hold.blank();
            }
            inserted
        };
        let (second, finder) = (cache.clone(), cache.clone());
        let second = thread::spawn(move || insert(&second, 1));
        let finder = thread::spawn(move || finder.index.find(&finder.frames, PAGES[0]));
        let first = insert(&cache, 0);
        let found = finder.join().unwrap();
        let winner = match (first, second.join().unwrap()) {
            (Ok(()), Err(0)) => 0,
            (Err(1), Ok(())) => 1,
            other => panic!("{other:?}"),
        };
        assert_eq!(cache.index.find(&cache.frames, PAGES[0]), Some(winner));
        assert!(found.is_none_or(|frame| frame == winner));
    });
}

#[test]
fn invariant_x1_a_page_that_stays_is_found_whatever_moves_beside_it() {
    explore(PREEMPTIONS, || {
        let cache = cache(3);
        for (frame, page) in (0..).zip(&PAGES[..2]) {
            assert!(cache.bring_in(frame, *page));
        }
        let (mover, inserter) = (cache.clone(), cache.clone());
        // The page before it in its bucket goes, and its frame to another bucket.
        let mover = thread::spawn(move || {
            assert!(mover.evict(1, PAGES[1]), "nobody holds it");
            assert!(mover.bring_in(1, PAGES[3]));
        });
        let inserter = thread::spawn(move || assert!(inserter.bring_in(2, PAGES[2])));
        assert_eq!(cache.index.find_surely(&cache.frames, PAGES[0]), Some(0));
        mover.join().unwrap();
        inserter.join().unwrap();
        for (page, frame) in [(0, Some(0)), (1, None), (2, Some(2)), (3, Some(1))] {
            assert_eq!(cache.index.find(&cache.frames, PAGES[page]), frame);
        }
        let mut members: Vec<u32> = cache.index.buckets(&cache.frames).flatten().collect();
        members.sort_unstable();
        assert_eq!(members, [0, 1, 2], "each is in one bucket");
    });
}

#[test]
fn invariant_o1_nobody_puts_pages_in_while_an_object_is_cut() {
    explore(PREEMPTIONS, || {
        let origin = Origin::Anonymous {
            slots: Box::default(),
        };
        let object = std::sync::Arc::new(ObjectState::new(1, origin, 8));
        let pages = Arc::new(UnsafeCell::new(()));
        let (cutter, cut_pages) = (object.clone(), pages.clone());
        let cut = |object: &std::sync::Arc<ObjectState>, pages: &UnsafeCell<()>| {
            let place = object.join_cuts(0..1).expect("nobody is in line");
            let guard = place.begin().expect("it is first in line");
            while !guard.is_alone() {
                thread::yield_now();
            }
            guard.set_length(4);
            pages.with_mut(|_| ());
        };
        let cutter = thread::spawn(move || cut(&cutter, &cut_pages));
        if let Some(batch) = object.begin_batch() {
            let before = object.length_bytes();
            pages.with(|_| ());
            assert_eq!(object.length_bytes(), before, "no cut inside a batch");
            object.grow(&batch, 6);
        }
        block_on(async {
            loop {
                let (listener, under_way) = object.listen_for_resize();
                if !under_way {
                    return;
                }
                listener.await;
            }
        });
        cutter.join().unwrap();
        assert!(object.begin_batch().is_some(), "the cut has ended");
    });
}

/// Two cuts are in line, and a writer comes after them: both have ended when it writes, and every
/// caller that waits for its turn or for their end is woken.
#[test]
fn invariant_o2_a_write_begins_after_the_cuts_that_were_in_line() {
    explore(PREEMPTIONS, || {
        let origin = Origin::Anonymous {
            slots: Box::default(),
        };
        let object = std::sync::Arc::new(ObjectState::new(1, origin, 8));
        let pages = Arc::new(UnsafeCell::new(()));
        let cut = |place: CutPlace, pages: &UnsafeCell<()>| {
            block_on(async {
                loop {
                    let listener = place.object().listen_for_cuts();
                    if let Some(_guard) = place.begin() {
                        pages.with_mut(|_| ());
                        return;
                    }
                    listener.await;
                }
            });
        };
        let join = || object.join_cuts(0..1).expect("there is room");
        let places = [join(), join()];
        let last = object
            .resizing
            .cuts
            .last_of(&(0..1))
            .expect("two are in line");
        let cutters = places.map(|place| {
            let pages = pages.clone();
            thread::spawn(move || cut(place, &pages))
        });
        block_on(async {
            loop {
                let listener = object.listen_for_cuts();
                if !object.resizing.cuts.has_up_to(last, &(0..1)) {
                    return;
                }
                listener.await;
            }
        });
        pages.with_mut(|_| ());
        for cutter in cutters {
            cutter.join().unwrap();
        }
    });
}

/// A writer's turn, and what only the call that has it may touch.
struct Writer {
    turn: PauseTurn,
    pausing: UnsafeCell<()>,
    /// Why the writer paused in each turn. Not a lock of the explorer: it orders no steps.
    causes: std::sync::Mutex<Vec<Cause>>,
}

fn writer() -> Arc<Writer> {
    Arc::new(Writer {
        turn: PauseTurn::default(),
        pausing: UnsafeCell::new(()),
        causes: std::sync::Mutex::default(),
    })
}

impl Writer {
    /// One call that used the quota up: it pauses for `cause`, or waits until the pause of another
    /// call is over and finds the cause of that one. True if it paused itself.
    fn pay(&self, cause: Cause) -> bool {
        if let Some(pause) = self.turn.take() {
            self.pausing.with_mut(|_| ());
            self.causes.lock().unwrap().push(cause);
            pause.is_for(cause);
            return true;
        }
        if let Some(number) = self.turn.under_way() {
            while let Some(listener) = self.turn.listen(number) {
                block_on(listener);
            }
            let found = self.turn.cause_of(number);
            assert_eq!(found, Some(self.cause_in(number)), "invariant P3");
        }
        false
    }

    fn cause_in(&self, number: TurnNumber) -> Cause {
        self.causes.lock().unwrap()[number.0 as usize / 2]
    }
}

#[test]
fn invariant_p1_one_call_of_a_writer_pauses_and_p2_all_others_go_on_after_it() {
    explore(PREEMPTIONS, || {
        let writer = writer();
        let (second, third) = (writer.clone(), writer.clone());
        let second = thread::spawn(move || second.pay(Cause::OthersDirty));
        let third = thread::spawn(move || third.pay(Cause::SilentStore));
        let paused = [
            writer.pay(Cause::OwnRate),
            second.join().unwrap(),
            third.join().unwrap(),
        ];
        assert!(paused.contains(&true), "somebody pays");
        assert!(!writer.turn.is_taken(), "every pause has ended");
        assert!(writer.pay(Cause::OwnRate), "the next call pauses again");
    });
}

/// A call waits along while the writer pauses twice, so that the second pause may begin before it
/// looks for the cause of the first.
#[test]
fn invariant_p3_a_call_that_waits_along_has_the_cause_of_the_pause_that_it_found() {
    // How often it waited along: in some orders there is nothing to wait for.
    let waited = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = waited.clone();
    explore(PREEMPTIONS, move || {
        let writer = writer();
        let (along, counted) = (writer.clone(), counted.clone());
        let along = thread::spawn(move || {
            let Some(number) = along.turn.under_way() else {
                return;
            };
            // Like a wait that takes too long: nothing may be decided yet.
            let early = along.turn.cause_of(number);
            while let Some(listener) = along.turn.listen(number) {
                block_on(listener);
                counted.fetch_add(1, Ordering::Relaxed);
            }
            let cause = along.cause_in(number);
            assert!(early.is_none_or(|early| early == cause), "{early:?}");
            assert_eq!(along.turn.cause_of(number), Some(cause));
        });
        assert!(writer.pay(Cause::OwnRate), "nobody else takes the turn");
        assert!(writer.pay(Cause::OthersDirty), "nobody else takes the turn");
        along.join().unwrap();
    });
    assert!(waited.load(Ordering::Relaxed) > 0, "no order had it wait");
}

#[test]
fn invariant_p2_a_call_that_is_dropped_takes_no_wake_up_with_it() {
    explore(PREEMPTIONS, || {
        let writer = writer();
        let (pauses, given_up) = (writer.clone(), writer.clone());
        let pauses = thread::spawn(move || {
            // Like a call that is dropped during its pause.
            if let Some(pause) = pauses.turn.take() {
                pauses.causes.lock().unwrap().push(Cause::OthersDirty);
                pause.is_for(Cause::OthersDirty);
            }
        });
        let given_up = thread::spawn(move || {
            let turn = &given_up.turn;
            drop(turn.under_way().map(|number| turn.listen(number)));
        });
        writer.pay(Cause::OwnRate);
        pauses.join().unwrap();
        given_up.join().unwrap();
        assert!(!writer.turn.is_taken());
    });
}

/// A full table counts a file as open or finds it among the closed ones, whatever its last handle
/// has done so far.
#[test]
fn invariant_u2_a_file_that_nobody_has_open_makes_room() {
    let file = |object| Origin::File {
        backing: 0,
        object: ObjectId(object),
    };
    explore(PREEMPTIONS, move || {
        let table = Arc::new(ObjectTable::new(1, false));
        let first = table.open(file(1), 0, |_| true).expect("there is room");
        let closer = {
            let (table, first) = (table.clone(), first.clone());
            thread::spawn(move || assert!(table.let_go(&first), "it is the last handle"))
        };
        if first.opened.handles.load(Ordering::Acquire) == 0 {
            let second = table.open(file(2), 0, |_| true);
            assert!(second.is_some(), "a closed file makes room");
        }
        closer.join().expect("nothing panics");
    });
}
