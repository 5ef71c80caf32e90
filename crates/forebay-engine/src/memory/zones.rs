//! Zones: which of them a request may use, what can be freed in them, and what may be dirtied.

use crate::event::PageLevels;
use crate::kernel::Dirtyable;
use crate::lists::List;
use crate::memory::Memory;
use crate::state::node::Node;
use crate::state::zone::Zone;
use forebay_base::sync::atomic::Ordering;
use forebay_law::history::{self, dirtyable_with_anonymous};
use forebay_law::limits::{self, DirtyKnobs, available_pages};
use forebay_law::throttle::skips_sleep;
use forebay_law::watermark::{MarkRelief, ZoneLevel, gate_is_open, is_above, node_is_balanced};
use forebay_store::PagePointer;

/// Where a handle's frames come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePolicy {
    /// The node that is asked first.
    pub node: usize,
    /// Whether no other node is asked.
    pub(crate) is_bound: bool,
}

impl NodePolicy {
    /// A node that is asked before the others.
    pub(crate) fn near(node: usize) -> NodePolicy {
        NodePolicy {
            node,
            is_bound: false,
        }
    }

    /// How many of a machine's `nodes` are asked.
    pub(crate) fn reach(self, nodes: usize) -> usize {
        if self.is_bound { 1 } else { nodes }
    }
}

/// How many of `pages` may be dirtied while `over` have to be given up. A quarter always may: the
/// pages over the budget may be other ones, and for a long time, and writers of files are not
/// stopped for those.
fn without_over(pages: u64, over: u64) -> u64 {
    pages.saturating_sub(over).max(pages / 4)
}

impl Memory {
    /// The number of the lock of a zone's lists: that of its node, or its own.
    pub(crate) fn lock_of_lists(&self, zone: &Zone) -> u32 {
        let lock = if self.locks_zones {
            self.nodes.len() + zone.number
        } else {
            zone.node
        };
        lock as u32
    }

    pub(crate) fn zone_of(&self, frame: u32) -> &Zone {
        let zone = self.zones.partition_point(|zone| zone.first_frame <= frame) - 1;
        debug_assert!(
            self.zones[zone].contains(frame),
            "every frame has a zone (Z1)"
        );
        &self.zones[zone]
    }

    /// The zones of `node` up to `class`, lowest first.
    pub fn zones_up_to(&self, node: &Node, class: usize) -> impl Iterator<Item = &Zone> {
        node.zones
            .clone()
            .take(class + 1)
            .map(|zone| &self.zones[zone])
    }

    /// The zones that a request may use, most preferred first, each with the class
    /// whose reserve it has to leave (spec/reclaim.md 1.5).
    pub fn zone_list(
        &self,
        node_policy: NodePolicy,
    ) -> impl Iterator<Item = (&Node, &Zone, usize)> {
        self.nodes_from(node_policy).flat_map(move |node| {
            let class = node.top_class();
            let zones = node.zones.clone().rev();
            zones.map(move |zone| (node, &self.zones[zone], class))
        })
    }

    /// The nodes that a request under `node_policy` may use, the nearest before the others.
    pub(crate) fn nodes_from(&self, node_policy: NodePolicy) -> impl Iterator<Item = &Node> {
        let is_other = move |node: &&Node| !node_policy.is_bound && node.number != node_policy.node;
        let others = self.nodes.iter().filter(is_other);
        std::iter::once(&self.nodes[node_policy.node]).chain(others)
    }

    /// Whether a node has enough free frames that its callers need not wait (spec/reclaim.md 6.2).
    pub(crate) fn is_gate_open(&self, node: &Node) -> bool {
        if !self.has_gates {
            return true;
        }
        let zones = || node.zones.clone().map(|zone| &self.zones[zone]);
        let free = zones().map(Zone::free_pages).sum();
        gate_is_open(free, zones().map(|zone| zone.marks().min).sum())
    }

    /// Calls `act` for each run of neighbouring `pages` in one zone, with the zone and the length
    /// of the run.
    pub(crate) fn for_each_zone(&self, pages: &[PagePointer], act: impl Fn(&Zone, u64)) {
        let mut left = pages;
        while let Some(first) = left.first() {
            let zone = self.zone_of(self.frames.frame_at(first));
            let is_outside = |page: &PagePointer| !zone.contains(self.frames.frame_at(page));
            let in_zone = left.iter().position(is_outside).unwrap_or(left.len());
            act(zone, in_zone as u64);
            left = &left[in_zone..];
        }
    }

    /// Whether a request could succeed if everything reclaimable were reclaimed.
    pub(crate) fn may_succeed(&self, node_policy: NodePolicy) -> bool {
        self.zone_list(node_policy).any(|(_, zone, class)| {
            let available = zone.free_pages() + self.reclaimable_pages(zone);
            let reserve = zone.lowmem_reserve(class);
            is_above(available, zone.marks().min, reserve, MarkRelief::default())
        })
    }

    /// Whether a reclaimer without progress on `node` need not wait (spec/reclaim.md 5.4): less
    /// than half of what it could free waits for a write, or the node counts as hopeless.
    pub(crate) fn skips_throttle(&self, node: &Node) -> bool {
        let (mut pending, mut reclaimable) = (0, 0);
        for zone in self.zones_up_to(node, node.top_class()) {
            pending += zone.pages_pending();
            reclaimable += self.reclaimable_pages(zone);
        }
        let failures = node.failures.load(Ordering::Relaxed);
        skips_sleep(pending, reclaimable, failures)
    }

    /// Whether a page may be dirtied in a node all of whose zones share one limit.
    pub fn node_takes_dirty(&self, node: &Node, knobs: &DirtyKnobs) -> bool {
        let (mut free, mut file, mut reserved) = (0, 0, 0);
        let (mut pending, mut over) = (0, 0);
        for zone in self.zones_up_to(node, node.top_class()) {
            let sizes = self.lists.of(zone.number).sizes();
            free += zone.free_pages();
            file += sizes.inactive_file + sizes.active_file;
            reserved += zone.reserved_pages();
            over += zone.pages_over();
            pending += zone.pages_pending();
        }
        let dirtyable = without_over(limits::node_dirtyable(free, file, reserved), over);
        let limit = limits::zone_limit(dirtyable, || self.dirtyable_pages(), knobs);
        limits::zone_is_ok(pending, limit)
    }

    /// Pages of the zone that reclaim could free in the best case.
    pub fn reclaimable_pages(&self, zone: &Zone) -> u64 {
        let sizes = self.lists.of(zone.number).sizes();
        let anon = if self.swap_has_room() {
            sizes.inactive_anon + sizes.active_anon
        } else {
            0
        };
        sizes.inactive_file + sizes.active_file + anon
    }

    /// What an event says about the pages of a zone.
    pub(crate) fn levels(&self, zone: &Zone) -> PageLevels {
        let lists = self.lists.of(zone.number);
        PageLevels {
            free: zone.free_pages(),
            inactive_file: lists.size(List::InactiveFile),
            active_file: lists.size(List::ActiveFile),
            isolated_file: lists.isolated(true),
            dirty: zone.dirty.load(Ordering::Relaxed),
            writeback: zone.writeback.load(Ordering::Relaxed),
        }
    }

    /// Whether every page that could be freed in a zone was looked at six times since one was last
    /// freed there.
    pub fn is_unreclaimable(&self, zone: &Zone) -> bool {
        let scanned = zone.scanned_in_vain.load(Ordering::Relaxed);
        history::is_unreclaimable(scanned, self.reclaimable_pages(zone))
    }

    /// Frames that the cache has beyond its budget.
    pub(crate) fn pages_over(&self) -> u64 {
        self.zones.iter().map(Zone::pages_over).sum()
    }

    /// Memory that may be dirtied (spec/writeback.md 2.2), pages.
    pub(crate) fn dirtyable_pages(&self) -> u64 {
        let (mut free, mut file, mut anonymous) = (0, 0, 0);
        let counts_anonymous = self.counts_anonymous();
        for zone in &self.zones {
            let lists = self.lists.of(zone.number);
            let sizes = lists.sizes();
            free += zone.free_pages();
            file += sizes.inactive_file + sizes.active_file + lists.isolated(true);
            if counts_anonymous {
                anonymous += sizes.inactive_anon + sizes.active_anon;
            }
        }
        let reserve = self.total_reserve.load(Ordering::Relaxed);
        let dirtyable = match self.dirtyable {
            Dirtyable::Files => available_pages(free, file, reserve),
            Dirtyable::WithAnonymous => dirtyable_with_anonymous(free, file, anonymous, 0),
            Dirtyable::WithAnonymousLessReserve => {
                dirtyable_with_anonymous(free, file, anonymous, reserve)
            }
        };
        without_over(dirtyable, self.pages_over())
    }

    /// Whether a part of anonymous memory may be dirtied too: some policies of the past say so as
    /// long as it can be written to swap.
    fn counts_anonymous(&self) -> bool {
        self.dirtyable != Dirtyable::Files && self.swap_has_room()
    }

    /// Room for file pages until they are first used, pages: what is read further ahead than this
    /// pushes itself out.
    pub(crate) fn room_for_new_pages(&self) -> u64 {
        let room =
            |zone: &Zone| zone.free_pages() + self.lists.of(zone.number).sizes().inactive_file;
        without_over(self.zones.iter().map(room).sum(), self.pages_over())
    }

    /// Memory of the zone that may be dirtied, pages.
    pub(crate) fn dirtyable_pages_of(&self, zone: &Zone) -> u64 {
        let sizes = self.lists.of(zone.number).sizes();
        let mut pages = sizes.inactive_file + sizes.active_file;
        if self.counts_anonymous() {
            pages += sizes.inactive_anon + sizes.active_anon;
        }
        let dirtyable = limits::zone_dirtyable(zone.free_pages(), pages, zone.reserved_pages());
        without_over(dirtyable, zone.pages_over())
    }

    /// Sums up the pages of the zones that never count as dirtyable.
    pub(crate) fn note_reserves(&self) {
        let reserved = self.zones.iter().map(Zone::reserved_pages).sum();
        self.total_reserve.store(reserved, Ordering::Relaxed);
    }

    /// Whether some zone of `node` up to `class` is above its high mark, or there is none
    /// (spec/reclaim.md 4.5).
    pub fn is_balanced(&self, node: &Node, class: usize) -> bool {
        let zones = self.zones_up_to(node, class);
        let zones = zones.filter(|zone| zone.managed_pages() > 0);
        node_is_balanced(zones.map(|zone| ZoneLevel {
            free: zone.free_pages(),
            high: zone.marks().high,
            reserve: zone.lowmem_reserve(class),
        }))
    }
}
