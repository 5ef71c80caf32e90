//! Faults: what goes wrong with a store, as data.

use forebay_base::{Instant, Prng, Span};
use forebay_store::{Failure, IoKind};
use std::ops::Range;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It fails and changes nothing.
    Fail(Failure),
    /// Some sectors of a write are written, then it fails.
    Torn(Failure),
    /// A write or read is carried out with its pages in each other's places, then it fails.
    Misdirected(Failure),
    /// It waits until the faults end.
    Never,
    /// It takes this much longer.
    Late(Span),
    /// As long as this lasts, no request finishes.
    Stopped,
    /// As long as this lasts, every request takes this many times as long.
    Slowed(u64),
    /// The store restarts and forgets writes that were not committed.
    Restart,
}

impl Effect {
    /// Its name in the results, when it strikes a request of this kind.
    pub(super) fn name(self, kind: IoKind) -> &'static str {
        match self {
            Effect::Fail(_) if kind == IoKind::Commit => "failed commit",
            Effect::Fail(_) if kind == IoKind::Read => "failed read",
            Effect::Fail(Failure::NoSpace) => "full",
            Effect::Fail(_) => "failed",
            Effect::Torn(_) => "torn",
            Effect::Misdirected(_) => "misdirected",
            Effect::Never => "unanswered",
            Effect::Late(_) => "late",
            Effect::Stopped => "stopped",
            Effect::Slowed(_) => "slowed",
            Effect::Restart => "restarted",
        }
    }

    pub(super) fn fails(self) -> bool {
        matches!(
            self,
            Effect::Fail(_) | Effect::Torn(_) | Effect::Misdirected(_) | Effect::Restart
        )
    }

    pub(super) fn delays(self) -> bool {
        matches!(
            self,
            Effect::Never | Effect::Late(_) | Effect::Stopped | Effect::Slowed(_)
        )
    }
}

/// Which requests of one store go wrong, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Only requests of this kind.
    pub(super) kind: Option<IoKind>,
    /// While the clock is here.
    pub(super) window: Range<Instant>,
    /// One request in this many.
    pub(super) one_in: u64,
    /// At most this many requests.
    pub(super) most: u64,
    pub(super) effect: Effect,
}

impl Fault {
    /// Draws a fault that a cache survives. `crashes` says that the run ends in a crash: no cache
    /// survives that together with bytes in the wrong place.
    pub(super) fn draw(chance: &mut Prng, crashes: bool, may_restart: bool) -> Fault {
        let start = Instant::ZERO + Span::from_millis(chance.below(3_000));
        let window = match chance.below(3) {
            0 => start..start + Span::from_millis(1 + chance.below(500)),
            1 => start..start + Span::from_secs(1 + chance.below(60)),
            _ => Instant::ZERO..Instant::NEVER,
        };
        let failure =
            [Failure::Device(5), Failure::NoSpace, Failure::NoAnswer][chance.below(3) as usize];
        let short = start..start + Span::from_millis(100 + chance.below(8_000));
        let kinds = [
            Some(IoKind::Write),
            Some(IoKind::Read),
            Some(IoKind::Commit),
            None,
        ];
        let kind = kinds[chance.below(4) as usize];
        let mut fault = Fault {
            kind,
            window,
            one_in: 1 + chance.below(20),
            most: [1, 3, u64::MAX][chance.below(3) as usize],
            effect: Effect::Fail(failure),
        };
        match chance.below(12) {
            0..=2 => {}
            3 => (fault.kind, fault.effect) = (Some(IoKind::Write), Effect::Torn(failure)),
            4 if !crashes => {
                fault.kind = [Some(IoKind::Write), Some(IoKind::Read)][chance.below(2) as usize];
                fault.effect = Effect::Misdirected(failure);
            }
            4 | 5 => {
                fault.effect = Effect::Never;
                fault.most = 1 + chance.below(4);
            }
            6 => fault.effect = Effect::Late(Span::from_millis(1 + chance.below(3_000))),
            7 => (fault.window, fault.effect) = (short, Effect::Stopped),
            8 => (fault.window, fault.effect) = (short, Effect::Slowed(2 + chance.below(30))),
            9 => {
                // A store that is full, and has room again later.
                fault.kind = Some(IoKind::Write);
                fault.effect = Effect::Fail(Failure::NoSpace);
                (fault.one_in, fault.most) = (1, u64::MAX);
            }
            10 => {
                fault.kind = Some(IoKind::Commit);
                fault.one_in = 1 + chance.below(4);
            }
            _ if may_restart => {
                (fault.kind, fault.effect) = (None, Effect::Restart);
                (fault.one_in, fault.most) = (1 + chance.below(60), 1 + chance.below(3));
            }
            _ => fault.one_in = 1,
        }
        if matches!(fault.effect, Effect::Stopped | Effect::Slowed(_)) {
            (fault.kind, fault.one_in, fault.most) = (None, 1, u64::MAX);
        }
        fault
    }

    /// Whether it strikes a request that is submitted at `now`.
    pub(super) fn strikes(&mut self, kind: IoKind, now: Instant, chance: &mut Prng) -> bool {
        let concerned = self.kind.is_none_or(|of| of == kind) && self.window.contains(&now);
        if !concerned || self.most == 0 || !chance.chance(1, self.one_in) {
            return false;
        }
        self.most = self.most.saturating_sub(u64::from(self.most != u64::MAX));
        true
    }
}
