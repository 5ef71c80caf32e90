//! A full table: more files than the table of objects has room for are opened, closed and opened
//! again. Memory comes and goes between them.
//!
//! A closed file is forgotten when the table is full, and known again when it is opened. Meanwhile
//! its number names another file.

use super::client::PAGE;
use super::roles::judge_apart;
use super::verdict::Oracle;
use super::world::World;
use forebay_engine::{BuildError, File};
use forebay_store::ObjectId;
use std::collections::VecDeque;
use std::sync::Arc;

/// The first of its objects.
const FIRST: u64 = 20_000;
const FILES: usize = 40;
const ROUNDS: usize = 400;
/// Bytes of a stamp, which says which write of a file was the last.
const BYTES: usize = 24;
/// Pages of memory that comes and goes.
const MEMORY_PAGES: u64 = 4;

/// One file.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// What was written last, if that is certain.
    stamp: Option<u8>,
    /// The length that it certainly has. An open passes it, because the cache may have forgotten
    /// it.
    length_bytes: u64,
}

/// See above.
struct Table {
    world: Arc<World>,
    store: usize,
    files: Vec<Known>,
    open: VecDeque<(usize, File)>,
}

/// Opens, uses and closes files and memory, as many times as there are rounds.
pub(super) async fn fill_table(world: Arc<World>) {
    let mut chance = world.chance("table", 0);
    let store = chance.below(world.stores.len() as u64) as usize;
    let mut table = Table {
        world,
        store,
        files: vec![Known::default(); FILES],
        open: VecDeque::new(),
    };
    for round in 0..ROUNDS {
        if !table.world.goes_on() {
            return;
        }
        let stamp = (round % 255) as u8 + 1;
        match chance.below(8) {
            0 if table.world.plan.anonymous.is_some() => table.use_memory(stamp).await,
            0 | 1 => drop(table.open.pop_front()),
            _ => {
                let number = chance.below(FILES as u64) as usize;
                let writes = chance.chance(1, 2);
                table.use_file(number, writes.then_some(stamp)).await;
            }
        }
        if chance.chance(1, 4) {
            table.world.sleep_below(&mut chance, 200_000).await;
        }
    }
}

impl Table {
    /// Opens the file if it is not, and writes a stamp or compares it with the last.
    async fn use_file(&mut self, number: usize, stamp: Option<u8>) {
        let known = self.files[number];
        let at = self.open.iter().position(|(open, _)| *open == number);
        let file = if let Some(at) = at {
            self.open[at].1.clone()
        } else {
            let (_, attached) = &self.world.stores[self.store];
            let object = ObjectId(FIRST + number as u64);
            let opened = self.world.cache.open(attached, object, known.length_bytes);
            let Some(file) = self.opened(opened) else {
                return;
            };
            self.open.push_back((number, file.clone()));
            file
        };
        // No two files have their stamp at one place, so that one cannot be taken for the other.
        let place = number as u64 * BYTES as u64;
        if let Some(stamp) = stamp {
            self.files[number].stamp = None;
            let bytes = [stamp; BYTES];
            let written = self
                .world
                .call("write_at", None, file.write_at(&bytes, place))
                .await;
            if judge_apart(&self.world, "a write", written.as_ref()) {
                self.files[number] = Known {
                    stamp: Some(stamp),
                    length_bytes: place + BYTES as u64,
                };
            }
        } else if let Some(expected) = known.stamp {
            let what = format!("file {number} of a full table");
            self.compare(&file, place, expected, &what).await;
        }
    }

    /// Memory that is dropped while it still has pages to give up.
    async fn use_memory(&mut self, stamp: u8) {
        let made = self.world.cache.anonymous(MEMORY_PAGES * PAGE);
        let Some(memory) = self.opened(made) else {
            return;
        };
        let bytes = vec![stamp; (MEMORY_PAGES * PAGE) as usize];
        let written = self
            .world
            .call("write_at", None, memory.write_at(&bytes, 0));
        if judge_apart(&self.world, "a write", written.await.as_ref()) {
            self.compare(&memory, PAGE, stamp, "memory").await;
        }
    }

    /// What was opened. A full table or swap is no violation; this then makes room.
    fn opened(&mut self, opened: Result<File, BuildError>) -> Option<File> {
        match opened {
            Ok(file) => Some(file),
            Err(BuildError::TooManyObjects { .. } | BuildError::NoSwap { .. }) => {
                self.open.pop_front();
                None
            }
            Err(error) => {
                let what = format!("an open fails without a reason: {error}");
                self.world.broken(Oracle::Errors, what);
                None
            }
        }
    }

    async fn compare(&self, file: &File, place: u64, expected: u8, what: &str) {
        let mut found = [0; BYTES];
        let read = self
            .world
            .call("read_at", None, file.read_at(&mut found, place))
            .await;
        if judge_apart(&self.world, "a read", read.as_ref()) && found != [expected; BYTES] {
            let what = format!("{what} holds {found:?}, and {expected} was written");
            self.world.broken(Oracle::Bytes, what);
        }
    }
}
