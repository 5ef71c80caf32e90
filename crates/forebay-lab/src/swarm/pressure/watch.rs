//! The watch: events, calls and looks of a world of short memory, and the findings of the oracle of
//! reclaim.

use super::super::scene::{Moment, Observer, SceneIo};
use super::super::verdict::{Oracle, Violation};
use super::callers::Callers;
use super::keeper::Keeper;
use super::load::Load;
use super::writeback::Written;
use forebay_base::Span;
use forebay_engine::Statistics;
use forebay_engine::event::Event;
use forebay_engine::lab::LabCache;
use forebay_engine::statistics::ZoneStatistics;
use forebay_law::throttle::ThrottleReason;
use forebay_store::IoKind;

/// The number of looks for each look at the marks of all pages.
const LOOKS_AT_MARKS: u64 = 8;

/// See above.
#[derive(Debug)]
pub(super) struct Watch {
    keepers: Vec<Keeper>,
    written: Written,
    callers: Callers,
    /// The store of the readers, and that of swap.
    read: usize,
    swap: Option<usize>,
    looks: u64,
}

impl Watch {
    pub(super) fn new(load: &Load) -> Watch {
        Watch {
            keepers: vec![Keeper::default(); load.scene.settings.nodes.len()],
            written: Written::default(),
            callers: Callers::default(),
            read: load.read_store(),
            swap: load.anonymous.is_some().then_some(1),
            looks: 0,
        }
    }

    /// Looks at zones and callers.
    fn judge(&mut self, moment: &Moment<'_>) -> Option<String> {
        let (now, seen) = (moment.now, moment.statistics());
        let flags = moment.cache.check_flags();
        for (node, keeper) in self.keepers.iter_mut().enumerate() {
            let what = keeper.look(now, &zones_of(seen, node));
            if what.is_some() {
                return what;
            }
            let is_its = |said: &&String| said.starts_with(&format!("node {node} "));
            if keeper.is_at_rest()
                && let Some(said) = flags.iter().find(is_its)
            {
                let now_ms = now.as_millis();
                return Some(format!("at {now_ms} ms {said} (spec/reclaim.md 4.6)"));
            }
        }
        let is_swapping = |swap: usize| seen.backings[swap].writes_in_flight > 0;
        let is_swapping = self.swap.is_some_and(is_swapping);
        self.callers.look(now, &seen.zones, is_swapping)
    }

    /// Looks at the marks of all pages.
    fn judge_marks(moment: &Moment<'_>) -> Option<String> {
        let what = moment.cache.check_marks().into_iter().next()?;
        let now_ms = moment.now.as_millis();
        Some(format!("at {now_ms} ms {what} (spec/reclaim.md)"))
    }

    fn kswapd_sleeps(&mut self, moment: &Moment<'_>, node: usize) -> Option<String> {
        let what = self.keepers[node].sleeps(&zones_of(moment.statistics(), node));
        what.map(|what| format!("node {node}: {what}"))
    }
}

fn zones_of(seen: &Statistics, node: usize) -> Vec<&ZoneStatistics> {
    let zones = seen.zones.iter();
    zones
        .filter(|zone| zone.node == node && zone.managed > 0)
        .collect()
}

impl Observer for Watch {
    fn event(&mut self, moment: &Moment<'_>, event: &Event) -> Option<Violation> {
        let what = match *event {
            Event::MmVmscanKswapdWake { nid, .. } => {
                self.keepers[nid].wakes();
                None
            }
            Event::MmVmscanKswapdSleep { nid } => self.kswapd_sleeps(moment, nid),
            Event::MmVmscanLruShrinkInactive {
                nid, nr_reclaimed, ..
            } if nr_reclaimed > 0 => {
                self.keepers[nid].frees_pages();
                None
            }
            Event::MmVmscanThrottled {
                usec_timeout,
                usec_delayed,
                reason: ThrottleReason::Writeback,
                is_kswapd: true,
                ..
            } if self.keepers.len() == 1 => {
                let [timeout, delayed] = [usec_timeout, usec_delayed].map(Span::from_micros);
                self.written.waited(moment.now, timeout, delayed)
            }
            Event::MmVmscanThrottled {
                is_kswapd: false, ..
            } => {
                self.callers.throttled();
                None
            }
            Event::MmVmscanWriteFolio { is_file: true, .. } => {
                Some("reclaim wrote a file page (spec/reclaim.md 3.3 h, I-12)".to_owned())
            }
            _ => None,
        };
        Some(Oracle::Reclaim.finds(what?))
    }

    fn io(&mut self, moment: &Moment<'_>, io: SceneIo<'_>) -> Option<Violation> {
        match io {
            SceneIo::CallBegins(call) if call.store == self.read => {
                self.callers.call_begins(call.object.0);
            }
            SceneIo::CallEnds(call, _) if call.store == self.read => {
                self.callers.call_ends(call.object.0);
            }
            SceneIo::RequestEnds(request, _) if request.is.kind == IoKind::Write => {
                self.written.ends(moment.now, request.written_pages());
            }
            _ => {}
        }
        None
    }

    fn look(&mut self, moment: &Moment<'_>) -> Option<Violation> {
        self.looks += 1;
        let what = self.judge(moment).or_else(|| {
            let is_due = self.looks.is_multiple_of(LOOKS_AT_MARKS);
            is_due.then(|| Watch::judge_marks(moment)).flatten()
        });
        Some(Oracle::Reclaim.finds(what?))
    }
}
