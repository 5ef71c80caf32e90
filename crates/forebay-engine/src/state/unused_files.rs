//! Files that nobody has open, in the order in which they were closed.

use crate::state::object::ObjectState;
use forebay_base::sync::atomic::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whenever the table of objects is not locked:
///
/// invariant U1: a file is listed here once, at the place that it records, or it is not listed and
/// records place 0.
#[derive(Debug, Default)]
pub(crate) struct UnusedFiles {
    by_place: BTreeMap<u64, Unused>,
    last_place: u64,
}

#[derive(Debug)]
struct Unused {
    file: Arc<ObjectState>,
    /// Reclaim has not asked it for anything since it was closed.
    used_lately: bool,
}

/// What becomes of the file that has been unused for the longest time when reclaim asks for room.
#[derive(Debug)]
pub enum Offered {
    /// There is no such file.
    Nothing,
    /// It was used lately and becomes the youngest.
    Spared,
    /// Its pages may go, and it is no longer listed.
    Due(Arc<ObjectState>),
}

impl UnusedFiles {
    pub(crate) fn len(&self) -> u64 {
        self.by_place.len() as u64
    }

    /// Lists a file as the youngest.
    pub(crate) fn add(&mut self, file: &Arc<ObjectState>, used_lately: bool) {
        self.remove(file);
        self.last_place += 1;
        file.opened
            .unused_place
            .store(self.last_place, Ordering::Relaxed);
        let unused = Unused {
            file: file.clone(),
            used_lately,
        };
        self.by_place.insert(self.last_place, unused);
    }

    /// Takes a file off the list, if it is there.
    pub(crate) fn remove(&mut self, file: &ObjectState) {
        let place = file.opened.unused_place.swap(0, Ordering::Relaxed);
        self.by_place.remove(&place);
    }

    /// Asks the oldest file.
    pub(crate) fn offer(&mut self) -> Offered {
        let Some((_, oldest)) = self.by_place.pop_first() else {
            return Offered::Nothing;
        };
        if oldest.used_lately {
            self.add(&oldest.file, false);
            return Offered::Spared;
        }
        oldest.file.opened.unused_place.store(0, Ordering::Relaxed);
        Offered::Due(oldest.file)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::state::object::Origin;
    use forebay_store::ObjectId;

    fn file(number: u32) -> Arc<ObjectState> {
        let origin = Origin::File {
            backing: 0,
            object: ObjectId(u64::from(number)),
        };
        Arc::new(ObjectState::new(number, origin, 0))
    }

    /// The number of the next file whose pages may go, and how many were spared before it.
    fn next_due(unused: &mut UnusedFiles) -> Option<(u32, usize)> {
        for spared in 0.. {
            match unused.offer() {
                Offered::Nothing => return None,
                Offered::Spared => {}
                Offered::Due(file) => return Some((file.number, spared)),
            }
        }
        None
    }

    #[test]
    fn each_file_is_spared_once_and_the_oldest_goes_first() {
        let mut unused = UnusedFiles::default();
        let files: Vec<_> = (1..=3).map(file).collect();
        for file in &files {
            unused.add(file, true);
        }
        assert_eq!(next_due(&mut unused), Some((1, 3)));
        assert_eq!(next_due(&mut unused), Some((2, 0)));
        unused.add(&files[0], false);
        assert_eq!(next_due(&mut unused), Some((3, 0)));
        assert_eq!(next_due(&mut unused), Some((1, 0)));
        assert_eq!(next_due(&mut unused), None);
    }

    /// What invariant U1 says.
    #[test]
    fn a_file_is_listed_once_and_knows_where() {
        let mut unused = UnusedFiles::default();
        let (one, other) = (file(1), file(2));
        unused.add(&one, false);
        unused.add(&other, false);
        unused.add(&one, false);
        assert_eq!(unused.len(), 2);
        for (place, listed) in &unused.by_place {
            assert_eq!(
                listed.file.opened.unused_place.load(Ordering::Relaxed),
                *place
            );
        }
        assert_eq!(next_due(&mut unused), Some((2, 0)));
        unused.remove(&one);
        unused.remove(&other);
        assert_eq!((unused.len(), next_due(&mut unused)), (0, None));
        let places = [&one, &other].map(|file| file.opened.unused_place.load(Ordering::Relaxed));
        assert_eq!(places, [0, 0]);
    }
}
