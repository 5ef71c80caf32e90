//! The stage: plays a world of short memory.

use super::super::client::PAGE;
use super::super::scene::{Actor, Call, SWAP, Stage, judge_play};
use super::super::verdict::Violation;
use super::load::Load;
use super::watch::Watch;
use forebay_base::{Prng, Span};
use forebay_engine::File;
use forebay_store::ObjectId;

/// Pages are held for at most this long.
const HELD_MOST_US: u64 = 60_000;
/// Pages to hold are taken for at most this long. The last of them need a search of all memory
/// each, while callers that need a frame search it too.
const TAKING: Span = Span::from_millis(30);
/// Objects of rereaders, and the held one. Those of crews come first.
const REREAD: u64 = 200;
const HELD: ObjectId = ObjectId(300);

/// The finding of the oracle of reclaim.
pub(in super::super) fn judge_pressure(seed: u64) -> Option<Violation> {
    let chance = Prng::from_seed(seed).child("pressure");
    let load = Load::draw(&mut chance.child("load"));
    judge_play(seed, &load.scene, Watch::new(&load), async |stage| {
        start(stage, &load, &chance);
        stage.play().await;
        None
    })
}

/// Starts all tasks.
fn start(stage: &mut Stage, load: &Load, chance: &Prng) {
    let memory = load.anonymous.map(|(pages, slots)| {
        let set = stage.cache.set_swap(stage.store(1), SWAP, slots * PAGE);
        set.expect("a load's swap is large enough");
        let memory = stage.cache.anonymous(pages * PAGE);
        memory.expect("it fits its swap")
    });
    stage.start_crews();
    let (store, rest) = (load.read_store(), load.rest);
    for number in 0..load.rereaders {
        let object = ObjectId(REREAD + number);
        let file = stage.open_file(store, object, load.hot_pages);
        let call = Call {
            store,
            object,
            pages: 0..load.hot_pages,
        };
        let chance = chance.child(&format!("rereader {number}"));
        stage.spawn(
            "rereader",
            reread(stage.actor.clone(), file, call, rest, chance),
        );
    }
    if load.is_held {
        let file = stage.open_file(store, HELD, load.scene.settings.memory_bytes / PAGE);
        stage.spawn(
            "holder",
            hold(stage.actor.clone(), file, chance.child("holder")),
        );
    }
    if let Some(memory) = memory {
        let churn = churn(stage.actor.clone(), memory, rest, chance.child("churn"));
        stage.spawn("churn", churn);
    }
}

/// Reads the same few pages again and again.
async fn reread(actor: Actor, file: File, call: Call, rest: Span, mut chance: Prng) {
    let mut bytes = vec![0; PAGE as usize];
    while actor.goes_on() {
        let page = chance.below(call.pages.end);
        let read = async { file.read_at(&mut bytes, page * PAGE).await.map(drop) };
        // While pages are held there may be no frame.
        let _ = actor.make(&call, read).await;
        actor.rest_calmly(rest).await;
    }
}

/// Now and then holds as many pages as possible for a while.
async fn hold(actor: Actor, file: File, mut chance: Prng) {
    while actor.goes_on() {
        let rest = Span::from_micros(300_000 + chance.below(1_000_000));
        actor.rt.sleep(rest).await;
        let mut guards = Vec::new();
        let pages = file.len() / PAGE;
        let until = actor.rt.now() + TAKING;
        for page in 0..pages - chance.below(pages / 4) {
            match file.page(page).await {
                Ok(guard) if actor.goes_on() && actor.rt.now() < until => guards.push(guard),
                _ => break,
            }
        }
        let held = Span::from_micros(chance.below(HELD_MOST_US));
        actor.rt.sleep(held).await;
    }
}

/// Writes and reads pages of anonymous memory.
async fn churn(actor: Actor, memory: File, rest: Span, mut chance: Prng) {
    let mut bytes = vec![0; PAGE as usize];
    let pages = memory.len() / PAGE;
    while actor.goes_on() {
        let at = chance.below(pages) * PAGE;
        if chance.chance(1, 3) {
            let _ = memory.read_at(&mut bytes, at).await;
        } else {
            let _ = memory.write_at(&bytes, at).await;
        }
        actor.rest_calmly(rest).await;
    }
}

#[cfg(test)]
mod tests {
    use super::judge_pressure;

    #[test]
    fn reclaim_does_what_it_promises() {
        for seed in 0..12 {
            assert_eq!(judge_pressure(seed), None);
        }
    }
}
