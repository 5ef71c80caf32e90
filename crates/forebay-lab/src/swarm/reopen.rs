//! Reopening after a loss of power: a fresh cache over the images is compared with what syncs had
//! promised.

use super::client::PAGE;
use super::crash::Image;
use super::ledger::Ledger;
use super::part::Part;
use super::plan::{Plan, Reduction};
use super::reader_model::WrongByte;
use super::store::Pace;
use super::verdict::{Oracle, Violation};
use super::world::World;
use forebay_base::sync::{Mutex, lock};
use forebay_rt::{Virtual, VirtualSettings};
use forebay_store::ObjectId;
use std::sync::Arc;

/// A ledger and the place of its bytes: what a crash is judged by.
pub(super) struct Promised {
    pub(super) ledger: Arc<Mutex<Ledger>>,
    pub(super) store: usize,
    pub(super) object: ObjectId,
}

/// What in the images breaks a promise.
pub(super) fn judge_images(
    plan: &Plan,
    images: &[Image],
    promised: &[Promised],
) -> Option<Violation> {
    let mut plan = plan.clone();
    let without = vec![Part::Crash, Part::Faults];
    plan.reduce(&Reduction {
        without,
        ..Reduction::default()
    });
    plan.stores
        .iter_mut()
        .for_each(|store| store.pace = Pace::Instant);
    let machine = Virtual::new(VirtualSettings::default());
    let world = World::furnish(&plan, machine.rt(), images.to_vec());
    machine.run(async {
        for promised in promised {
            judge(&world, &images[promised.store], promised).await;
        }
    });
    world.stores.iter().for_each(|(store, _)| store.end());
    world.verdict.take()
}

async fn judge(world: &Arc<World>, image: &Image, promised: &Promised) {
    let Promised {
        ledger,
        store,
        object,
    } = promised;
    let length = image.get(object).map_or(0, Vec::len) as u64;
    let file = world.cache.open(&world.stores[*store].1, *object, length);
    let file = file.expect("there is room for the objects of a plan");
    let (start, count, is_whole) = {
        let ledger = lock(ledger);
        let is_whole = ledger.is_whole_object();
        let longest = ledger.durable_length_bytes().1;
        (
            ledger.start(),
            if is_whole { longest } else { ledger.len() },
            is_whole,
        )
    };
    let mut bytes = vec![0; count as usize];
    if let Err(error) = file.read_at(&mut bytes, start).await {
        world.broken(
            Oracle::Crash,
            format!("object {} cannot be read: {error}", object.0),
        );
        return;
    }
    let ledger = lock(ledger);
    let (shortest, longest) = ledger.durable_length_bytes();
    if is_whole && !(shortest..=longest).contains(&length) {
        let what = format!(
            "after a crash object {} has {length} bytes; a returned sync promised {shortest} to \
             {longest}",
            object.0
        );
        world.broken(Oracle::Crash, what);
    }
    if let Err(WrongByte {
        place,
        found,
        expected,
    }) = ledger.judge_image(&bytes)
    {
        let what = format!(
            "after a crash object {} has {found:#04x} at byte {place} (page {}); a returned sync \
             promised {expected:#04x} or something newer",
            object.0,
            place / PAGE
        );
        world.broken(Oracle::Crash, what);
    }
}
