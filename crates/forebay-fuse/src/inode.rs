//! The files that the kernel knows, by the numbers under which it knows them.
//!
//! invariant M1: a file is in the table while the kernel has looked it up more often than it has
//! forgotten it, or while the cache has its content, or a loss of it that nobody was told.

use crate::attributes::kind_of;
use crate::content::ContentSlot;
use forebay_base::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
    lock,
};
use fuser::FileType;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::Stat;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::ops::Bound;

/// The kernel's number of the mounted folder itself.
pub(crate) const ROOT: u64 = 1;

/// Numbers from here on are given to files whose own numbers cannot be used: those of other file
/// systems below the source, and one with the number of the root.
const FIRST_MADE_UP: u64 = 1 << 63;

/// No length that a file can have.
const UNTOLD: u64 = u64::MAX;

/// Openers of a file that are remembered to have been refused.
const REFUSED: usize = 64;

/// Who was refused to open a file, so that it looks it up first.
#[derive(Debug, Default)]
struct Refusals {
    /// Threads that were refused and have not come again.
    openers: BTreeSet<u32>,
    /// Nobody came again since: the kernel may have been told the length and not have heard it.
    is_unheard: bool,
}

/// A file of the source.
#[derive(Debug)]
pub(crate) struct Inode {
    /// The kernel's number of it: its own, where that is unmistakable.
    pub(crate) id: u64,
    pub(crate) kind: FileType,
    /// Its device and number below.
    place: (u64, u64),
    /// Held open by its path alone.
    fd: OwnedFd,
    /// Look-ups that the kernel has not taken back. Changed under the table's lock.
    lookups: AtomicU64,
    /// The length that the kernel knows, as far as we know; `UNTOLD` if it was told none.
    told_length: AtomicU64,
    refusals: Mutex<Refusals>,
    /// One of its names: the folder's number and the name there.
    name: Mutex<Option<(u64, OsString)>>,
    pub(crate) content: ContentSlot,
}

impl AsFd for Inode {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Inode {
    /// A file of which the kernel was told nothing yet.
    fn new(id: u64, kind: FileType, place: (u64, u64), fd: OwnedFd) -> Inode {
        Inode {
            id,
            kind,
            place,
            fd,
            lookups: AtomicU64::new(0),
            told_length: AtomicU64::new(UNTOLD),
            refusals: Mutex::default(),
            name: Mutex::new(None),
            content: ContentSlot::default(),
        }
    }

    /// Notes the length that the kernel knows from now on.
    pub(crate) fn note_told_length(&self, length_bytes: u64) {
        self.told_length.store(length_bytes, Ordering::Relaxed);
    }

    /// Whether who opens the file, which is `length_bytes` long and nobody uses, has to look it up
    /// first, because the kernel knows another length or may do so. Each opener has to once: who
    /// comes again has looked it up, though it may have grown since.
    pub(crate) fn must_look_up(&self, length_bytes: u64, opener: u32) -> bool {
        let told = self.told_length.load(Ordering::Relaxed);
        let is_other = told != UNTOLD && told != length_bytes;
        let mut refusals = lock(&self.refusals);
        if refusals.openers.remove(&opener) {
            // The kernel has heard what it was told: its answer is here.
            refusals.is_unheard &= is_other;
            return false;
        }
        if !is_other && !refusals.is_unheard {
            return false;
        }
        if refusals.openers.len() >= REFUSED {
            refusals.openers.pop_first();
        }
        refusals.is_unheard = true;
        refusals.openers.insert(opener)
    }

    /// A name under which the file was found last, or that it was given since.
    pub(crate) fn name(&self) -> Option<(u64, OsString)> {
        lock(&self.name).clone()
    }

    /// Notes that the file is called `name` in the folder `parent`.
    pub(crate) fn set_name(&self, parent: u64, name: &OsStr) {
        *lock(&self.name) = Some((parent, name.to_owned()));
    }
}

/// The table.
#[derive(Debug)]
pub(crate) struct InodeTable {
    root_device: u64,
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    by_id: BTreeMap<u64, Arc<Inode>>,
    by_place: BTreeMap<(u64, u64), u64>,
    next_made_up: u64,
}

impl InodeTable {
    /// A table with the root alone.
    pub(crate) fn new(root: OwnedFd, stat: &Stat) -> InodeTable {
        let place = (stat.st_dev, stat.st_ino);
        let inode = Inode::new(ROOT, FileType::Directory, place, root);
        // It is never forgotten.
        inode.lookups.store(1, Ordering::Relaxed);
        InodeTable {
            root_device: stat.st_dev,
            table: Mutex::new(Table {
                by_id: BTreeMap::from([(ROOT, Arc::new(inode))]),
                by_place: BTreeMap::from([(place, ROOT)]),
                next_made_up: FIRST_MADE_UP,
            }),
        }
    }

    /// Files in it.
    pub(crate) fn len(&self) -> usize {
        lock(&self.table).by_id.len()
    }

    /// The file that the kernel knows as `id`.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Inode>> {
        lock(&self.table).by_id.get(&id).cloned()
    }

    /// Every file.
    pub(crate) fn all(&self) -> Vec<Arc<Inode>> {
        lock(&self.table).by_id.values().cloned().collect()
    }

    /// The kernel's number of a place below, if it knows it.
    pub(crate) fn id_at(&self, place: (u64, u64)) -> Option<u64> {
        lock(&self.table).by_place.get(&place).copied()
    }

    /// Counts one more look-up of the file that `fd` names and `stat` describes, found as `name`
    /// in the folder `parent`.
    pub(crate) fn look_up(
        &self,
        fd: OwnedFd,
        stat: &Stat,
        parent: u64,
        name: &OsStr,
    ) -> Arc<Inode> {
        let place = (stat.st_dev, stat.st_ino);
        let mut table = lock(&self.table);
        let inode = if let Some(id) = table.by_place.get(&place) {
            table.by_id[id].clone()
        } else {
            let id = table.number_for(place, self.root_device);
            let inode = Arc::new(Inode::new(id, kind_of(stat), place, fd));
            table.by_place.insert(place, id);
            table.by_id.insert(id, inode.clone());
            inode
        };
        inode.lookups.fetch_add(1, Ordering::Relaxed);
        drop(table);
        inode.set_name(parent, name);
        inode
    }

    /// Takes `count` look-ups back. Returns the file if the kernel knows it no more, but its slot
    /// is not empty.
    pub(crate) fn forget(&self, id: u64, count: u64) -> Option<Arc<Inode>> {
        let mut table = lock(&self.table);
        let inode = table.by_id.get(&id)?.clone();
        if id == ROOT {
            return None;
        }
        let known = inode.lookups.load(Ordering::Relaxed);
        let left = known.saturating_sub(count);
        inode.lookups.store(left, Ordering::Relaxed);
        if left > 0 {
            return None;
        }
        if inode.content.is_empty() {
            table.remove(&inode);
            return None;
        }
        Some(inode)
    }

    /// Whether the kernel knows the file. Whoever makes the content unused first and then asks, and
    /// whoever forgets first and then looks for users: one of the two sees what the other did.
    pub(crate) fn is_known(&self, inode: &Inode) -> bool {
        let _table = lock(&self.table);
        inode.lookups.load(Ordering::Relaxed) > 0
    }

    /// Removes a file whose content is gone, if the kernel does not know it either (invariant M1).
    pub(crate) fn content_gone(&self, inode: &Inode) {
        let mut table = lock(&self.table);
        if inode.lookups.load(Ordering::Relaxed) == 0 && inode.content.is_empty() {
            table.remove(inode);
        }
    }

    /// Up to `count` files behind `after` of which the kernel could forget all names: no folders,
    /// in which somebody may stand, and nothing that is open.
    pub(crate) fn forgettable(&self, after: u64, count: usize) -> Vec<Arc<Inode>> {
        let table = lock(&self.table);
        let behind = (Bound::Excluded(after), Bound::Unbounded);
        let idle =
            |inode: &&Arc<Inode>| inode.kind != FileType::Directory && !inode.content.is_in_use();
        let found = table.by_id.range(behind).map(|(_, inode)| inode);
        found.filter(idle).take(count).cloned().collect()
    }
}

impl Table {
    fn number_for(&mut self, place: (u64, u64), root_device: u64) -> u64 {
        let (device, own) = place;
        if device == root_device && own > ROOT && own < FIRST_MADE_UP {
            return own;
        }
        self.next_made_up += 1;
        self.next_made_up
    }

    fn remove(&mut self, inode: &Inode) {
        // One that was forgotten and then found anew has a successor of the same number here.
        let is_here = |found: &Arc<Inode>| std::ptr::eq(Arc::as_ptr(found), inode);
        if !self.by_id.get(&inode.id).is_some_and(is_here) {
            return;
        }
        self.by_id.remove(&inode.id);
        self.by_place.remove(&inode.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{look, open_folder};

    fn table(folder: &std::path::Path) -> InodeTable {
        let root = open_folder(folder).unwrap();
        let stat = rustix::fs::fstat(&root).unwrap();
        InodeTable::new(root, &stat)
    }

    fn find(table: &InodeTable, name: &str) -> Arc<Inode> {
        let root = table.get(ROOT).unwrap();
        let (fd, stat) = look(root.as_fd(), name.as_ref()).unwrap();
        table.look_up(fd, &stat, ROOT, name.as_ref())
    }

    #[test]
    fn a_file_stays_as_long_as_the_kernel_knows_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), b"a").unwrap();
        std::fs::hard_link(folder.path().join("a"), folder.path().join("b")).unwrap();
        let table = table(folder.path());
        let (a, b) = (find(&table, "a"), find(&table, "b"));
        assert!(table.is_known(&a));
        assert!(Arc::ptr_eq(&a, &b), "two names, one file");
        assert_eq!(table.len(), 2);
        assert!(table.forget(a.id, 1).is_none());
        assert!(
            table.get(a.id).is_some(),
            "one look-up is left (invariant M1)"
        );
        assert!(table.forget(a.id, 1).is_none());
        assert!(table.get(a.id).is_none() && !table.is_known(&a));
        assert_eq!(table.len(), 1, "the root is never forgotten");
    }

    #[test]
    fn a_file_with_a_loss_that_nobody_was_told_is_not_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), b"f").unwrap();
        let table = table(folder.path());
        let lost = find(&table, "f");
        lost.content
            .with(|slot| slot.untold_loss = Some(rustix::io::Errno::IO));
        assert!(table.forget(lost.id, 1).is_some(), "it may have no name");
        let again = find(&table, "f");
        assert!(Arc::ptr_eq(&again, &lost), "its next sync has to tell");
        table.forget(lost.id, 1);
        lost.content.with(|slot| slot.untold_loss = None);
        table.content_gone(&lost);
        assert_eq!(table.len(), 1, "the root alone");
    }

    #[test]
    fn a_file_that_is_found_anew_outlives_the_end_of_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), b"f").unwrap();
        let table = table(folder.path());
        let old = find(&table, "f");
        assert!(table.forget(old.id, 1).is_none());
        let new = find(&table, "f");
        table.content_gone(&old);
        let found = table.get(new.id).expect("the kernel knows it");
        assert!(Arc::ptr_eq(&found, &new));
    }

    #[test]
    fn a_file_with_the_number_of_the_root_gets_another() {
        let mut table = Table {
            by_id: BTreeMap::new(),
            by_place: BTreeMap::new(),
            next_made_up: FIRST_MADE_UP,
        };
        assert_eq!(table.number_for((5, 77), 5), 77);
        let (one, other) = (table.number_for((5, ROOT), 5), table.number_for((6, 77), 5));
        assert!(
            one > FIRST_MADE_UP && other > one,
            "and so does another device's"
        );
    }

    #[test]
    fn folders_are_not_forgotten_behind_somebodys_back() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("d")).unwrap();
        std::fs::write(folder.path().join("f"), b"f").unwrap();
        let table = table(folder.path());
        let (_, f) = (find(&table, "d"), find(&table, "f"));
        let found = table.forgettable(0, 10);
        assert_eq!(
            found.iter().map(|inode| inode.id).collect::<Vec<_>>(),
            [f.id]
        );
    }
}
