//! A crowd: several calls of one handle at a time, as a connection of a block server makes them.
//!
//! One call of a writer pauses for all of them. No other task has more than one call of a handle
//! under way.

use super::client::PAGE;
use super::roles::judge_apart;
use super::world::World;
use forebay_engine::File;
use forebay_store::ObjectId;
use std::sync::Arc;

const OBJECT: ObjectId = ObjectId(3_005);
/// Calls at a time.
pub(super) const CALLS: u64 = 6;
/// Writes of each of them.
const WRITES: u64 = 200;

/// Starts the calls of one handle.
pub(super) fn start_crowd(world: &Arc<World>) {
    let mut chance = world.chance("crowd", CALLS);
    let store = chance.below(world.stores.len() as u64) as usize;
    let opened = world.cache.open(&world.stores[store].1, OBJECT, 0);
    let file = Arc::new(opened.expect("there is room for the objects of a plan"));
    for number in 0..CALLS {
        world.spawn("crowd", write(world.clone(), file.clone(), number));
    }
}

/// Writes pages of its own, one after the other, with hardly any rest.
async fn write(world: Arc<World>, file: Arc<File>, number: u64) {
    let mut chance = world.chance("crowd", number);
    let bytes = [number as u8; PAGE as usize];
    for write in 0..WRITES {
        let at = (write * CALLS + number) * PAGE;
        let written = world.call("write_at", None, file.write_at(&bytes, at));
        judge_apart(&world, "a write", written.await.as_ref());
        world.sleep_below(&mut chance, 500).await;
        if !world.goes_on() {
            return;
        }
    }
}
