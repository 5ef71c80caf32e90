//! A file of a cache under a name that clients ask for.

use crate::handshake::ExportFacts;
use crate::holes::{Extent, Holes};
use crate::wire::transmission_flag as flag;
use crate::written::WrittenMap;
use forebay::File;
use std::sync::Arc;

/// What clients can read and write. Its length is the file's at the time of [`Export::new`].
#[derive(Debug)]
pub struct Export {
    pub(crate) file: File,
    pub(crate) facts: ExportFacts,
    pub(crate) written: WrittenMap,
    holes: Option<Arc<dyn Holes>>,
}

impl Export {
    /// `file` under `name`, which may be empty.
    pub fn new(name: &str, file: File) -> Export {
        let length_bytes = file.len();
        Export {
            facts: ExportFacts {
                name: name.to_owned(),
                description: String::new(),
                length_bytes,
                flags: flag::HAS_FLAGS
                    | flag::SEND_FLUSH
                    | flag::SEND_FUA
                    | flag::SEND_TRIM
                    | flag::SEND_WRITE_ZEROES
                    | flag::SEND_DF
                    | flag::CAN_MULTI_CONN
                    | flag::SEND_CACHE,
            },
            written: WrittenMap::new(length_bytes),
            holes: None,
            file,
        }
    }

    /// The same with a text for people who list the exports.
    #[must_use]
    pub fn described(mut self, description: &str) -> Export {
        description.clone_into(&mut self.facts.description);
        self
    }

    /// The same for reading alone.
    #[must_use]
    pub fn read_only(mut self) -> Export {
        self.facts.flags &= !(flag::SEND_TRIM | flag::SEND_WRITE_ZEROES);
        self.facts.flags |= flag::READ_ONLY;
        self
    }

    /// The same with holes that clients are told of. Without them everything counts as allocated.
    /// `holes` must speak of the medium behind the file, which nobody but the cache may change.
    #[must_use]
    pub fn with_holes(mut self, holes: Arc<dyn Holes>) -> Export {
        self.holes = Some(holes);
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.facts.name
    }

    /// Its length.
    pub fn length_bytes(&self) -> u64 {
        self.facts.length_bytes
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.facts.flags & flag::READ_ONLY != 0
    }

    /// The run from `at` to at most `end`: a hole only if the medium says so and nothing of it was
    /// written through us.
    pub(crate) fn extent_at(&self, at: u64, end: u64) -> Extent {
        let solid = |end_bytes| Extent {
            end_bytes,
            is_hole: false,
        };
        let Some(holes) = &self.holes else {
            return solid(end);
        };
        match self.written.run_at(at, end) {
            (true, until) => solid(until),
            (false, until) => holes.extent_at(at, until),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::{Cache, Settings};
    use forebay_store::{MemoryStore, ObjectId};

    #[derive(Debug)]
    struct AllHoles;

    impl Holes for AllHoles {
        fn extent_at(&self, _: u64, end_bytes: u64) -> Extent {
            Extent {
                end_bytes,
                is_hole: true,
            }
        }
    }

    #[test]
    fn what_was_written_through_us_is_no_hole() {
        let cache = Cache::new(Settings {
            memory_bytes: 8 << 20,
            ..Settings::default()
        })
        .unwrap();
        let store = cache.attach(Arc::new(MemoryStore::new())).unwrap();
        let file = cache.open(&store, ObjectId(1), 1 << 20).unwrap();
        let export = Export::new("", file).with_holes(Arc::new(AllHoles));
        export.written.mark(&(70_000..70_001));
        let hole = export.extent_at(0, 1 << 20);
        assert_eq!((hole.end_bytes, hole.is_hole), (65_536, true));
        let data = export.extent_at(65_536, 1 << 20);
        assert_eq!((data.end_bytes, data.is_hole), (131_072, false));
    }
}
