//! Scatter: a writer that dirties one page in each of many objects.
//!
//! Dirty pages that share no block of the index use up its blocks before the dirty limit is
//! reached. No other task of a run comes near that.

use super::client::PAGE;
use super::roles::judge_apart;
use super::verdict::Oracle;
use super::world::World;
use forebay_engine::{BuildError, File};
use forebay_store::ObjectId;
use std::sync::Arc;

/// The first of its objects.
const FIRST: u64 = 10_000;
/// Bytes that it writes to each.
const BYTES: usize = 24;

/// Writes all of its objects, rests, and reads them back, a few times.
pub(super) async fn scatter(world: Arc<World>) {
    let mut chance = world.chance("scatter", 0);
    let store = chance.below(world.stores.len() as u64) as usize;
    let count = world.cache.statistics().frames / 2;
    let mut files: Vec<File> = (0..count)
        .map_while(|number| {
            let attached = &world.stores[store].1;
            match world.cache.open(attached, ObjectId(FIRST + number), 0) {
                Ok(file) => Some(file),
                // They are all that half of the budget holds.
                Err(BuildError::TooManyObjects { .. }) => None,
                Err(error) => panic!("{error}"),
            }
        })
        .collect();
    // Others open objects too.
    files.truncate(files.len() * 7 / 8);
    for round in 1..=3 {
        let place = chance.below(PAGE);
        let bytes = [round; BYTES];
        let mut is_written = Vec::new();
        for file in &files {
            if !world.goes_on() {
                return;
            }
            let written = world.call("write_at", None, file.write_at(&bytes, place));
            is_written.push(judge_apart(&world, "a write", written.await.as_ref()));
        }
        world.sleep_below(&mut chance, 1_000_000).await;
        for (file, _) in files
            .iter()
            .zip(is_written)
            .filter(|(_, is_written)| *is_written)
        {
            compare(&world, file, place, round).await;
        }
    }
}

async fn compare(world: &World, file: &File, place: u64, expected: u8) {
    let mut found = [0; BYTES];
    let read = world.call("read_at", None, file.read_at(&mut found, place));
    if judge_apart(world, "a read", read.await.as_ref()) && found != [expected; BYTES] {
        let what = format!("one of many objects holds {found:?}, and {expected} was written");
        world.broken(Oracle::Bytes, what);
    }
}
