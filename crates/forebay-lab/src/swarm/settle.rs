//! Settling: the end of a run that did not crash. Nothing misbehaves any more, so everything has to
//! come to rest, and the contents are compared to the last byte.

use super::client::{Client, PAGE};
use super::verdict::Oracle;
use super::world::World;
use forebay_base::Span;
use forebay_base::sync::lock;
use forebay_engine::{AccessError, Counter, File};
use forebay_store::ObjectId;
use std::sync::Arc;

/// More than the longest wait before a failed write is tried again.
const RETRY: Span = Span::from_secs(130);

pub(super) async fn settle(world: &Arc<World>, mut clients: Vec<Client>) {
    for client in &mut clients {
        client.resolve_uncertain(true).await;
    }
    if world.plan.drains_alone {
        drain(world).await;
    }
    sync(world, &mut clients).await;
    if world.is_over() {
        return;
    }
    drain(world).await;
    rest(world).await;
    world.judge_books();
    for client in &mut clients {
        compare(client).await;
    }
    let file = untouched(world);
    recover(world, &file).await;
    rest(world).await;
    world.judge_books();
    for client in &clients {
        write_at_rest(client).await;
    }
    close(world, &clients).await;
    read_closed(world, &file).await;
}

/// Waits until nothing is in flight: readahead goes on after its calls.
async fn rest(world: &World) {
    let is_idle = |world: &World| world.stores.iter().all(|(store, _)| store.is_idle());
    let rested = world.wait_until(Span::from_secs(3_600), is_idle).await;
    if !rested && !world.is_over() {
        world.broken(Oracle::Stuck, "requests go on though nobody asks for any");
    }
    world.rt.sleep(Span::from_secs(1)).await;
}

/// Waits until dirty pages have drained, which they do without a sync.
async fn drain(world: &World) {
    let settings = &world.plan.settings;
    let longest = RETRY + settings.dirty_expire + settings.writeback_interval.saturating_mul(3);
    let drained = world.wait_until(longest, |world| {
        let statistics = world.cache.statistics();
        // A page of anonymous memory is under writeback only while it is written.
        statistics.nr_dirty + statistics.nr_writeback == 0
    });
    if !drained.await && !world.is_over() {
        let statistics = world.cache.statistics();
        let what = format!(
            "{} pages are dirty and {} under writeback {longest} after the last fault",
            statistics.nr_dirty, statistics.nr_writeback
        );
        world.broken(Oracle::Stuck, what);
    }
}

/// Each handle may have one more failure to report. After that every sync succeeds.
async fn sync(world: &World, clients: &mut [Client]) {
    for client in clients.iter_mut() {
        for _ in 0..2 {
            client.sync_surely().await;
        }
        let synced = world.call("sync", None, client.file.sync()).await;
        if let Some(Err(error)) = synced {
            client.broken(Oracle::Errors, &format!("well stores and still: {error}"));
        }
    }
    // The first one may report a failure that no handle has asked about.
    let _ = world.call("Cache::sync", None, world.cache.sync()).await;
    let synced = world.call("Cache::sync", None, world.cache.sync()).await;
    if let Some(Err(error)) = synced {
        world.broken(
            Oracle::Errors,
            format!("well stores, and Cache::sync says: {error}"),
        );
    }
}

/// Reads in pieces. The reads of a single call would queue for as long as a store needs for all of
/// them, and with the slowest stores that is longer than a call waits for an answer. None if a read
/// fails.
async fn read_in_pieces(client: &Client, start: u64, bytes: &mut [u8]) -> Option<usize> {
    const PIECE_BYTES: usize = 64 * PAGE as usize;
    let mut done = 0;
    for piece in bytes.chunks_mut(PIECE_BYTES) {
        let length = piece.len();
        let read = client.file.read_at(piece, start + done as u64);
        match client.world.call("read_at", None, read).await {
            Some(Ok(count)) if count == length => done += count,
            Some(Ok(count)) => return Some(done + count),
            other => {
                let what = format!("well stores, and a read ends with {other:?}");
                client.broken(Oracle::Errors, &what);
                return None;
            }
        }
    }
    Some(done)
}

/// Checks that the cache, the store and the ledger hold the same.
async fn compare(client: &Client) {
    let (start, expected, is_whole) = {
        let ledger = lock(&client.ledger);
        (
            ledger.start(),
            ledger.bytes().to_vec(),
            ledger.is_whole_object(),
        )
    };
    let mut bytes = vec![0xee; expected.len()];
    let Some(count) = read_in_pieces(client, start, &mut bytes).await else {
        return;
    };
    if is_whole && (count != expected.len() || client.file.len() != expected.len() as u64) {
        let length = client.file.len();
        let what = format!(
            "the file has {length} bytes and should have {}",
            expected.len()
        );
        client.broken(Oracle::Bytes, &what);
        return;
    }
    same(
        client,
        "the cache",
        start,
        &bytes[..count],
        &expected[..count],
    );
    let Some((store, object)) = client.place else {
        return;
    };
    let stored = client.world.stores[store].0.contents(object);
    if is_whole && stored.len() != expected.len() {
        let what = format!("the store has {} bytes of {}", stored.len(), expected.len());
        client.broken(Oracle::Bytes, &what);
        return;
    }
    let stored = stored.get(start as usize..).unwrap_or_default();
    let count = stored.len().min(expected.len());
    same(
        client,
        "the store",
        start,
        &stored[..count],
        &expected[..count],
    );
    if expected[count..].iter().any(|&byte| byte != 0) {
        client.broken(
            Oracle::Bytes,
            "the store's object ends before what was written",
        );
    }
}

fn same(client: &Client, who: &str, start: u64, found: &[u8], expected: &[u8]) {
    if found == expected {
        return;
    }
    let differs = (0..found.len()).find(|&at| found[at] != expected[at]);
    if let Some(at) = differs {
        let place = start + at as u64;
        let what = format!(
            "at rest {who} has {:#04x} at byte {place} (page {}), and {:#04x} was written",
            found[at],
            place / PAGE,
            expected[at]
        );
        client.broken(Oracle::Bytes, &what);
    }
}

/// An object that no task has touched, twice as long as there is memory.
pub(super) fn untouched(world: &World) -> File {
    const UNTOUCHED: ObjectId = ObjectId(3_001);
    let length_bytes = world.cache.statistics().frames * 2 * PAGE;
    let opened = world
        .cache
        .open(&world.stores[0].1, UNTOUCHED, length_bytes);
    opened.expect("there is room for the objects of a plan")
}

/// A closed cache can be read as long as there are frames, because nothing frees frames any more.
async fn read_closed(world: &World, file: &File) {
    let mut bytes = [1; 8];
    for number in 0..file.len() / PAGE {
        let read = file.read_at(&mut bytes, number * PAGE);
        match world.call("read_at", None, read).await {
            Some(Ok(8)) if bytes == [0; 8] => {}
            Some(Err(AccessError::Closed)) => return,
            other => {
                let what = format!("a read of a closed cache ends with {other:?}, {bytes:?}");
                world.broken(Oracle::Errors, what);
                return;
            }
        }
    }
}

/// A caller that needs a frame finds one: a node comes back above its marks when memory is used.
/// This reads enough to use every frame again. A kswapd that gave up, as it may while all pages are
/// dirty, has to be woken again. A caller that reclaims for itself wakes it.
async fn recover(world: &World, file: &File) {
    let pages = file.len() / PAGE;
    let mut bytes = [1; 8];
    for number in 0..pages {
        let read = world
            .call("read_at", None, file.read_at(&mut bytes, number * PAGE))
            .await;
        if read != Some(Ok(bytes.len())) || bytes != [0; 8] {
            let what = format!("well stores, and a read of nothing ends with {read:?}, {bytes:?}");
            world.broken(Oracle::Errors, what);
        }
        if world.is_over() {
            return;
        }
    }
    let recovered = world.wait_until(Span::from_secs(30), |world| {
        let statistics = world.cache.statistics();
        statistics.zones.iter().any(|zone| zone.free >= zone.low)
    });
    if !recovered.await && !world.is_over() {
        let zones = world.cache.statistics().zones;
        world.broken(
            Oracle::Stuck,
            format!("no zone comes back above its low mark: {zones:?}"),
        );
    }
}

/// A writer that makes one page dirty while nothing else is dirty does not wait. It does not wait
/// for a pause of its own earlier calls either, because these are over.
async fn write_at_rest(client: &Client) {
    /// More than such a write needs, and less than a wait for a pause that never ends.
    const LONG: Span = Span::from_millis(100);
    let (start, first) = {
        let ledger = lock(&client.ledger);
        (ledger.start(), ledger.bytes().get(0))
    };
    let (Some(_), Some(byte)) = (client.place, first) else {
        return;
    };
    // The page is there then, and it is what it was afterwards.
    if read_in_pieces(client, start, &mut [0]).await != Some(1) {
        return;
    }
    let world = &client.world;
    let (before, began) = (world.cache.statistics(), world.rt.now());
    let bytes = [byte];
    let write = client.file.write_at(&bytes, start);
    if let Some(Err(error)) = world.call("write_at", None, write).await {
        client.broken(
            Oracle::Errors,
            &format!("at rest a write ends with {error}"),
        );
    }
    let (after, waited) = (world.cache.statistics(), world.rt.now().since(began));
    let had_a_reason = [
        Counter::BalancePauses,
        Counter::Pgpgin,
        Counter::PgscanDirect,
    ]
    .into_iter()
    .any(|counter| before.get(counter) != after.get(counter));
    if waited >= LONG && !had_a_reason && !world.is_over() {
        let what = format!("at rest a write of a byte waits {waited}, and nobody pauses");
        client.broken(Oracle::Stuck, &what);
    }
}

async fn close(world: &World, clients: &[Client]) {
    let closed = world.call("Cache::close", None, world.cache.close()).await;
    if let Some(Err(error)) = closed {
        world.broken(
            Oracle::Errors,
            format!("well stores, and Cache::close says: {error}"),
        );
        return;
    }
    for client in clients {
        let refusals = [
            client.file.write_at(&[1], 0).await.err(),
            client.file.truncate(0).await.err(),
        ];
        if refusals != [Some(AccessError::Closed), Some(AccessError::Closed)] {
            let what = format!("a closed cache takes changes: {refusals:?}");
            client.broken(Oracle::Errors, &what);
        }
    }
}
