//! Shares: writers of one store that ask for the same get the same, and one that asks for less gets
//! what it asks for. The number of writers and the size of a call do not matter (spec/writeback.md
//! 5.2: a writer is checked when its quota is used up).
//!
//! Shares are judged over minutes, in which a run would do too much else. In half of these worlds
//! nothing goes wrong. In the other half writes of the store fail now and then, or another store
//! never answers its writer, and the shares have to be the same.

use super::scene::{Crew, Moment, Observer, Scene, SceneIo, Site, judge};
use super::verdict::{Oracle, Violation};
use forebay_base::{Prng, Span};
use forebay_store::{Failure, Fault, FaultAction, FaultWhen, IoKind};

/// The rates have settled after this time.
const WARM_UP: Span = Span::from_secs(20);
/// Shares are compared over this time.
const WINDOW_S: u64 = 60;
/// The least value of Jain's index that passes, in thousandths. For equal shares it is 1.
const LEAST_JAIN: u64 = 990;
/// The least share that a light writer gets of what it asks for, in percent.
const LEAST_LIGHT_PERCENT: u64 = 90;
/// One write in this many fails, if writes of the store fail.
const FAILS_ONE_IN: u64 = 50;

/// What is judged.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    writers: u64,
    /// What each of them writes in a call.
    call_pages: u64,
    /// What the store takes from each of them.
    share_pages_per_s: u64,
    trouble: Trouble,
}

/// What goes wrong meanwhile.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    None,
    /// Some writes of the store fail.
    Failures,
    /// Another store answers no write.
    SilentStore,
    /// Another store refuses every write. No seed draws it.
    #[cfg(test)]
    RefusingStore,
}

impl Crowd {
    fn draw(seed: u64) -> Crowd {
        let root = Prng::from_seed(seed);
        let mut chance = root.child("shares");
        Crowd {
            writers: 40 + chance.below(60),
            call_pages: 1 << (2 * chance.below(5)),
            share_pages_per_s: 40 + chance.below(60),
            trouble: Trouble::draw(&mut root.child("trouble of shares")),
        }
    }
}

impl Trouble {
    fn draw(chance: &mut Prng) -> Trouble {
        match chance.below(4) {
            0 => Trouble::Failures,
            1 => Trouble::SilentStore,
            _ => Trouble::None,
        }
    }

    /// What happens to writes of the store with the crowd.
    fn here(self) -> Option<Fault> {
        let fails = Fault::each(IoKind::Write, FaultAction::Fail(Failure::Device(5)));
        let when = FaultWhen::Chance {
            numerator: 1,
            denominator: FAILS_ONE_IN,
        };
        matches!(self, Trouble::Failures).then_some(Fault { when, ..fails })
    }

    /// What happens to all writes of another store.
    fn elsewhere(self) -> Option<FaultAction> {
        match self {
            Trouble::None | Trouble::Failures => None,
            Trouble::SilentStore => Some(FaultAction::NeverAnswer),
            #[cfg(test)]
            Trouble::RefusingStore => Some(FaultAction::Fail(Failure::Device(5))),
        }
    }
}

/// What the oracle of shares finds.
pub(super) fn judge_shares(seed: u64) -> Option<Violation> {
    judge_crowd(seed, Crowd::draw(seed))
}

fn judge_crowd(seed: u64, crowd: Crowd) -> Option<Violation> {
    let shares = Shares {
        crowd,
        written: vec![0; crowd.writers as usize + 1],
        before: None,
    };
    judge(seed, &scene(crowd), shares)
}

/// The store of the crowd, and perhaps one in trouble.
fn scene(crowd: Crowd) -> Scene {
    let writers = |tasks, call_pages, rest| Crew {
        rest,
        may_fail: true,
        ..Crew::of("sharer", tasks, call_pages)
    };
    let heavy = writers(crowd.writers, crowd.call_pages, Span::ZERO);
    // It asks for a quarter of an equal share.
    let light = writers(1, 1, Span::from_micros(4_000_000 / crowd.share_pages_per_s));
    let pages_per_s = (crowd.writers + 1) * crowd.share_pages_per_s;
    let here = Site {
        faults: crowd.trouble.here().into_iter().collect(),
        ..Site::of(pages_per_s, vec![heavy, light])
    };
    let elsewhere = crowd.trouble.elsewhere().map(|action| Site {
        faults: vec![Fault::each(IoKind::Write, action)],
        ..Site::unlimited(vec![writers(1, 16, Span::ZERO)])
    });
    let sites = [here].into_iter().chain(elsewhere).collect();
    let length = WARM_UP + Span::from_secs(WINDOW_S);
    Scene {
        look: Span::from_secs(1),
        ..Scene::of(128 << 20, sites, length)
    }
}

/// The oracle: what each writer of the crowd has written, the light one last.
struct Shares {
    crowd: Crowd,
    written: Vec<u64>,
    /// The same at the beginning of the window.
    before: Option<Vec<u64>>,
}

impl Observer for Shares {
    fn io(&mut self, _moment: &Moment<'_>, io: SceneIo<'_>) -> Option<Violation> {
        if let SceneIo::CallEnds(call, true) = io
            && call.store == 0
        {
            self.written[call.object.0 as usize] += call.pages.end - call.pages.start;
        }
        None
    }

    /// Compares what the writers got in the window, at its end.
    fn look(&mut self, moment: &Moment<'_>) -> Option<Violation> {
        let passed = Span::from_nanos(moment.now.as_nanos());
        if passed < WARM_UP {
            return None;
        }
        let before = self.before.get_or_insert_with(|| self.written.clone());
        if passed < WARM_UP + Span::from_secs(WINDOW_S) {
            return None;
        }
        let got = self.written.iter().zip(before);
        let shares: Vec<u64> = got.map(|(now, before)| now - *before).collect();
        let (light, heavy) = shares.split_last()?;
        let asked = WINDOW_S * self.crowd.share_pages_per_s / 4;
        let what = unequal(heavy).or_else(|| held_back(*light, asked))?;
        let crowd = self.crowd;
        Some(Oracle::Shares.finds(format!("{what} ({crowd:?}; spec/writeback.md 5.2)")))
    }
}

/// What is wrong with the shares of equal writers.
fn unequal(shares: &[u64]) -> Option<String> {
    let sum: u64 = shares.iter().sum();
    let squares: u64 = shares.iter().map(|share| share * share).sum();
    let jain = 1_000 * sum * sum / (shares.len() as u64 * squares).max(1);
    let (least, most) = (shares.iter().min()?, shares.iter().max()?);
    (jain < LEAST_JAIN).then(|| {
        format!("equal writers got {least} to {most} pages, Jain's index is {jain} thousandths")
    })
}

/// What is wrong with the share of a light writer.
fn held_back(got: u64, asked: u64) -> Option<String> {
    (got * 100 < asked * LEAST_LIGHT_PERCENT)
        .then(|| format!("a light writer got {got} of {asked} pages"))
}

#[cfg(test)]
mod tests {
    use super::{Crowd, Trouble, held_back, judge_crowd, judge_shares, unequal};
    use std::collections::BTreeSet;

    #[test]
    fn shares_that_differ_are_found_and_equal_ones_are_not() {
        assert_eq!(unequal(&[100, 101, 99, 100]), None);
        let found = unequal(&[100, 10, 100, 100]).expect("one got a tenth");
        assert!(found.contains("10 to 100"), "{found}");
        assert!(unequal(&[0, 0]).is_some(), "nobody got anything");
        assert_eq!(held_back(95, 100), None);
        assert!(held_back(2, 100).is_some());
    }

    #[test]
    fn crowds_share_alike() {
        for seed in 0..6 {
            assert_eq!(judge_shares(seed), None);
        }
    }

    #[test]
    fn crowds_share_alike_while_something_goes_wrong() {
        // One for each trouble.
        let mut tried = BTreeSet::new();
        for seed in 0..40 {
            let trouble = format!("{:?}", Crowd::draw(seed).trouble);
            if trouble != "None" && tried.insert(trouble) {
                assert_eq!(judge_shares(seed), None);
            }
        }
        assert_eq!(tried.len(), 2);
    }

    /// Refused writes once counted as writes that had ended. The refusing store then had 86 % of
    /// the limit, and writers of the other store got 2,304 to 5,120 pages.
    #[test]
    fn crowds_share_alike_while_another_store_refuses_every_write() {
        let crowd = Crowd {
            writers: 51,
            call_pages: 256,
            share_pages_per_s: 55,
            trouble: Trouble::RefusingStore,
        };
        assert_eq!(judge_crowd(0, crowd), None);
    }
}
