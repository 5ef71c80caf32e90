//! What page-outs leave for the writes of files.

use crate::cache::Cache;
use forebay_base::sync::atomic::Ordering;
use forebay_base::{PAGE_BYTES, Span};
use forebay_rt::{Virtual, VirtualSettings};
use forebay_store::{MemoryStore, ObjectId, Rate, RateStore};
use std::sync::Arc;

/// However many pages are on their way to swap, files are written and read in long requests.
#[test]
fn pages_on_their_way_to_swap_take_no_vector_of_files() {
    let world = Virtual::new(VirtualSettings::default());
    let rt = world.rt();
    world.run(async move {
        let cache = Cache::small(&rt, 16);
        let slow = Rate::bytes(64 * PAGE_BYTES as u64);
        let slow = RateStore::new(rt.clone(), Arc::new(MemoryStore::new()), slow);
        let store = cache.attach(Arc::new(slow)).expect("the store is well");
        cache
            .set_swap(&store, ObjectId(9), 64 << 20)
            .expect("there is room for swap");
        let memory = cache.anonymous(20 << 20).expect("swap is set");
        let engine = memory.handle.engine.clone();
        rt.spawn("fill memory", async move {
            let bytes = vec![1; 20 << 20];
            let _ = memory.write_at(&bytes, 0).await;
        });
        rt.sleep(Span::from_secs(1)).await;
        let under_way = engine
            .dirty
            .stores
            .get(0)
            .writes
            .in_flight
            .load(Ordering::Acquire);
        assert!(under_way > 500, "{under_way} pages on their way");
        let idle = (0..).map_while(|_| engine.pages.vectors.take_idle());
        let idle: Vec<_> = idle.collect();
        assert_eq!(idle.len(), engine.pages.vectors.count());
    });
}
