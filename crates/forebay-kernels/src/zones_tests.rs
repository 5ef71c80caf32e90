//! How a pass over the zones ends.

use super::*;
use crate::fixtures::{Bare, preset, small};

/// Spec/reclaim.md 4.3: kswapd naps after a pass in trouble, unless a zone is at its min mark.
#[test]
fn a_pass_is_urgent_while_a_zone_is_at_its_min_mark() {
    for (above_min, expected) in [
        (0, Pass::Short { is_urgent: true }),
        (1, Pass::Short { is_urgent: false }),
    ] {
        let bare = Bare::under(preset("linux-3.0"), small());
        let (engine, flows) = (bare.engine, bare.flows);
        bare.world.run(async move {
            let zone = &engine.memory.zones[0];
            let (min, high) = (zone.marks().min, zone.marks().high);
            assert!(high > min + 1);
            while zone.free_pages() > min + above_min {
                zone.take_free().expect("it counts as free");
            }
            let mut control = ScanControl::new(Who::Kswapd, TOP_PRIORITY);
            let node = &engine.memory.nodes[0];
            let pass = flows
                .older(&engine.reclaim)
                .shrink_short_zones(node, &mut control)
                .await;
            assert_eq!(pass, expected, "{above_min} pages above the mark");
        });
    }
}
