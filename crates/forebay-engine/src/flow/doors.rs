//! The doors at which a policy takes over what an older kernel did. No flow of today asks for the
//! policy behind its door, and no flow of an older kernel is reached but through one of these.

use crate::accounting::calls::Call;
use crate::flow::alloc::Want;
use crate::flow::history::{Foreground, Older};
use crate::flow::pause::Payer;
use crate::flow::reclaim::{ScanControl, Today};
use crate::memory::Home;
use crate::parts::{Flusher, Pages, Reclaim, Throttle};
use crate::policy::ZoneDirtyLimits;
use crate::state::backing::Backing;
use crate::state::dirtier::Dirtier;
use crate::state::node::Node;
use crate::state::zone::Zone;
use forebay_base::{Instant, Span};
use forebay_law::blame::Cause;
use forebay_law::limits::zone_is_ok;

impl Reclaim {
    /// Reclaims for a caller that found no frame. Returns the pages freed.
    pub(crate) async fn reclaim_for(&self, call: &Call<'_>, want: Want) -> u64 {
        if self.past.has_steps() {
            self.direct_reclaim(&Older::of(self), call, want).await
        } else {
            self.direct_reclaim(&Today(self), call, want).await
        }
    }

    /// Reclaims near `home`, as `control` says.
    pub(crate) async fn reclaim_near(&self, home: Home, control: &mut ScanControl<'_>) {
        if self.past.has_steps() {
            self.reclaim_for_caller(&Older::of(self), home, control)
                .await;
        } else {
            self.reclaim_for_caller(&Today(self), home, control).await;
        }
    }

    /// The life of the kswapd of `node`.
    pub(crate) async fn run_kswapd(&self, node: usize) {
        match (self.past.kswapd, self.past.has_steps()) {
            (None, false) => self.kswapd(&Today(self), node).await,
            (None, true) => self.kswapd(&Older::of(self), node).await,
            (Some(past), _) => Older::of(self).past_kswapd(past, node).await,
        }
    }

    /// Whether kswapd has nothing to do for a request of `class`.
    pub(crate) fn need_not_wake(&self, node: &Node, class: usize) -> bool {
        match self.past.kswapd {
            None => self.memory.is_balanced(node, class),
            Some(past) => Older::of(self).needed_no_wake(past, node, class),
        }
    }

    /// Whether a caller that began to look for a frame at `began`, and whose runs of reclaim have
    /// freed nothing for the span of `fruitless`, tries once more. A caller of an older kernel
    /// naps first.
    pub(crate) async fn tries_again(
        &self,
        home: Home,
        began: Instant,
        fruitless: Span,
        reclaimed: u64,
    ) -> bool {
        match self.past.naps {
            None => fruitless < self.patience(),
            Some(past) => {
                let in_time = self.rt.now().since(began) < self.patience();
                in_time
                    && Older::of(self)
                        .naps_before_retry(past, home, reclaimed)
                        .await
            }
        }
    }
}

impl Flusher {
    /// How many pages a turn writes, if the round has `pages_left`.
    pub(crate) fn turn_pages(&self, backing: &Backing, pages_left: u64) -> u64 {
        match self.past.turn_pages {
            None => self.chunk_pages(backing, pages_left),
            Some(fixed) => fixed.min(pages_left),
        }
    }
}

impl Pages {
    /// Whether a page may be dirtied in this zone (spec/reclaim.md 1.10).
    pub(crate) fn zone_takes_dirty(&self, zone: &Zone) -> bool {
        if self.memory.zones.len() == 1 {
            return true;
        }
        match self.past.zone_limits {
            None => zone_is_ok(zone.pages_pending(), self.zone_dirty_limit(zone)),
            Some(ZoneDirtyLimits::Off) => true,
            Some(_) => {
                let node = &self.memory.nodes[zone.node];
                self.memory.node_takes_dirty(node, &self.knobs.dirty())
            }
        }
    }
}

impl Throttle {
    /// Notes that a writer made `pages` clean pages dirty. True if it has to be evaluated. A call
    /// that ends is evaluated earlier than one that goes on, so that each call pays for itself.
    pub(crate) fn dirtied(
        &self,
        backing: &Backing,
        dirtier: &Dirtier,
        pages: u64,
        call_ends: bool,
    ) -> bool {
        dirtier.count_dirtied(pages);
        if self.past.writers.is_some() {
            Foreground { throttle: self }.note_dirtied(backing, dirtier, pages)
        } else {
            self.note_dirtied(backing, dirtier, pages, call_ends)
        }
    }

    /// Pages that a writer may make dirty before it has to be evaluated, at least 1. A write stops
    /// there, however long it is: pages past the quota would cost more than the longest pauses take
    /// back, and the base rate would have to fall for all.
    pub(crate) fn quota_left(&self, backing: &Backing, dirtier: &Dirtier) -> u64 {
        let left = if self.past.writers.is_some() {
            Foreground { throttle: self }.pages_until_asked(backing)
        } else {
            dirtier.left_pages()
        };
        left.max(1)
    }

    /// Lets a writer pay for what it dirtied.
    pub(crate) async fn throttle(&self, payer: Payer<'_>) {
        let Some(past) = self.past.writers else {
            return self.balance_dirty_pages(payer).await;
        };
        let Payer {
            backing,
            dirtier,
            waits,
            ..
        } = payer;
        self.enter(payer).await;
        // What is not a nap of it is spent on writes that it waits for.
        let _waiting = self.accounts.waiting(waits, Cause::SyncWrites);
        // Boxed: today's writers should not carry the size of it.
        Box::pin(Foreground { throttle: self }.balance(past, backing, dirtier, waits)).await;
    }
}
