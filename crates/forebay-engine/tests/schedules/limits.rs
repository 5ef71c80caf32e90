//! Writers at the limit, and the flusher that they wait for.

use crate::bench::{Bench, join, short_of_dirty, start};
use crate::callers;
use crate::versions::Versions;
use forebay_base::{Instant, Prng, Span};
use forebay_engine::Counter;
use forebay_rt::explored::{Clock, explore};
use forebay_store::{Durability, ObjectId};
use std::sync::Arc;

const OBJECT: ObjectId = ObjectId(1);
const PAGES: u64 = 60;
const WRITERS: u64 = 3;

#[test]
fn no_flusher_rests_while_writers_stand_at_the_limit() {
    explore(300, Clock::Waits, |order| {
        let mut chance = Prng::from_seed(order).child("plan");
        let settings = short_of_dirty(2 + chance.below(3));
        let bench = Bench::new(settings, Durability::OnFinish, order);
        let file = bench.open(OBJECT, PAGES);
        let versions = Arc::new(Versions::new(PAGES));
        let writer = |writer| {
            let (versions, mut chance) = (versions.clone(), chance.child(&format!("{writer}")));
            start(&file, move |file| {
                callers::write(&file, &versions, (writer, WRITERS), 30, &mut chance);
            })
        };
        join((0..WRITERS).map(writer).collect());
        drop(file);
        let pauses = bench.count(Counter::BalancePauses);
        assert!(pauses > 0, "no writer reached the limit");
        let waited = bench.rt.now().since(Instant::ZERO);
        assert_eq!(
            waited,
            Span::ZERO,
            "a write ended, and a wait for it did not"
        );
        bench.close();
    });
}
