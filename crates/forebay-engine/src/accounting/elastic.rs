//! A budget that follows the memory of the machine: what is remembered of it.
//!
//! The law is `forebay_law::elastic` (docs/decisions/reclaim-and-memory.md). It is asked by
//! `flow/elastic.rs` when a program has looked at the memory.

use crate::elastic::{MemoryLook, MemorySeen, MemoryStep};
use crate::engine::Engine;
use crate::settings::Elastic;
use crate::state::zone::Zone;
use crate::statistics::ElasticStatistics;
use forebay_base::Span;
use forebay_base::sync::lock;
use forebay_base::units::byte_of;
use forebay_law::elastic::{self as law, Change, ElasticInputs, first_bytes, next_look_ms};

impl Engine {
    /// What follows from `seen`, none if the budget is not elastic. The caller makes the change.
    pub(crate) fn next_budget(&self, seen: &MemorySeen) -> Option<MemoryLook> {
        let settings = self.settings.elastic?;
        let inputs = self.elastic_inputs(settings, seen);
        let mut book = lock(&self.elastic);
        book.headroom_bytes = seen.headroom_bytes;
        let (law, change) = book
            .law
            .map_or_else(|| begun(&inputs), |known| known.advanced(&inputs));
        book.law = Some(law);
        let step = change.map(|Change { to_bytes, cause }| MemoryStep {
            from_bytes: inputs.budget_bytes,
            to_bytes,
            cause,
            headroom_bytes: seen.headroom_bytes,
            scarce: seen.scarce,
        });
        if let Some(step) = step {
            book.last = Some((self.rt.now(), step));
        }
        let budget_bytes = step.map_or(inputs.budget_bytes, |step| step.to_bytes);
        let after = ElasticInputs {
            budget_bytes,
            ..inputs
        };
        Some(MemoryLook {
            step,
            next_look: Span::from_millis(next_look_ms(&after, &law)),
        })
    }

    fn elastic_inputs(&self, settings: Elastic, seen: &MemorySeen) -> ElasticInputs {
        let unused: u64 = self.memory.zones.iter().map(Zone::free_pages).sum();
        ElasticInputs {
            floor_bytes: settings.floor_bytes,
            ceiling_bytes: self.budget.limit_bytes(&self.settings),
            budget_bytes: self.pages.memory_bytes(),
            headroom_bytes: seen.headroom_bytes,
            free_bytes: seen.free_bytes,
            owed_bytes: byte_of(self.memory.pages_over()),
            unused_bytes: byte_of(unused),
            is_pressed: seen.is_pressed,
            now_ms: self.accounts.now_ms(),
        }
    }

    /// What is known of an elastic budget.
    pub(crate) fn elastic_statistics(&self) -> Option<ElasticStatistics> {
        let Elastic { floor_bytes } = self.settings.elastic?;
        let book = lock(&self.elastic);
        Some(ElasticStatistics {
            floor_bytes,
            ceiling_bytes: self.budget.limit_bytes(&self.settings),
            target_bytes: self.pages.memory_bytes(),
            headroom_bytes: book.headroom_bytes,
            turns: book.law.map_or(0, |law| law.turns),
            last: book.last.map(|(at, step)| (self.rt.now().since(at), step)),
        })
    }
}

/// The first step: a cache that is still empty takes no more than there is.
fn begun(inputs: &ElasticInputs) -> (law::Elastic, Option<Change>) {
    let to_bytes = first_bytes(inputs).min(inputs.budget_bytes);
    let change = Change {
        to_bytes,
        cause: law::Cause::Room,
    };
    let is_change = to_bytes < inputs.budget_bytes;
    (law::Elastic::begun(inputs), is_change.then_some(change))
}
