//! How old the bytes are that are newer than their store, or that a crash would lose.
//!
//! The law is `forebay_law::at_risk`; the flushers ask it
//! (docs/decisions/writeback-and-throttling.md). Nothing is computed where bytes become dirty: a
//! block of pages remembers when its first one did, and the flusher looks through the blocks.

use crate::parts::Dirty;
use crate::state::backing::Backing;
use crate::state::object::{ObjectState, Origin};
use crate::state::stamp::{Stamp, earliest};
use crate::statistics::AtRiskStatistics;
use forebay_base::sync::lock;
use forebay_base::{Instant, Span};
use forebay_law::at_risk::{drain_ms, due_ms, is_late};
use forebay_store::Durability;

/// Since when the oldest bytes of a store are as they are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Oldest {
    /// Dirty or under writeback, which in an unstable store they are until they are committed.
    pub(crate) dirty: Option<Stamp>,
    /// Written and not durable.
    uncommitted: Option<Stamp>,
}

impl Oldest {
    /// Since when the oldest bytes are not durable.
    pub(crate) fn not_durable(self) -> Option<Stamp> {
        earliest(self.dirty, self.uncommitted)
    }

    fn and(self, other: Oldest) -> Oldest {
        Oldest {
            dirty: earliest(self.dirty, other.dirty),
            uncommitted: earliest(self.uncommitted, other.uncommitted),
        }
    }
}

impl Dirty {
    /// In how much time what is dirty of `backing` has to be written: its own promise, or what the
    /// limit on the age of bytes needs, whichever is shorter.
    pub(crate) fn drain_of(&self, backing: &Backing) -> Option<Span> {
        let for_age = self.knobs.at_risk().map(drain_for);
        let own = backing.knobs.drain();
        own.into_iter().chain(for_age).min()
    }

    /// The oldest bytes of each store.
    pub(crate) fn oldest(&self) -> Vec<Oldest> {
        let backings = self.stores.all();
        let mut oldest: Vec<Oldest> = backings.iter().map(|of| under_way(of)).collect();
        for object in self.pages.objects.all() {
            if let Origin::File { backing, .. } = object.origin {
                let found = self.oldest_of_object(&backings[backing], &object);
                oldest[backing] = oldest[backing].and(found);
            }
        }
        oldest
    }

    /// The oldest bytes of `backing`.
    pub(crate) fn oldest_of(&self, backing: &Backing) -> Oldest {
        let of_files = self.pages.objects.all().into_iter();
        let of_files = of_files.filter(|object| is_of(object, backing));
        of_files
            .map(|object| self.oldest_of_object(backing, &object))
            .fold(under_way(backing), Oldest::and)
    }

    fn oldest_of_object(&self, backing: &Backing, object: &ObjectState) -> Oldest {
        let mut dirty = None;
        let mut from = Some(0);
        while let Some(page) = from {
            let found = lock(&object.dirty).oldest_dirty(&self.pages.slab, page);
            dirty = earliest(dirty, found.0);
            from = found.1;
        }
        let uncommitted = object.uncommitted_since(&lock(&object.dirty));
        match backing.geometry.durability {
            Durability::Unstable => Oldest {
                dirty: earliest(dirty, uncommitted),
                uncommitted: None,
            },
            Durability::OnFinish | Durability::OnCommit => Oldest { dirty, uncommitted },
        }
    }

    /// Whether a pass over `backing` is due, because its oldest bytes are not durable since
    /// `since`.
    pub(crate) fn is_pass_due(&self, since: Stamp, at_risk: Span) -> bool {
        since.age_ms(self.accounts.now_ms()) >= due_ms(at_risk.as_millis())
    }

    /// When that pass is due.
    pub(crate) fn pass_due(&self, since: Stamp, at_risk: Span) -> Instant {
        let now = self.rt.now();
        let age_ms = since.age_ms(now.as_millis());
        let left_ms = due_ms(at_risk.as_millis()).saturating_sub(age_ms);
        now + Span::from_millis(left_ms)
    }

    /// Counts how often bytes of `backing` became too old; its oldest ones are not durable since
    /// `since`.
    pub(crate) fn note_oldest(&self, backing: &Backing, since: Option<Stamp>, at_risk: Span) {
        if !since.is_some_and(|since| self.note_late(backing, since, at_risk)) {
            lock(&backing.rates).is_late = false;
        }
    }

    /// Bytes of `backing` become durable, or are looked at, that were not since `since`. True if
    /// that was too long; it is counted once until the oldest bytes are young enough again.
    fn note_late(&self, backing: &Backing, since: Stamp, at_risk: Span) -> bool {
        let is_late = is_late(since.age_ms(self.accounts.now_ms()), at_risk.as_millis());
        if is_late {
            let mut rates = lock(&backing.rates);
            rates.at_risk_overshoots += u64::from(!rates.is_late);
            rates.is_late = true;
        }
        is_late
    }

    /// Bytes of `backing` are durable that were not since `since`.
    pub(crate) fn note_durable(&self, backing: &Backing, since: Option<Stamp>) {
        if let (Some(since), Some(at_risk)) = (since, self.knobs.at_risk()) {
            self.note_late(backing, since, at_risk);
        }
    }

    /// What is known of the limit on the age of bytes of `backing`, if there is one.
    pub(crate) fn at_risk_statistics(
        &self,
        backing: &Backing,
        oldest: Oldest,
    ) -> Option<AtRiskStatistics> {
        let limit = self.knobs.at_risk()?;
        let since = oldest.not_durable();
        self.note_oldest(backing, since, limit);
        Some(AtRiskStatistics {
            limit,
            oldest: self.age_of(since).unwrap_or(Span::ZERO),
            overshoots: lock(&backing.rates).at_risk_overshoots,
        })
    }

    /// The age of the oldest dirty page of each store.
    pub(crate) fn oldest_dirty_ages(&self) -> Vec<Option<Span>> {
        let oldest = self.oldest().into_iter();
        oldest.map(|oldest| self.age_of(oldest.dirty)).collect()
    }

    /// The time since `since`.
    pub(crate) fn age_of(&self, since: Option<Stamp>) -> Option<Span> {
        since.map(|since| Span::from_millis(since.age_ms(self.accounts.now_ms())))
    }
}

fn is_of(object: &ObjectState, backing: &Backing) -> bool {
    let Origin::File {
        backing: number, ..
    } = object.origin
    else {
        return false;
    };
    number == backing.number
}

/// The drain that a limit on the age of bytes needs.
pub(crate) fn drain_for(at_risk: Span) -> Span {
    Span::from_millis(drain_ms(at_risk.as_millis()))
}

/// What writes under way hold.
fn under_way(backing: &Backing) -> Oldest {
    Oldest {
        dirty: backing.oldest_write_since(),
        uncommitted: None,
    }
}
