//! The table of objects: by number, for a caller that has a key, and by origin, for a caller that
//! opens.

use crate::state::index::{OBJECTS_LIMIT, object_of};
use crate::state::object::{FILE_BYTES, ObjectState, Origin};
pub use crate::state::unused_files::Offered;
use crate::state::unused_files::UnusedFiles;
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
    lock,
};
use forebay_store::ObjectId;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::Arc;

/// How many closed files an open asks for room while there are places left.
const ASKED_FOR_ROOM: u32 = 4;

#[derive(Debug)]
pub struct ObjectTable {
    table: Mutex<Table>,
    limit: u32,
    /// The memory that all objects take, changed under the lock.
    ///
    /// invariant U3: this is the sum over the objects of the table.
    bytes: AtomicU64,
    /// The memory that they may take before closed files are forgotten for new ones.
    room_bytes: AtomicU64,
    /// The place of the file that an open last asked in place of the oldest.
    room_hand: AtomicU64,
    /// Whether files that nobody has open are listed for reclaim.
    lists_unused: bool,
}

/// An object of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StoreObject {
    /// The store.
    pub(crate) backing: usize,
    pub(crate) object: ObjectId,
}

#[derive(Debug, Default)]
struct Table {
    /// Slot `i` holds the object numbered `i + 1`.
    objects: Vec<Option<Arc<ObjectState>>>,
    free: Vec<u32>,
    by_origin: BTreeMap<StoreObject, u32>,
    /// Files that nobody has open, in the order in which they were closed: a caller that needs room
    /// forgets the oldest.
    ///
    /// invariant U2: a file that nobody has open is listed here at the place that it records; a
    /// file that somebody has open is not listed and records place 0. As long as a file keeps its
    /// place, nobody has opened it.
    closed: BTreeMap<u64, Arc<ObjectState>>,
    last_closed_place: u64,
    unused: UnusedFiles,
}

impl ObjectTable {
    pub(crate) fn new(limit: u32, lists_unused: bool) -> ObjectTable {
        ObjectTable {
            table: Mutex::new(Table::default()),
            limit,
            bytes: AtomicU64::new(0),
            room_bytes: AtomicU64::new(u64::MAX),
            room_hand: AtomicU64::new(0),
            lists_unused,
        }
    }

    /// The object numbered `number`.
    pub(crate) fn get(&self, number: u32) -> Option<Arc<ObjectState>> {
        lock(&self.table)
            .objects
            .get(number as usize - 1)
            .cloned()
            .flatten()
    }

    /// The object of a store at `place`.
    pub(crate) fn at(&self, place: StoreObject) -> Option<Arc<ObjectState>> {
        let table = lock(&self.table);
        let number = *table.by_origin.get(&place)?;
        table.objects.get(number as usize - 1).cloned().flatten()
    }

    /// The object of a page that is resident, by the page's key.
    pub fn of_page(&self, key: u64) -> Arc<ObjectState> {
        self.get(object_of(key))
            .expect("a mapped page's object is in the table")
    }

    /// All objects.
    pub(crate) fn all(&self) -> Vec<Arc<ObjectState>> {
        lock(&self.table)
            .objects
            .iter()
            .flatten()
            .cloned()
            .collect()
    }

    /// Bytes that all objects take beside their pages.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Lets objects take `room_bytes` before closed files are forgotten for new ones.
    pub(crate) fn set_room(&self, room_bytes: u64) {
        self.room_bytes.store(room_bytes, Ordering::Relaxed);
    }

    /// Whether objects take more than they may, with `more_bytes` to come.
    pub(crate) fn is_over_room(&self, more_bytes: u64) -> bool {
        self.bytes() + more_bytes > self.room_bytes.load(Ordering::Relaxed)
    }

    /// Whether objects that are open would take more than they may at all, twice their room, with
    /// `more_bytes` to come. Closed files do not count: they go as soon as they can. Nor does
    /// anonymous memory that nobody has open.
    fn is_over_most(&self, table: &Table, more_bytes: u64) -> bool {
        let most_bytes = self.room_bytes.load(Ordering::Relaxed).saturating_mul(2);
        let closed_bytes = table.closed.len() as u64 * FILE_BYTES;
        let open_bytes = self.bytes().saturating_sub(closed_bytes) + more_bytes;
        open_bytes > most_bytes && open_bytes - table.ending().1 > most_bytes
    }

    /// How many objects there may be: the limit, or, if memory is what keeps others from being
    /// opened, those that are open.
    pub(crate) fn limit_reached(&self) -> u32 {
        let table = lock(&self.table);
        let living = table.count() - table.ending().0;
        if living >= self.limit {
            return self.limit;
        }
        living - table.closed.len() as u32
    }

    /// Opens one more handle on the object at `place`, if it is known.
    pub(crate) fn reopen(&self, place: StoreObject) -> Option<Arc<ObjectState>> {
        lock(&self.table).reopen(place)
    }

    /// Opens one more handle on the object of `origin`, which is made if it is not known. When the
    /// table is full, closed files that `forget` can drop make room; None if it can drop none, or
    /// if open objects take twice their room. When objects take more memory than their room, a few
    /// closed files are asked.
    pub(crate) fn open(
        &self,
        origin: Origin,
        length_bytes: u64,
        forget: impl Fn(&ObjectState) -> bool,
    ) -> Option<Arc<ObjectState>> {
        let place = match &origin {
            Origin::File {
                backing, object, ..
            } => Some(StoreObject {
                backing: *backing,
                object: *object,
            }),
            Origin::Anonymous { .. } => None,
        };
        let bytes = origin.object_bytes();
        if self.is_over_room(bytes) {
            if let Some(known) = place.and_then(|place| lock(&self.table).reopen(place)) {
                return Some(known);
            }
            self.make_room_for(bytes, &forget);
        }
        let mut asked_place = 0;
        let mut table = loop {
            let mut table = lock(&self.table);
            if let Some(known) = place.and_then(|place| table.reopen(place)) {
                return Some(known);
            }
            if self.is_over_most(&table, bytes) {
                return None;
            }
            if table.count() < self.limit {
                break table;
            }
            let Some((closed_place, oldest)) = table.closed_after(asked_place) else {
                self.may_outgrow(&table)?;
                break table;
            };
            // Forgetting a file may take long, so it happens without the lock.
            drop(table);
            asked_place = closed_place;
            if forget(&oldest) {
                self.remove_closed(&oldest, closed_place);
            }
        };
        let number = table.free.pop().unwrap_or(table.objects.len() as u32 + 1);
        let object = Arc::new(ObjectState::new(number, origin, length_bytes));
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        object.opened.handles.store(1, Ordering::Release);
        match table.objects.get_mut(number as usize - 1) {
            Some(slot) => *slot = Some(object.clone()),
            None => table.objects.push(Some(object.clone())),
        }
        if let Some(place) = place {
            table.by_origin.insert(place, number);
        }
        Some(object)
    }

    /// Asks a few closed files to make room in memory for an object of `bytes`.
    fn make_room_for(&self, bytes: u64, forget: impl Fn(&ObjectState) -> bool) {
        for _ in 0..ASKED_FOR_ROOM {
            if !self.is_over_room(bytes) {
                break;
            }
            if self.ask_for_room(&self.room_hand, &forget).is_none() {
                // Files that could not be forgotten before may be by now.
                self.room_hand.store(0, Ordering::Relaxed);
                break;
            }
        }
    }

    /// Forgets the file that was closed longest ago. If that one has to stay, because it is dirty,
    /// for example, asks the next one after the place `hand` and notes its place there, so that
    /// files that have to stay do not block all others. Returns whether a file is out; None if
    /// there was no file to ask after that place.
    pub(crate) fn ask_for_room(
        &self,
        hand: &AtomicU64,
        forget: impl Fn(&ObjectState) -> bool,
    ) -> Option<bool> {
        let (oldest_place, oldest) = self.closed_after(0)?;
        if forget(&oldest) && self.remove_closed(&oldest, oldest_place) {
            return Some(true);
        }
        let asked_place = hand.load(Ordering::Relaxed).max(oldest_place);
        let (place, file) = self.closed_after(asked_place)?;
        hand.store(place, Ordering::Relaxed);
        Some(forget(&file) && self.remove_closed(&file, place))
    }

    /// Whether the table has room for one more object. Anonymous memory that nobody has open does
    /// not count: a task of its own gives it up, by its number.
    fn may_outgrow(&self, table: &Table) -> Option<()> {
        let has_number = !table.free.is_empty() || (table.objects.len() as u32) + 1 < OBJECTS_LIMIT;
        (table.count() - table.ending().0 < self.limit && has_number).then_some(())
    }

    /// A handle on an object is gone. True if it was the last.
    ///
    /// The last handle goes under the lock, so that a file that nobody has open is always listed as
    /// closed and a full table finds it.
    pub(crate) fn let_go(&self, object: &Arc<ObjectState>) -> bool {
        let not_last = |handles: u32| (handles > 1).then(|| handles - 1);
        let handles = &object.opened.handles;
        let counted = handles.fetch_update(Ordering::AcqRel, Ordering::Acquire, not_last);
        if counted.is_ok() {
            return false;
        }
        let mut table = lock(&self.table);
        // It may have been opened again meanwhile.
        if handles.fetch_sub(1, Ordering::AcqRel) > 1 {
            return false;
        }
        if !object.is_anonymous() {
            table.add_closed(object);
            if self.lists_unused {
                table.unused.add(object, true);
            }
        }
        true
    }

    /// A file whose pages should have gone has kept some.
    pub fn keep_unused(&self, file: &Arc<ObjectState>) {
        let mut table = lock(&self.table);
        if file.opened.handles.load(Ordering::Acquire) == 0 && table.knows(file) {
            table.unused.add(file, false);
        }
    }

    /// Files that nobody has open and that are listed for reclaim.
    pub fn unused_count(&self) -> u64 {
        lock(&self.table).unused.len()
    }

    /// Asks the file that has been unused for the longest time.
    pub fn offer_unused(&self) -> Offered {
        lock(&self.table).unused.offer()
    }

    /// Takes an object without pages out of the table, if nobody has opened it meanwhile.
    pub(crate) fn remove(&self, object: &ObjectState) -> bool {
        let mut table = lock(&self.table);
        let closed = object.opened.handles.load(Ordering::Acquire) == 0 && table.knows(object);
        if closed {
            self.take_out(&mut table, object);
        }
        closed
    }

    /// The oldest file closed after the one at `place`, and its own place.
    pub(crate) fn closed_after(&self, place: u64) -> Option<(u64, Arc<ObjectState>)> {
        lock(&self.table).closed_after(place)
    }

    /// Files that nobody has open.
    pub(crate) fn closed_count(&self) -> u64 {
        lock(&self.table).closed.len() as u64
    }

    /// Takes a file without pages out of the table, unless somebody has opened it since it was at
    /// `place`. True if it is out.
    pub fn remove_closed(&self, file: &ObjectState, place: u64) -> bool {
        let mut table = lock(&self.table);
        let there = table.closed.get(&place).map(Arc::as_ref);
        let is_there = there.is_some_and(|there| ptr::eq(there, file));
        if is_there {
            self.take_out(&mut table, file);
        }
        is_there
    }

    fn take_out(&self, table: &mut Table, object: &ObjectState) {
        let bytes = object.origin.object_bytes();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        table.remove(object);
    }
}

impl Table {
    /// How many objects there are. Numbers that were given out beyond the limit, while anonymous
    /// memory was ending, stay free afterwards, so the slots say nothing about it.
    fn count(&self) -> u32 {
        (self.objects.len() - self.free.len()) as u32
    }

    /// Anonymous memory that nobody has open and that is not given up yet: how many of them, and
    /// their bytes.
    fn ending(&self) -> (u32, u64) {
        let is_ending = |object: &&Arc<ObjectState>| {
            object.is_anonymous() && object.opened.handles.load(Ordering::Acquire) == 0
        };
        let ending = self.objects.iter().flatten().filter(is_ending);
        ending.fold((0, 0), |(count, bytes), object| {
            (count + 1, bytes + object.origin.object_bytes())
        })
    }

    fn knows(&self, object: &ObjectState) -> bool {
        let known = self.objects.get(object.number as usize - 1);
        known
            .and_then(Option::as_deref)
            .is_some_and(|known| ptr::eq(known, object))
    }

    /// Another handle on the object of `place`, if it is known.
    fn reopen(&mut self, place: StoreObject) -> Option<Arc<ObjectState>> {
        let number = *self.by_origin.get(&place)?;
        let known = self.objects[number as usize - 1]
            .clone()
            .expect("named objects exist");
        known.opened.handles.fetch_add(1, Ordering::AcqRel);
        self.take_off_closed(&known);
        self.unused.remove(&known);
        Some(known)
    }

    /// Lists a file as the one that was closed last.
    fn add_closed(&mut self, file: &Arc<ObjectState>) {
        self.take_off_closed(file);
        self.last_closed_place += 1;
        let place = self.last_closed_place;
        file.opened.closed_place.store(place, Ordering::Relaxed);
        self.closed.insert(place, file.clone());
    }

    fn take_off_closed(&mut self, file: &ObjectState) {
        let place = file.opened.closed_place.swap(0, Ordering::Relaxed);
        self.closed.remove(&place);
    }

    /// The oldest file closed after the one at `place`, and its own place.
    fn closed_after(&self, place: u64) -> Option<(u64, Arc<ObjectState>)> {
        let (&place, file) = self.closed.range(place + 1..).next()?;
        Some((place, file.clone()))
    }

    fn remove(&mut self, object: &ObjectState) {
        self.take_off_closed(object);
        self.unused.remove(object);
        self.objects[object.number as usize - 1] = None;
        self.free.push(object.number);
        if let Origin::File {
            backing, object, ..
        } = &object.origin
        {
            self.by_origin.remove(&StoreObject {
                backing: *backing,
                object: *object,
            });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use forebay_base::sync::atomic::AtomicU32;

    fn file(object: u64) -> Origin {
        Origin::File {
            backing: 0,
            object: ObjectId(object),
        }
    }

    /// What invariant U2 says.
    fn assert_listed(table: &ObjectTable) {
        let table = lock(&table.table);
        for file in table.objects.iter().flatten() {
            let place = file.opened.closed_place.load(Ordering::Relaxed);
            let is_open = file.opened.handles.load(Ordering::Acquire) > 0;
            assert_eq!(place == 0, is_open, "file {}", file.number);
            let there = table.closed.get(&place);
            assert_eq!(
                there.is_some_and(|there| Arc::ptr_eq(there, file)),
                !is_open
            );
        }
        assert!(table.closed.len() <= table.objects.iter().flatten().count());
    }

    #[test]
    fn invariant_u3_the_bytes_of_a_table_are_those_of_its_objects() {
        let table = ObjectTable::new(100, false);
        let of_file = file(1).object_bytes();
        table.set_room(3 * of_file);
        let all = |_: &ObjectState| true;
        let open = |object| table.open(file(object), 0, all).expect("there is room");
        let first = open(1);
        table.let_go(&open(2));
        table.let_go(&open(3));
        assert_eq!((table.bytes(), table.closed_count()), (3 * of_file, 2));
        table.let_go(&open(4));
        assert_eq!(table.bytes(), 3 * of_file, "the oldest made room");
        assert!(
            table
                .get(2)
                .is_some_and(|fourth| fourth.opened.closed_place.load(Ordering::Relaxed) > 0)
        );
        // No open is refused because of it.
        let slots = (0..500).map(|_| AtomicU32::new(0)).collect();
        let memory = table.open(Origin::Anonymous { slots }, 0, |_| false);
        let memory = memory.expect("there are places");
        assert_eq!(table.bytes(), 4 * of_file + 2_000);
        table.let_go(&memory);
        assert!(table.remove(&memory));
        let (place, third) = table.closed_after(0).expect("it is closed");
        assert!(!table.remove_closed(&first, place), "another is there");
        assert!(table.remove_closed(&third, place));
        assert!(!table.remove(&first), "it is open");
        assert_eq!((table.bytes(), table.closed_count()), (2 * of_file, 1));
    }

    /// Memory that is ending gives its place up before its number, which makes no second place.
    #[test]
    fn a_number_that_was_given_beyond_the_limit_is_no_place() {
        let table = ObjectTable::new(2, false);
        let open = |object| table.open(file(object), 0, |_| false);
        let slots = Box::from([]);
        let ending = table.open(Origin::Anonymous { slots }, 0, |_| false);
        let ending = ending.expect("there are places");
        assert!(table.let_go(&ending));
        let kept = (open(1).expect("one"), open(2).expect("two"));
        assert_eq!((kept.0.number, kept.1.number), (2, 3));
        assert!(open(3).is_none(), "two are open, and the memory is ending");
        assert!(table.remove(&ending));
        assert!(open(3).is_none(), "two are open");
        assert!(table.let_go(&kept.0));
        assert!(table.remove(&kept.0));
        assert_eq!(open(3).expect("one was closed").number, 2);
        assert!(open(4).is_none(), "two are open");
    }

    #[test]
    fn a_file_that_is_opened_while_it_is_forgotten_stays() {
        let table = ObjectTable::new(2, false);
        let any = |_: &ObjectState| true;
        for object in [1, 2] {
            let opened = table.open(file(object), 0, any).expect("there is room");
            assert!(table.let_go(&opened));
        }
        assert_listed(&table);
        let asked = Mutex::new(Vec::new());
        let third = table.open(file(3), 0, |oldest| {
            lock(&asked).push(oldest.number);
            if oldest.number == 1 {
                // Somebody else opens it meanwhile: the table is not locked.
                let reopened = table.open(file(1), 0, any).expect("it is known");
                assert_eq!(reopened.number, 1);
            }
            true
        });
        assert_eq!(third.expect("the second one made room").number, 2);
        assert_eq!(*lock(&asked), [1, 2]);
        assert_listed(&table);
        assert!(table.open(file(4), 0, any).is_none(), "all are open");
        let first = table.get(1).expect("it is open");
        assert!(table.let_go(&first));
        assert_listed(&table);
        assert!(table.open(file(4), 0, any).is_some());
        assert_listed(&table);
    }
}
