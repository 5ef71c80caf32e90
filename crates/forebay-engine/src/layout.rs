//! Nodes and zones as the settings describe them, and what follows from the sizes of the zones.

use crate::budget::Budget;
use crate::settings::{NodeSettings, Settings, ZoneSettings};
use crate::state::node::Node;
use crate::state::zone::{Zone, ZonePlan, ZoneSize};
use forebay_law::watermark::{self, MarkSpacing, Watermarks};

/// Zones and nodes, with all frames free.
pub(crate) fn lay_out(
    settings: &Settings,
    budget: &Budget,
    spacing: MarkSpacing,
) -> (Vec<Zone>, Vec<Node>) {
    let (mut zones, mut nodes) = (Vec::new(), Vec::new());
    let mut sizes = zone_sizes(settings, spacing, &budget.zone_pages).into_iter();
    let mut first_frame = 0;
    for (number, node) in settings.nodes.iter().enumerate() {
        let first_zone = zones.len();
        for (zone, size) in node.zones.iter().zip(&mut sizes) {
            let managed_pages = size.managed_pages;
            let plan = ZonePlan {
                number: zones.len(),
                name: zone.name.clone(),
                node: number,
                first_frame,
                size,
            };
            first_frame += managed_pages as u32;
            zones.push(Zone::new(plan));
        }
        nodes.push(Node::new(number, first_zone..zones.len()));
    }
    (zones, nodes)
}

/// Marks and reserves of all zones, node by node, if they have `zone_pages` frames.
pub(crate) fn zone_sizes(
    settings: &Settings,
    spacing: MarkSpacing,
    zone_pages: &[Vec<u64>],
) -> Vec<ZoneSize> {
    let lowmem_pages = zone_pages.iter().flatten().sum();
    let marks = |zone: &ZoneSettings, pages| {
        zone.marks
            .unwrap_or_else(|| marks(settings, spacing, pages, lowmem_pages))
    };
    let mut sizes = Vec::new();
    for (node, pages) in settings.nodes.iter().zip(zone_pages) {
        for (at, zone) in node.zones.iter().enumerate() {
            sizes.push(ZoneSize {
                managed_pages: pages[at],
                marks: marks(zone, pages[at]),
                lowmem_reserve: lowmem_reserve(node, pages, at),
            });
        }
    }
    sizes
}

fn marks(settings: &Settings, spacing: MarkSpacing, pages: u64, lowmem_pages: u64) -> Watermarks {
    const CAP_KIB: u64 = 262_144;
    let computed = watermark::min_free_kib(lowmem_pages * 4, CAP_KIB);
    let min_free_kib = computed.max(settings.min_free_kib).min(lowmem_pages);
    watermark::watermarks(min_free_kib, pages, lowmem_pages, spacing)
}

/// The frames that zone number `at` of a node keeps from requests of each class.
fn lowmem_reserve(node: &NodeSettings, pages: &[u64], at: usize) -> Vec<u64> {
    let ratios: Vec<u64> = node
        .zones
        .iter()
        .map(|zone| zone.lowmem_reserve_ratio)
        .collect();
    let reserve = |class| match &node.zones[at].lowmem_reserve_pages {
        Some(given) => given.get(class).copied().unwrap_or(0),
        None => watermark::lowmem_reserve(pages, &ratios, at, class),
    };
    (0..pages.len()).map(reserve).collect()
}
