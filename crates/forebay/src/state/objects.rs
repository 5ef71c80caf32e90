//! The table of objects: by number, for whoever has a key, and by origin, for whoever opens.

use crate::state::index::OBJECTS_LIMIT;
use crate::state::object::{ObjectState, Origin};
pub(crate) use crate::state::unused_files::Offered;
use crate::state::unused_files::UnusedFiles;
use forebay_base::sync::{Mutex, atomic::Ordering, lock};
use forebay_store::ObjectId;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct ObjectTable {
    table: Mutex<Table>,
    limit: u32,
    /// Whether files that nobody has open are listed for reclaim.
    lists_unused: bool,
}

#[derive(Debug, Default)]
struct Table {
    /// Slot `i` holds the object numbered `i + 1`.
    objects: Vec<Option<Arc<ObjectState>>>,
    free: Vec<u32>,
    by_origin: BTreeMap<(usize, ObjectId), u32>,
    unused: UnusedFiles,
}

impl ObjectTable {
    pub(crate) fn new(limit: u32, lists_unused: bool) -> ObjectTable {
        ObjectTable {
            table: Mutex::new(Table::default()),
            limit,
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

    /// All objects.
    pub(crate) fn all(&self) -> Vec<Arc<ObjectState>> {
        lock(&self.table)
            .objects
            .iter()
            .flatten()
            .cloned()
            .collect()
    }

    /// Opens one more handle on the object of `origin`, which is made if it is not known. When
    /// the table is full, closed files that `forget` can drop make room; None if none can.
    pub(crate) fn open(
        &self,
        origin: Origin,
        length_bytes: u64,
        forget: impl Fn(&ObjectState) -> bool,
    ) -> Option<Arc<ObjectState>> {
        let mut table = lock(&self.table);
        let place = match &origin {
            Origin::File {
                backing, object, ..
            } => Some((*backing, *object)),
            Origin::Anonymous { .. } => None,
        };
        if let Some(&number) = place.and_then(|place| table.by_origin.get(&place)) {
            let known = table.objects[number as usize - 1]
                .clone()
                .expect("named objects exist");
            known.handles.fetch_add(1, Ordering::AcqRel);
            table.unused.remove(&known);
            return Some(known);
        }
        if table.free.is_empty() && table.objects.len() as u32 >= self.limit {
            self.make_room(&mut table, forget)?;
        }
        let number = table.free.pop().unwrap_or(table.objects.len() as u32 + 1);
        let object = Arc::new(ObjectState::new(number, origin, length_bytes));
        object.handles.store(1, Ordering::Release);
        match table.objects.get_mut(number as usize - 1) {
            Some(slot) => *slot = Some(object.clone()),
            None => table.objects.push(Some(object.clone())),
        }
        if let Some(place) = place {
            table.by_origin.insert(place, number);
        }
        Some(object)
    }

    /// Forgets a closed file for a new object to have its place. None if there is no room.
    fn make_room(&self, table: &mut Table, forget: impl Fn(&ObjectState) -> bool) -> Option<()> {
        // Not memory, which a task of its own gives up by its number. What is left of it does not
        // count.
        let (mut ending, mut gone) = (0, None);
        for object in table.objects.iter().flatten() {
            if object.handles.load(Ordering::Acquire) > 0 {
                continue;
            }
            if object.is_anonymous() {
                ending += 1;
            } else if forget(object) {
                gone = Some(object.clone());
                break;
            }
        }
        let count = table.objects.len() as u32;
        match gone {
            Some(gone) => table.remove(&gone),
            None if count - ending < self.limit && count + 1 < OBJECTS_LIMIT => {}
            None => return None,
        }
        Some(())
    }

    /// The last handle of a file is gone, unless it was opened again meanwhile.
    pub(crate) fn closed(&self, file: &Arc<ObjectState>) {
        if self.lists_unused && !file.is_anonymous() {
            self.list_unused(file, true);
        }
    }

    /// A file that was due has kept pages.
    pub(crate) fn keep_unused(&self, file: &Arc<ObjectState>) {
        self.list_unused(file, false);
    }

    fn list_unused(&self, file: &Arc<ObjectState>, used_lately: bool) {
        let mut table = lock(&self.table);
        if file.handles.load(Ordering::Acquire) == 0 && table.knows(file) {
            table.unused.add(file, used_lately);
        }
    }

    /// Files that nobody has open, of those that are listed for reclaim.
    pub(crate) fn unused_count(&self) -> u64 {
        lock(&self.table).unused.len()
    }

    /// Asks the file that was unused longest.
    pub(crate) fn offer_unused(&self) -> Offered {
        lock(&self.table).unused.offer()
    }

    /// Takes an object without pages out of the table, if nobody has opened it meanwhile.
    pub(crate) fn remove(&self, object: &ObjectState) -> bool {
        let mut table = lock(&self.table);
        let closed = object.handles.load(Ordering::Acquire) == 0 && table.knows(object);
        if closed {
            table.remove(object);
        }
        closed
    }
}

impl Table {
    fn knows(&self, object: &ObjectState) -> bool {
        let known = self.objects.get(object.number as usize - 1);
        known
            .and_then(Option::as_deref)
            .is_some_and(|known| ptr::eq(known, object))
    }

    fn remove(&mut self, object: &ObjectState) {
        self.unused.remove(object);
        self.objects[object.number as usize - 1] = None;
        self.free.push(object.number);
        if let Origin::File {
            backing, object, ..
        } = &object.origin
        {
            self.by_origin.remove(&(*backing, *object));
        }
    }
}
