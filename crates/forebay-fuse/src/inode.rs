//! The files that the kernel knows, by the numbers under which it knows them.
//!
//! invariant M1: a file is in the table while the kernel has looked it up more often than it has
//! forgotten it, or while the cache has its content, or a loss of it that was not reported.

use crate::content::ContentSlot;
use crate::identity::{Identity, Place};
use crate::listing::Listing;
use forebay_base::hash::mix;
use forebay_base::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
    lock,
};
use fuser::FileType;
use rustix::fd::OwnedFd;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::ops::Bound;
use std::sync::Weak;

/// The kernel's number of the mounted folder itself.
pub(crate) const ROOT: u64 = 1;

/// Numbers from here on are given to files whose own numbers cannot be used: those of other file
/// systems below the source, and one with the number of the root.
const FIRST_MADE_UP: u64 = 1 << 63;

/// A length that no file can have.
const NEVER_REPORTED: u64 = u64::MAX;

/// How many refused openers of a file are remembered.
const REFUSED: usize = 64;

/// Callers whose open of a file was refused, so that they look it up first.
#[derive(Debug, Default)]
struct Refusals {
    /// Threads that were refused and have not come again.
    openers: BTreeSet<u32>,
    /// None has come again since: the length may not have reached the kernel yet.
    is_unheard: bool,
}

/// The descriptor of a file, while it is not given back.
#[derive(Debug, Default)]
pub(crate) struct CachedFd {
    pub(crate) fd: Option<Arc<OwnedFd>>,
    /// The one that was given back last, which a caller may still use.
    pub(crate) given_back: Weak<OwnedFd>,
    /// It must not be given back.
    pub(crate) is_pinned: bool,
    /// It was asked for since it last came to the front of the cache.
    pub(crate) was_used: bool,
}

impl CachedFd {
    /// The descriptor of a file that is held for good.
    pub(crate) fn pinned(fd: OwnedFd) -> CachedFd {
        CachedFd {
            fd: Some(Arc::new(fd)),
            is_pinned: true,
            ..CachedFd::default()
        }
    }

    /// The descriptor, while anything holds it.
    pub(crate) fn present(&self) -> Option<Arc<OwnedFd>> {
        self.fd.clone().or_else(|| self.given_back.upgrade())
    }
}

/// A file of the source.
#[derive(Debug)]
pub(crate) struct Inode {
    /// The kernel's number of it: its own, if that is unique.
    pub(crate) id: u64,
    pub(crate) kind: FileType,
    /// The file below, as it was known last.
    identity: Mutex<Identity>,
    /// What holds it open, while there are descriptors to spare.
    pub(crate) cached_fd: Mutex<CachedFd>,
    /// Look-ups that the kernel has not taken back. Changed under the table's lock.
    lookups: AtomicU64,
    /// The length that the kernel knows, as far as we know; `NEVER_REPORTED` if it got none.
    reported_length: AtomicU64,
    refusals: Mutex<Refusals>,
    /// One of its names: the folder, and the name there.
    name: Mutex<Option<(Arc<Inode>, Box<OsStr>)>>,
    pub(crate) content: ContentSlot,
    /// What the kernel may keep of a folder.
    pub(crate) listing: Listing,
    /// Bytes can only be appended to it.
    appends_only: AtomicBool,
}

impl Inode {
    /// A file that the kernel does not know yet.
    fn new(id: u64, identity: Identity, cached_fd: CachedFd) -> Inode {
        Inode {
            id,
            kind: crate::attributes::kind(identity.kind),
            identity: Mutex::new(identity),
            cached_fd: Mutex::new(cached_fd),
            lookups: AtomicU64::new(0),
            reported_length: AtomicU64::new(NEVER_REPORTED),
            refusals: Mutex::default(),
            name: Mutex::new(None),
            content: ContentSlot::default(),
            listing: Listing::default(),
            appends_only: AtomicBool::new(false),
        }
    }

    /// The file below, as it was known last.
    pub(crate) fn identity(&self) -> Identity {
        *lock(&self.identity)
    }

    /// The same file is known as `identity` from now on, if that is at the same place.
    pub(crate) fn renew_in_place(&self, identity: Identity) {
        let mut known = lock(&self.identity);
        if known.place == identity.place {
            *known = identity;
        }
    }

    /// Notes whether bytes can only be appended to it.
    pub(crate) fn record_appends_only(&self, appends_only: bool) {
        if self.appends_only() != appends_only {
            self.appends_only.store(appends_only, Ordering::Relaxed);
        }
    }

    /// Whether bytes could only be appended to it when it was last looked up.
    pub(crate) fn appends_only(&self) -> bool {
        self.appends_only.load(Ordering::Relaxed)
    }

    /// Notes the length that the kernel knows from now on.
    pub(crate) fn record_reported_length(&self, length_bytes: u64) {
        self.reported_length.store(length_bytes, Ordering::Relaxed);
    }

    /// Whether a caller that opens the file, which has `length_bytes` and no users, has to look it
    /// up first, because the kernel has, or may have, another length. Without a length it has lost
    /// its name, which may belong to another file. Each opener has to do so
    /// once: one that comes again has looked it up, even if the file has grown since.
    pub(crate) fn must_look_up(&self, length_bytes: Option<u64>, opener: u32) -> bool {
        let reported = self.reported_length.load(Ordering::Relaxed);
        let is_other = length_bytes
            .is_none_or(|length_bytes| reported != NEVER_REPORTED && reported != length_bytes);
        let mut refusals = lock(&self.refusals);
        if refusals.openers.remove(&opener) {
            // The kernel has the length that it was sent, since its answer has come.
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

    /// The name under which the file was found last, or one that it got since.
    pub(crate) fn name(&self) -> Option<(Arc<Inode>, Box<OsStr>)> {
        lock(&self.name).clone()
    }

    /// Notes that the file is called `name` in the folder `parent`.
    pub(crate) fn set_name(&self, parent: &Arc<Inode>, name: &OsStr) {
        let mut known = lock(&self.name);
        if let Some((folder, called)) = &*known
            && Arc::ptr_eq(folder, parent)
            && **called == *name
        {
            return;
        }
        let before = known.replace((parent.clone(), name.into()));
        drop(known);
        // It may hold the last reference to its folder.
        drop(before);
    }

    /// Whether it was found last as `name` in the folder with the number `parent`.
    pub(crate) fn is_called(&self, parent: u64, name: &OsStr) -> bool {
        let known = lock(&self.name);
        let is_it =
            |(folder, called): &(Arc<Inode>, Box<OsStr>)| folder.id == parent && **called == *name;
        known.as_ref().is_some_and(is_it)
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
    by_place: BTreeMap<Place, u64>,
    /// What numbers of other devices than the root's are made of.
    seeds: BTreeMap<u64, u64>,
    next_made_up: u64,
}

impl InodeTable {
    /// A table with the root alone.
    pub(crate) fn new(root: OwnedFd, identity: Identity) -> InodeTable {
        let inode = Inode::new(ROOT, identity, CachedFd::pinned(root));
        // It is never forgotten.
        inode.lookups.store(1, Ordering::Relaxed);
        InodeTable {
            root_device: identity.place.device,
            table: Mutex::new(Table {
                by_id: BTreeMap::from([(ROOT, Arc::new(inode))]),
                by_place: BTreeMap::from([(identity.place, ROOT)]),
                seeds: BTreeMap::new(),
                next_made_up: FIRST_MADE_UP,
            }),
        }
    }

    /// The device of the mounted folder.
    pub(crate) fn root_device(&self) -> u64 {
        self.root_device
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

    /// Whether files of this device get numbers that are made of theirs, in a way that is not known
    /// yet.
    pub(crate) fn is_new(&self, device: u64) -> bool {
        device != self.root_device && !lock(&self.table).seeds.contains_key(&device)
    }

    /// Numbers of files of `device` are made of theirs and of `seed`.
    pub(crate) fn record_device(&self, device: u64, seed: u64) {
        lock(&self.table).seeds.insert(device, seed);
    }

    /// The file at a place below, if the kernel knows it.
    pub(crate) fn at(&self, place: Place) -> Option<Arc<Inode>> {
        let table = lock(&self.table);
        let id = table.by_place.get(&place)?;
        table.by_id.get(id).cloned()
    }

    /// The file `inode` is the one that is now known as `identity`.
    pub(crate) fn renew(&self, inode: &Inode, identity: Identity) {
        let mut table = lock(&self.table);
        let before = std::mem::replace(&mut *lock(&inode.identity), identity);
        if before.place == identity.place || !table.has(inode) {
            return;
        }
        if table.by_place.get(&before.place) == Some(&inode.id) {
            table.by_place.remove(&before.place);
        }
        table.by_place.insert(identity.place, inode.id);
    }

    /// The file, if the kernel may know it now, that was `inode` before it was forgotten.
    pub(crate) fn successor(&self, inode: &Inode) -> Option<Arc<Inode>> {
        let table = lock(&self.table);
        let identity = inode.identity();
        let id = table.by_place.get(&identity.place)?;
        let found = table.by_id.get(id)?;
        (found.identity() == identity).then(|| found.clone())
    }

    /// Counts one more look-up of the file `identity`, found as `name` in the folder `parent`.
    pub(crate) fn look_up(
        &self,
        identity: Identity,
        parent: &Arc<Inode>,
        name: &OsStr,
    ) -> Arc<Inode> {
        let mut table = lock(&self.table);
        let known = table.by_place.get(&identity.place);
        let known = known.map(|id| table.by_id[id].clone());
        // A removed file of the same number is another file, which the kernel may still know.
        let inode = match known.filter(|inode| inode.identity() == identity) {
            Some(inode) => inode,
            None => table.insert(identity, self.root_device),
        };
        inode.lookups.fetch_add(1, Ordering::Relaxed);
        drop(table);
        inode.set_name(parent, name);
        inode
    }

    /// Takes `count` look-ups back. Returns the file if the kernel no longer knows it, but its slot
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

    /// Whether the kernel knows the file. One side makes the content unused and then asks this; the
    /// other forgets the file and then looks for users. At least one of the two sees what the other
    /// did.
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

    /// Up to `count` files after `after` of which the kernel could forget all names: no folders,
    /// because one may be a program's working folder, and nothing that is open.
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
    fn insert(&mut self, identity: Identity, root_device: u64) -> Arc<Inode> {
        let mut id = self.number_for(identity.place, root_device);
        while self.by_id.contains_key(&id) {
            self.next_made_up += 1;
            id = self.next_made_up;
        }
        let inode = Arc::new(Inode::new(id, identity, CachedFd::default()));
        self.by_place.insert(identity.place, id);
        self.by_id.insert(id, inode.clone());
        inode
    }

    fn number_for(&self, place: Place, root_device: u64) -> u64 {
        let Place {
            device,
            number: own,
        } = place;
        if device == root_device && own > ROOT && own < FIRST_MADE_UP {
            return own;
        }
        let seed = self.seeds.get(&device).copied().unwrap_or_default();
        FIRST_MADE_UP | mix(seed ^ mix(own))
    }

    /// Whether `inode` is in it. A file that was forgotten and then found again has a successor of
    /// the same number.
    fn has(&self, inode: &Inode) -> bool {
        let is_it = |found: &Arc<Inode>| std::ptr::eq(Arc::as_ptr(found), inode);
        self.by_id.get(&inode.id).is_some_and(is_it)
    }

    fn remove(&mut self, inode: &Inode) {
        if !self.has(inode) {
            return;
        }
        self.by_id.remove(&inode.id);
        let place = inode.identity().place;
        if self.by_place.get(&place) == Some(&inode.id) {
            self.by_place.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::identity_of;
    use crate::source::{look, open_folder};
    use rustix::fd::AsFd;
    use rustix::fs::AtFlags;

    fn table(folder: &std::path::Path) -> InodeTable {
        let root = open_folder(folder).unwrap();
        let identity = identity_of(&root).unwrap();
        InodeTable::new(root, identity)
    }

    fn find(table: &InodeTable, name: &str) -> Arc<Inode> {
        let root = table.get(ROOT).unwrap();
        let fd = lock(&root.cached_fd).fd.clone().unwrap();
        let found = look(fd.as_fd(), name.as_ref(), AtFlags::empty()).unwrap();
        table.look_up(found.identity, &root, name.as_ref())
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
    fn a_file_with_a_loss_that_nobody_heard_of_is_not_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), b"f").unwrap();
        let table = table(folder.path());
        let lost = find(&table, "f");
        lost.content
            .with(|slot| slot.unreported_loss = Some(rustix::io::Errno::IO));
        assert!(table.forget(lost.id, 1).is_some(), "it may have no name");
        let again = find(&table, "f");
        assert!(Arc::ptr_eq(&again, &lost), "its next sync has to report it");
        table.forget(lost.id, 1);
        lost.content.with(|slot| slot.unreported_loss = None);
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

    /// A backup knows a file again by its number, also after the next start.
    #[test]
    fn files_whose_numbers_cannot_be_used_get_others_that_stay() {
        let table = Table {
            by_id: BTreeMap::new(),
            by_place: BTreeMap::new(),
            seeds: BTreeMap::from([(6, 1), (7, 2)]),
            next_made_up: FIRST_MADE_UP,
        };
        let place = |(device, number)| Place { device, number };
        assert_eq!(table.number_for(place((5, 77)), 5), 77);
        let places = [(5, ROOT), (6, 77), (7, 77), (6, 78), (5, u64::MAX)].map(place);
        let mut numbers = places.map(|place| table.number_for(place, 5));
        assert_eq!(numbers, places.map(|place| table.number_for(place, 5)));
        numbers.sort_unstable();
        assert!(numbers[0] > FIRST_MADE_UP);
        assert!(
            numbers.windows(2).all(|pair| pair[0] != pair[1]),
            "{numbers:?}"
        );
    }

    #[test]
    fn a_file_is_found_where_it_is_now() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), b"f").unwrap();
        let table = table(folder.path());
        let known = find(&table, "f");
        let before = known.identity();
        let now = Identity {
            place: Place {
                number: u64::MAX,
                ..before.place
            },
            ..before
        };
        table.renew(&known, now);
        assert!(table.at(before.place).is_none());
        let root = table.get(ROOT).unwrap();
        let found = table.look_up(now, &root, "f".as_ref());
        assert!(Arc::ptr_eq(&found, &known));
        table.forget(known.id, 2);
        table.renew(&known, before);
        assert!(table.at(before.place).is_none(), "nobody knows it");
    }

    #[test]
    fn a_file_with_the_number_of_a_removed_one_is_another() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), b"f").unwrap();
        std::fs::create_dir(folder.path().join("d")).unwrap();
        let table = table(folder.path());
        let (old, other) = (find(&table, "f"), find(&table, "d").identity());
        let root = table.get(ROOT).unwrap();
        let reused = Identity {
            place: old.identity().place,
            ..other
        };
        let new = table.look_up(reused, &root, "new".as_ref());
        let id_at = |inode: &Inode| table.at(inode.identity().place).map(|found| found.id);
        assert!(new.id != old.id && table.get(old.id).is_some());
        assert_eq!(id_at(&old), Some(new.id));
        table.forget(old.id, 1);
        assert_eq!(id_at(&new), Some(new.id));
        table.forget(new.id, 1);
        assert_eq!(id_at(&new), None);
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
