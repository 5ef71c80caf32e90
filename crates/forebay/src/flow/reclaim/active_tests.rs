//! Anonymous memory all of which lies on its active list.

use super::*;
use crate::cache::Cache;
use crate::policy::Policy;
use crate::settings::{Parts, Settings};
use forebay_base::PAGE_BYTES;
use forebay_rt::{Virtual, VirtualSettings};
use forebay_store::{MemoryStore, ObjectId};

/// A kswapd that has given up ages nothing, so who reclaims for himself has to.
#[test]
fn a_pass_of_a_caller_ages_active_memory_though_none_is_inactive() {
    let world = Virtual::new(VirtualSettings::default());
    let rt = world.rt();
    world.run(async move {
        let settings = Settings {
            memory_bytes: 4 << 20,
            prefault: false,
            policy: Policy::preset("linux-4.11").expect("a preset of this name"),
            ..Settings::default()
        };
        let cache =
            Cache::with_parts(settings, Parts { rt, sink: None }).expect("the settings are good");
        let store = cache
            .attach(Arc::new(MemoryStore::new()))
            .expect("the store is well");
        cache
            .set_swap(&store, ObjectId(9), 4 << 20)
            .expect("there is room for swap");
        let memory = cache.anonymous(1 << 20).expect("swap is set");
        let bytes = vec![1; 100 * PAGE_BYTES];
        memory.write_at(&bytes, 0).await.expect("memory takes it");
        let engine = &memory.handle.engine;
        let zone = &engine.zones[0];
        let before = zone.sizes();
        assert_eq!((before.inactive_anon, before.active_anon), (0, 100));
        let mut control = ScanControl::new(Who::Direct, TOP_PRIORITY);
        engine.shrink_zone(zone, &mut control).await;
        assert_eq!(zone.sizes().inactive_anon, Batch::LIMIT as u64);
    });
}
