//! A bucket in memory that treats its callers in virtual time as real buckets do: it answers late
//! or not at all, refuses, and carries out calls that were given up.

use forebay_base::sync::{Arc, Mutex, lock};
use forebay_base::{Prng, Span};
use forebay_rt::Rt;
use forebay_volume::{Call, Reply};
use std::collections::BTreeMap;

/// The longest delay of a call that nobody waits for any more.
const LATEST_US: u64 = 2_000_000;

/// See above.
pub(super) struct BucketSim {
    rt: Rt,
    state: Mutex<State>,
}

struct State {
    objects: BTreeMap<String, Vec<u8>>,
    chance: Prng,
    most_us: u64,
    is_calm: bool,
    is_over: bool,
}

/// What becomes of a call.
enum Fate {
    Answered,
    /// Slow down, or a 409: not done.
    Refused,
    /// Done, and the reply is lost.
    ReplyLost,
    /// Done this much later.
    Late(Span),
}

impl BucketSim {
    /// A call takes up to `most_us`.
    pub(super) fn new(rt: Rt, chance: Prng, most_us: u64) -> Arc<BucketSim> {
        Arc::new(BucketSim {
            rt,
            state: Mutex::new(State {
                objects: BTreeMap::new(),
                chance,
                most_us,
                is_calm: false,
                is_over: false,
            }),
        })
    }

    /// The world ends.
    pub(super) fn stop(&self) {
        lock(&self.state).is_over = true;
    }

    pub(super) fn is_over(&self) -> bool {
        lock(&self.state).is_over
    }

    /// From now on every call is answered.
    pub(super) fn calm(&self) {
        lock(&self.state).is_calm = true;
    }

    /// Answers `call`, or not.
    pub(super) async fn ask(self: &Arc<BucketSim>, call: Call) -> Reply {
        let (there, back, fate) = lock(&self.state).draw();
        self.rt.sleep(there).await;
        let reply = match fate {
            Fate::Answered => lock(&self.state).act(call),
            Fate::Refused => Reply::Unknown,
            Fate::ReplyLost => {
                lock(&self.state).act(call);
                Reply::Unknown
            }
            Fate::Late(span) => {
                let bucket = self.clone();
                // The caller may be gone by then.
                self.rt.spawn("late call", async move {
                    bucket.rt.sleep(span).await;
                    lock(&bucket.state).act(call);
                });
                Reply::Unknown
            }
        };
        self.rt.sleep(back).await;
        reply
    }
}

impl State {
    fn draw(&mut self) -> (Span, Span, Fate) {
        let most_us = self.most_us;
        let mut way = || Span::from_micros(self.chance.below(most_us));
        let (there, back) = (way(), way());
        let fate = match self.chance.below(24) {
            _ if self.is_calm => Fate::Answered,
            0 => Fate::Refused,
            1 => Fate::ReplyLost,
            2 => Fate::Late(Span::from_micros(self.chance.below(LATEST_US))),
            _ => Fate::Answered,
        };
        (there, back, fate)
    }

    fn act(&mut self, call: Call) -> Reply {
        match call {
            Call::Make { key, bytes } => {
                if self.objects.contains_key(&key) {
                    return Reply::Exists;
                }
                self.objects.insert(key, bytes.to_vec());
                Reply::Done
            }
            Call::Remove { key } => match self.objects.remove(&key) {
                Some(_) => Reply::Done,
                None => Reply::Missing,
            },
            Call::Get { key, range } => self.objects.get(&key).map_or(Reply::Missing, |bytes| {
                let range = range.unwrap_or(0..bytes.len() as u64);
                let end = bytes.len().min(range.end as usize);
                let start = end.min(range.start as usize);
                Reply::Bytes(bytes[start..end].to_vec())
            }),
            Call::List { prefix } => {
                let named = self.objects.iter();
                let under = named.filter(|(key, _)| key.starts_with(prefix));
                let keys = under.map(|(key, bytes)| (key.clone(), bytes.len() as u64));
                Reply::Keys(keys.collect())
            }
        }
    }
}
