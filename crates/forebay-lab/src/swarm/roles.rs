//! Roles: what each task of a run does.

use super::client::{Client, PAGE};
use super::part::Part;
use super::searches::{USED_UP_WAITS, wait_for_searches};
use super::verdict::Oracle;
use super::world::World;
use forebay_base::Span;
use forebay_base::sync::lock;
use forebay_engine::{AccessError, Advice, File, ReadRequest};
use forebay_rt::virt::VirtualClock;
use std::sync::Arc;

/// A caller that finds no frame for all of `held_timeout` looks through memory some 3,000 times.
/// The hoard lets go when callers have done so this often together.
const HOARD_SEARCHES: u64 = 10_000;

/// Pages that one holder holds at once.
const GUARDS: usize = 8;

/// Owns a file, a region or anonymous memory, and does every kind of call on it.
pub(super) async fn write_and_read(mut client: Client, operations: u64) -> Client {
    for _ in 0..operations {
        if client.world.is_over() {
            break;
        }
        step(&mut client).await;
        judge_bounds(&client);
    }
    let is_whole = lock(&client.ledger).is_whole_object();
    if is_whole && client.place.is_some() && !client.world.is_over() {
        Box::pin(client.give_up_new_end()).await;
    }
    client
}

async fn step(client: &mut Client) {
    let is_whole = lock(&client.ledger).is_whole_object();
    let is_file = client.place.is_some();
    match client.chance.below(24) {
        0..=6 => Box::pin(client.write()).await,
        7..=10 => Box::pin(client.read()).await,
        11 => Box::pin(read_many(client)).await,
        12 => Box::pin(hold(client)).await,
        13 if is_file && is_whole => Box::pin(client.truncate()).await,
        14 => Box::pin(client.discard()).await,
        15 | 16 => Box::pin(client.sync(None)).await,
        17 => Box::pin(sync_range(client)).await,
        18 | 19 => Box::pin(advise(client)).await,
        20 => client.change_handle(),
        22 => Box::pin(call_wrongly(client)).await,
        21 if client.chance.chance(1, 20) => sleep(client, 40_000_000).await,
        _ => sleep(client, 50_000).await,
    }
}

/// Calls that have to be refused and must not change anything.
async fn call_wrongly(client: &mut Client) {
    let refusal = match client.chance.below(4) {
        0 => client.file.write_at(&[1; 9], u64::MAX - 5).await.err(),
        1 => client.file.truncate(u64::MAX).await.err(),
        2 => client.file.page(u64::MAX / PAGE).await.err(),
        _ => match client.read_only() {
            Some(file) => file.write_at(&[1; 9], 0).await.err(),
            None => return,
        },
    };
    let is_refused = matches!(
        refusal,
        Some(AccessError::TooFar { .. } | AccessError::ReadOnly { .. })
    );
    if !is_refused {
        client.broken(
            Oracle::Errors,
            &format!("a wrong call is not refused: {refusal:?}"),
        );
    }
}

async fn sleep(client: &mut Client, most_us: u64) {
    let span = Span::from_micros(client.chance.below(most_us));
    client.world.rt.sleep(span).await;
}

async fn sync_range(client: &mut Client) {
    let length = lock(&client.ledger).len();
    if length > 0 {
        let range = client.range(length);
        client.sync(Some(range)).await;
    }
}

async fn read_many(client: &mut Client) {
    const BYTES: u64 = 99;
    let (base, length) = {
        let ledger = lock(&client.ledger);
        (ledger.start(), ledger.len())
    };
    if length <= BYTES {
        return;
    }
    let place = |client: &mut Client| base + client.chance.below(length - BYTES);
    let places: Vec<u64> = (0..8).map(|_| place(client)).collect();
    let waits = client.patience();
    let tickets: Vec<_> = {
        let mut ledger = lock(&client.ledger);
        places
            .iter()
            .map(|&place| ledger.look(place..place + BYTES))
            .collect()
    };
    let mut buffers = [[0_u8; BYTES as usize]; 8];
    let mut requests: Vec<_> = places
        .iter()
        .zip(&mut buffers)
        .map(|(&offset_bytes, buffer)| ReadRequest {
            offset_bytes,
            buffer,
            done_bytes: 0,
        })
        .collect();
    let read = client
        .world
        .call("read_many", waits, client.file.read_many(&mut requests))
        .await;
    let counts: Vec<usize> = requests.iter().map(|request| request.done_bytes).collect();
    for (at, ticket) in tickets.into_iter().enumerate() {
        if read == Some(Ok(())) {
            let found = &buffers[at][..counts[at]];
            let judged = lock(&client.ledger).seen(ticket, places[at], found);
            client.judge_bytes("a read of many", judged);
        } else {
            lock(&client.ledger).turned_away(ticket);
        }
    }
    if let Some(Err(error)) = read {
        client.refused("read_many", &error);
    }
}

async fn advise(client: &mut Client) {
    let advice = [
        Advice::Normal,
        Advice::Sequential,
        Advice::Random,
        Advice::WillNeed,
        Advice::DontNeed,
    ][client.chance.below(5) as usize];
    let length = lock(&client.ledger).len().max(1);
    let range = client.range(length);
    let waits = client.patience();
    let advised = client
        .world
        .call("advise", waits, client.file.advise(advice, range))
        .await;
    if let Some(Err(error)) = advised {
        client.refused("advise", &error);
    }
}

/// Holds a page for a while. The page may not change meanwhile.
async fn hold(client: &mut Client) {
    let (start, end) = {
        let ledger = lock(&client.ledger);
        (
            ledger.start().div_ceil(PAGE),
            (ledger.start() + ledger.len()) / PAGE,
        )
    };
    if start >= end {
        return;
    }
    let page = start + client.chance.below(end - start);
    let longest_us = if client.world.plan.has(Part::Pinners) {
        400_000
    } else {
        20_000
    };
    let span = Span::from_micros(client.chance.below(longest_us));
    let waits = client.patience();
    let ticket = lock(&client.ledger).look(page * PAGE..(page + 1) * PAGE);
    let held = client
        .world
        .call("page", waits, client.file.page(page))
        .await;
    let guard = match held {
        Some(Ok(guard)) => guard,
        other => {
            lock(&client.ledger).turned_away(ticket);
            match other {
                // The end may have moved meanwhile, or the file may be shorter than the region.
                None | Some(Err(AccessError::TooFar { .. }) | Ok(_)) => {}
                Some(Err(error)) => client.refused("page", &error),
            }
            return;
        }
    };
    let judged = lock(&client.ledger).seen(ticket, page * PAGE, &guard);
    client.judge_bytes("a page held", judged);
    let before = guard.to_vec();
    client.world.rt.sleep(span).await;
    judge_held(client, page, &guard, &before);
}

/// Judges that a page has not changed while a guard held it.
fn judge_held(client: &Client, page: u64, guard: &[u8], before: &[u8]) {
    if guard != before {
        let what = format!("page {page} changed while a guard held it");
        client.broken(Oracle::Bytes, &what);
    }
}

/// Reads what another client writes.
pub(super) async fn read_beside(mut client: Client) -> Client {
    while client.world.goes_on() {
        match client.chance.below(6) {
            0 => hold(&mut client).await,
            1 => read_many(&mut client).await,
            _ => client.read().await,
        }
        sleep(&mut client, 30_000).await;
    }
    client
}

/// Syncs what another client writes.
pub(super) async fn sync_beside(mut client: Client) -> Client {
    while client.world.goes_on() {
        sleep(&mut client, 200_000).await;
        if client.chance.chance(1, 5) {
            sync_range(&mut client).await;
        } else {
            client.sync(None).await;
        }
    }
    client
}

/// Holds several pages that another client writes, for a long time.
pub(super) async fn pin_beside(mut client: Client) -> Client {
    while client.world.goes_on() {
        pin(&mut client).await;
        sleep(&mut client, 300_000).await;
    }
    client
}

async fn pin(client: &mut Client) {
    let file = client.file.clone();
    let mut guards = Vec::new();
    for _ in 0..=client.chance.below(GUARDS as u64) {
        let pages = file.len() / PAGE;
        if pages == 0 {
            return;
        }
        let page = client.chance.below(pages);
        match client.world.call("page", None, file.page(page)).await {
            Some(Ok(guard)) => {
                let before = guard.to_vec();
                guards.push((page, guard, before));
            }
            Some(Err(AccessError::TooFar { .. })) | None => {}
            Some(Err(error)) => client.refused("page", &error),
        }
    }
    let longest = client.world.plan.settings.held_timeout;
    let longest_us = longest.as_micros() * 3 / 2;
    let began = client.world.rt.now();
    sleep(client, longest_us).await;
    if !guards.is_empty() && client.world.rt.now().since(began) > longest {
        client.world.change_deeds(|deeds| deeds.held += 1);
    }
    for (page, guard, before) in guards {
        judge_held(client, page, &guard, &before);
    }
}

/// Holds as many pages at once as there are, for longer than any caller waits for a frame.
pub(super) async fn hoard(world: Arc<World>, file: File) {
    let mut chance = world.chance("hoard", 0);
    world.sleep_below(&mut chance, 3_000_000).await;
    let mut guards = Vec::new();
    for page in 0..file.len() / PAGE {
        if !world.goes_on() {
            break;
        }
        let waits = waits_of_hoard(guards.len());
        match world.call("page", waits, file.page(page)).await {
            Some(Ok(guard)) => guards.push(guard),
            None if waits.is_some() => break,
            Some(Err(error)) if world.plan.allows(&error) => break,
            other => {
                let what = format!("a page that is to be held: {other:?}");
                world.broken(Oracle::Errors, what);
                break;
            }
        }
    }
    let longest = world.plan.settings.held_timeout.saturating_mul(2);
    wait_for_searches(&world, longest, HOARD_SEARCHES).await;
    world.change_deeds(|deeds| deeds.held += guards.len() as u64);
}

/// How often a call of the hoard may wait once it holds `held` pages; none: as long as it takes. It
/// is content when pages come slowly. Everybody else searches memory meanwhile.
fn waits_of_hoard(held: usize) -> Option<u32> {
    (held > 0).then_some(USED_UP_WAITS)
}

/// Anonymous memory that is written, rests, and is dropped whatever state its swap is in.
pub(super) async fn use_briefly(world: Arc<World>) {
    const PAGES: u64 = 12;
    let mut chance = world.chance("brief memory", 0);
    for round in 0..6_u8 {
        if !world.goes_on() {
            return;
        }
        let Ok(memory) = world.cache.anonymous(PAGES * PAGE) else {
            // Memory that is dropped gives its swap back later.
            world.sleep_below(&mut chance, 500_000).await;
            continue;
        };
        let bytes = vec![round + 1; (PAGES * PAGE) as usize];
        let written = world.call("write_at", None, memory.write_at(&bytes, 0));
        let is_written = judge_apart(&world, "a write", written.await.as_ref());
        world.sleep_below(&mut chance, 2_000_000).await;
        let mut found = [0; 64];
        let place = chance.below((PAGES - 1) * PAGE);
        let read = world.call("read_at", None, memory.read_at(&mut found, place));
        if is_written
            && judge_apart(&world, "a read", read.await.as_ref())
            && found != [round + 1; 64]
        {
            let what = format!(
                "anonymous memory written with {} holds {found:?}",
                round + 1
            );
            world.broken(Oracle::Bytes, what);
        }
    }
}

/// Whether a call on something that has no ledger did what it should.
pub(super) fn judge_apart<T>(
    world: &World,
    what: &str,
    ended: Option<&Result<T, AccessError>>,
) -> bool {
    if let Some(Err(error)) = ended
        && !world.plan.allows(error)
    {
        let what = format!("{what} apart from the clients fails without a reason: {error}");
        world.broken(Oracle::Errors, what);
    }
    matches!(ended, Some(Ok(_)))
}

/// Lets the clock jump now and then, by at most as much as no wait of the engine lasts twice.
pub(super) async fn jump(world: Arc<World>, clock: VirtualClock) {
    const MOST: u64 = 8;
    let mut chance = world.chance("jumps", 0);
    for _ in 0..=chance.below(MOST) {
        world.sleep_below(&mut chance, 4_000_000).await;
        if !world.goes_on() {
            return;
        }
        let longest_ms = [20, 1_000, 60_000][chance.below(3) as usize];
        clock.jump(Span::from_millis(1 + chance.below(longest_ms)));
        world.change_deeds(|deeds| deeds.jumps += 1);
    }
}

/// Syncs everything now and then.
pub(super) async fn sync_all(world: Arc<World>) {
    let mut chance = world.chance("sync all", 0);
    while world.goes_on() {
        world.sleep_below(&mut chance, 3_000_000).await;
        let waits = chance.chance(1, 4).then(|| 1 + chance.below(20) as u32);
        let synced = world.call("Cache::sync", waits, world.cache.sync()).await;
        if let Some(Err(error)) = synced
            && !world.plan.allows_of_sync(&error)
        {
            let what = format!("Cache::sync fails without a reason: {error}");
            world.broken(Oracle::Errors, what);
        }
    }
}

/// Checks declared bounds now and then.
fn judge_bounds(client: &Client) {
    let statistics = client.world.cache.statistics();
    client.world.judge_statistics(&statistics);
}
