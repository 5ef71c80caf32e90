//! A client: it reads and writes one file, or one region of it, and compares all that it sees with
//! the ledger.

use super::ledger::Ledger;
use super::pattern::{ZEROS, bytes_of_version};
use super::reader_model::{Change, NewLength};
use super::store::Failures;
use super::verdict::Oracle;
use super::world::World;
use forebay_base::sync::{Mutex, lock};
use forebay_base::{PAGE_BYTES, Prng};
use forebay_engine::lab::LabFile;
use forebay_engine::{AccessError, BuildError, File};
use forebay_store::ObjectId;
use std::ops::Range;
use std::sync::Arc;

pub(super) const PAGE: u64 = PAGE_BYTES as u64;

/// How many failures of its object a handle has heard of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub(super) failures: Failures,
    /// The handle is new. Failures from before its time may reach it, if no other handle has heard
    /// of them.
    pub(super) is_new: bool,
}

/// What a client is called, which decides what it does.
#[derive(Clone, Copy)]
pub(super) struct ClientName<'a> {
    name: &'a str,
    number: u64,
}

impl<'a> ClientName<'a> {
    pub(super) fn of(name: &'a str, number: u64) -> ClientName<'a> {
        ClientName { name, number }
    }
}

/// A handle, and the ledger of the object that it opens.
pub(super) struct Client {
    pub(super) world: Arc<World>,
    pub(super) file: File,
    pub(super) ledger: Arc<Mutex<Ledger>>,
    /// Its store and object; none for anonymous memory.
    pub(super) place: Option<(usize, ObjectId)>,
    pub(super) chance: Prng,
    /// For messages.
    pub(super) name: String,
    pub(super) heard: Heard,
    /// A call that was given up may still be under way for its object.
    pub(super) lingers: bool,
}

impl Client {
    pub(super) fn new(
        world: &Arc<World>,
        file: File,
        ledger: Arc<Mutex<Ledger>>,
        place: Option<(usize, ObjectId)>,
        name: ClientName<'_>,
    ) -> Client {
        let failures = place.map_or_else(Failures::default, |(s, o)| world.failures(s, o));
        Client {
            world: world.clone(),
            file,
            ledger,
            place,
            chance: world.chance(name.name, name.number),
            name: format!("{} {}", name.name, name.number),
            heard: Heard {
                failures,
                is_new: true,
            },
            lingers: false,
        }
    }

    /// Another client with a handle of its own on the same file and ledger.
    pub(super) fn beside(&self, name: &str, number: u64) -> Client {
        let (file, ledger) = (self.file.clone(), self.ledger.clone());
        Client::new(
            &self.world,
            file,
            ledger,
            self.place,
            ClientName { name, number },
        )
    }

    /// Replaces the handle by a new one, on any node.
    pub(super) fn change_handle(&mut self) {
        let nodes = self.world.plan.settings.nodes.len() as u64;
        self.file = self.file.on_node(self.chance.below(nodes) as usize);
        self.heard = Heard {
            failures: self.failures(),
            is_new: true,
        };
    }

    /// A handle on an object of its own, for reading alone.
    pub(super) fn read_only(&self) -> Option<File> {
        let (store, _) = self.place?;
        read_only(&self.world, store)
    }

    pub(super) fn failures(&self) -> Failures {
        self.place
            .map_or_else(Failures::default, |(s, o)| self.world.failures(s, o))
    }

    /// After how many waits the next call is dropped; none if it is not.
    pub(super) fn patience(&mut self) -> Option<u32> {
        let percent = self.world.plan.abandoned_percent;
        self.chance
            .chance(percent, 100)
            .then(|| 1 + self.chance.below(12) as u32)
    }

    /// A range, mostly of a few pages, that begins below `limit` and does not end past it. Limits
    /// count from the start of the ledger.
    pub(super) fn range(&mut self, limit: u64) -> Range<u64> {
        let base = lock(&self.ledger).start();
        let drawn = base + self.chance.below(limit);
        let start = self.near_border(drawn).clamp(base, base + limit - 1);
        let longest = match self.chance.below(10) {
            0..=3 => 200,
            4..=8 => 5 * PAGE,
            _ => 80 * PAGE,
        };
        let drawn = start + 1 + self.chance.below(longest);
        let end = self.near_border(drawn).clamp(start + 1, base + limit);
        start..end
    }

    /// `place`, or often the border of its page or a byte next to it. Where pages meet, a range is
    /// easily taken to be one page too long or too short.
    fn near_border(&mut self, place: u64) -> u64 {
        let border = place / PAGE * PAGE;
        match self.chance.below(8) {
            0..=2 => border,
            3 => border + 1,
            4 => border.saturating_sub(1),
            _ => place,
        }
    }

    /// Bytes below which this client writes.
    fn limit(&self) -> u64 {
        let ledger = lock(&self.ledger);
        if ledger.is_whole_object() && self.place.is_some() {
            self.world.plan.longest_bytes
        } else {
            ledger.len()
        }
    }

    pub(super) async fn write(&mut self) {
        let limit = self.limit();
        let range = self.range(limit);
        // What it wrote is in the ledger.
        let _ = self.write_range(range).await;
    }

    /// Writes a range. Returns the version that the range has now, if the call succeeded.
    async fn write_range(&mut self, range: Range<u64>) -> Option<u64> {
        let waits = self.patience();
        let (ticket, version) = {
            let mut ledger = lock(&self.ledger);
            let version = ledger.new_version();
            let change = Change {
                start: range.start,
                end: range.end,
                version,
                length: if ledger.is_whole_object() {
                    NewLength::AtLeast(range.end)
                } else {
                    NewLength::Same
                },
            };
            (ledger.begin(change), version)
        };
        let bytes = bytes_of_version(version, range.start, range.end - range.start);
        let halves = bytes.split_at(bytes.len() / 2);
        let parts = [
            std::io::IoSlice::new(halves.0),
            std::io::IoSlice::new(halves.1),
        ];
        self.print("write", &(&range, waits));
        let is_too_much = range.start < range.end && self.must_be_refused();
        let written = if self.chance.chance(1, 4) {
            let call = self.file.write_vectored_at(&parts, range.start);
            self.world.call("write_vectored_at", waits, call).await
        } else {
            let call = self.file.write_at(&bytes, range.start);
            self.world.call("write_at", waits, call).await
        };
        self.print("write ended", &written);
        match written {
            Some(Ok(())) => {
                lock(&self.ledger).done(ticket);
                // It may have waited for a cut first, which gave up what could not be written.
                if is_too_much && self.must_be_refused() {
                    self.broken(
                        Oracle::Bounds,
                        "more is written beside what cannot be written",
                    );
                }
                return Some(version);
            }
            Some(Err(error)) => {
                self.refused("write_at", &error);
                self.resolve_uncertain(false).await;
            }
            None => self.resolve_uncertain(false).await,
        }
        None
    }

    /// A cut of `range` was dropped, and may still be made. What is written there at once comes
    /// after the cut, and is still there when nothing is under way any more.
    async fn write_after_dropped_cut(&mut self, range: Range<u64>) {
        let limit = self.limit();
        let end = range
            .end
            .min(range.start + 6 * PAGE)
            .min(lock(&self.ledger).start() + limit);
        if range.start >= end || self.chance.chance(1, 2) {
            return self.resolve_uncertain(true).await;
        }
        self.lingers = true;
        let written = self.write_range(range.start..end).await;
        self.resolve_uncertain(true).await;
        let Some(version) = written else { return };
        let ledger = lock(&self.ledger);
        if ledger.uncertain_range().is_some() || self.world.is_over() {
            return;
        }
        let expected = bytes_of_version(version, range.start, end - range.start);
        let at = (range.start - ledger.start()) as usize;
        let bytes = ledger.bytes();
        let is_there = at + expected.len() <= bytes.len() && bytes.has(at, &expected);
        drop(ledger);
        if !is_there {
            let what = format!("what was written to {range:?} after a dropped cut is lost");
            self.broken(Oracle::Bytes, &what);
        }
    }

    /// Whether every further write has to be refused, because so many pages of the object cannot be
    /// written. That is twice as many as the engine allows, because a part of the limit may have
    /// been taken away meanwhile.
    fn must_be_refused(&self) -> bool {
        let failed = self.file.failed_pages();
        failed > 0 && failed > self.world.cache.statistics().nr_dirty_threshold / 2
    }

    pub(super) async fn read(&mut self) {
        let limit = lock(&self.ledger).len().max(1) + PAGE / 2;
        let range = self.range(limit);
        let waits = self.patience();
        let ticket = lock(&self.ledger).look(range.clone());
        let mut bytes = vec![0xee; (range.end - range.start) as usize];
        let read = if self.chance.chance(1, 4) {
            let halves = bytes.split_at_mut((range.end - range.start) as usize / 2);
            let mut parts = [
                std::io::IoSliceMut::new(halves.0),
                std::io::IoSliceMut::new(halves.1),
            ];
            let call = self.file.read_vectored_at(&mut parts, range.start);
            self.world.call("read_vectored_at", waits, call).await
        } else {
            let call = self.file.read_at(&mut bytes, range.start);
            self.world.call("read_at", waits, call).await
        };
        self.judge_read(ticket, &range, &bytes, read);
    }

    pub(super) async fn truncate(&mut self) {
        let drawn = self.chance.below(self.world.plan.longest_bytes);
        let length = self.near_border(drawn);
        let waits = self.patience();
        let ticket = {
            let mut ledger = lock(&self.ledger);
            let before = ledger.len();
            ledger.begin(Change {
                start: length.min(before),
                end: u64::MAX,
                version: ZEROS,
                length: NewLength::Exactly(length),
            })
        };
        self.print("truncate", &(length, waits));
        let cut = self
            .world
            .call("truncate", waits, self.file.truncate(length))
            .await;
        self.print("truncate ended", &cut);
        match cut {
            Some(Ok(())) => {
                lock(&self.ledger).done(ticket);
                self.judge_dirty_pages(length);
            }
            // Nothing is dropped until the store has done it: a refusal leaves all as it was.
            Some(Err(error @ (AccessError::Held { .. } | AccessError::Store(_)))) => {
                lock(&self.ledger).undone(ticket);
                self.refused("truncate", &error);
            }
            Some(Err(error)) => {
                self.refused("truncate", &error);
                self.resolve_uncertain(true).await;
            }
            None => self.write_after_dropped_cut(length..u64::MAX).await,
        }
    }

    /// Judges the books of a file that was just cut. This client is its only writer.
    fn judge_dirty_pages(&self, length: u64) {
        let dirty = self.file.dirty_pages();
        if dirty > length.div_ceil(PAGE) {
            let what = format!("{dirty} pages of {length} bytes are dirty after a cut");
            self.broken(Oracle::Books, &what);
        }
    }

    pub(super) async fn discard(&mut self) {
        let length = lock(&self.ledger).len();
        if length == 0 {
            return;
        }
        let range = self.range(length);
        self.discard_range(range).await;
    }

    /// Writes past the end and gives that write up again. The object is longer then, and nothing of
    /// the write may ever reach the store.
    pub(super) async fn give_up_new_end(&mut self) {
        const PAGES: u64 = 3;
        let start = lock(&self.ledger).len().next_multiple_of(PAGE);
        let range = start..start + PAGES * PAGE;
        if range.end <= self.limit() {
            let _ = self.write_range(range.clone()).await;
            self.discard_range(range).await;
        }
    }

    async fn discard_range(&mut self, range: Range<u64>) {
        let waits = self.patience();
        let ticket = lock(&self.ledger).begin(Change {
            start: range.start,
            end: range.end,
            version: ZEROS,
            length: NewLength::Same,
        });
        self.print("discard", &(&range, waits));
        let discarded = self
            .world
            .call("discard", waits, self.file.discard(range.clone()))
            .await;
        self.print("discard ended", &discarded);
        match discarded {
            Some(Ok(())) => lock(&self.ledger).done(ticket),
            Some(Err(error)) => {
                self.refused("discard", &error);
                self.resolve_uncertain(true).await;
            }
            None => self.write_after_dropped_cut(range).await,
        }
    }
}

/// A handle for reading alone, on an object whose other handles are for reading too. None if the
/// objects that are open are all that half of the budget holds: it may be smaller by now.
pub(super) fn read_only(world: &World, store: usize) -> Option<File> {
    const UNTOUCHED: ObjectId = ObjectId(3_000);
    let (_, attached) = &world.stores[store];
    match world.cache.open_read_only(attached, UNTOUCHED, 0) {
        Ok(file) => Some(file),
        Err(BuildError::TooManyObjects { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}
