//! A disk under a name that clients ask for.

use crate::handshake::ExportFacts;
use crate::wire::transmission_flag as flag;
use forebay_block::Disk;

/// What clients can read and write, and how they find it.
#[derive(Debug)]
pub struct Export {
    pub(crate) disk: Disk,
    pub(crate) facts: ExportFacts,
}

impl Export {
    /// `disk`, or a whole file, under `name`, which may be empty.
    pub fn new(name: &str, disk: impl Into<Disk>) -> Export {
        let disk = disk.into();
        let changes = if disk.is_read_only() {
            flag::READ_ONLY
        } else {
            flag::SEND_TRIM | flag::SEND_WRITE_ZEROES
        };
        Export {
            facts: ExportFacts {
                name: name.to_owned(),
                length_bytes: disk.length_bytes(),
                flags: flag::HAS_FLAGS
                    | flag::SEND_FLUSH
                    | flag::SEND_FUA
                    | flag::SEND_DF
                    | flag::CAN_MULTI_CONN
                    | flag::SEND_CACHE
                    | changes,
            },
            disk,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.facts.name
    }

    /// Its length.
    pub fn length_bytes(&self) -> u64 {
        self.facts.length_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::{Cache, Settings};
    use forebay_store::{MemoryStore, ObjectId};
    use std::sync::Arc;

    #[test]
    fn the_flags_of_a_disk_that_is_only_read_offer_no_change() {
        let settings = Settings {
            memory_bytes: 8 << 20,
            ..Settings::default()
        };
        let cache = Cache::new(settings).unwrap();
        let store = cache.attach(Arc::new(MemoryStore::new())).unwrap();
        let disk = || Disk::new(cache.open(&store, ObjectId(1), 1 << 20).unwrap());
        let changes = flag::SEND_TRIM | flag::SEND_WRITE_ZEROES;
        let flags_of = |disk| Export::new("", disk).facts.flags & (changes | flag::READ_ONLY);
        assert_eq!(flags_of(disk()), changes);
        assert_eq!(flags_of(disk().read_only()), flag::READ_ONLY);
    }
}
