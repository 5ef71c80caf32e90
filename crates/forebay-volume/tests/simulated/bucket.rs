//! A bucket in memory that does what buckets do to their users.

use forebay_base::Prng;
use forebay_volume::{Call, Reply};
use std::collections::BTreeMap;

/// Objects, and calls that will be carried out later.
pub(crate) struct Bucket {
    objects: BTreeMap<String, Vec<u8>>,
    /// Their askers have given up on them.
    late: Vec<Call>,
    prng: Prng,
}

impl Bucket {
    pub(crate) fn new(prng: Prng) -> Bucket {
        Bucket {
            objects: BTreeMap::new(),
            late: Vec::new(),
            prng,
        }
    }

    /// Answers `call`, or not.
    pub(crate) fn call(&mut self, call: Call) -> Reply {
        if !self.late.is_empty() && self.prng.chance(1, 8) {
            let at = self.prng.below(self.late.len() as u64) as usize;
            let late = self.late.swap_remove(at);
            self.act(&late);
        }
        match self.prng.below(16) {
            // Slow down, or a 409: not done.
            0 => Reply::Unknown,
            // Done, and the reply is lost.
            1 | 2 => {
                self.act(&call);
                Reply::Unknown
            }
            // Done after its asker has gone on.
            3 => {
                self.late.push(call);
                Reply::Unknown
            }
            _ => self.act(&call),
        }
    }

    /// Carries out all that is late.
    pub(crate) fn settle(&mut self) {
        for late in std::mem::take(&mut self.late) {
            self.act(&late);
        }
    }

    /// The object `key`, without any fault.
    pub(crate) fn peek(&self, key: &str) -> Option<&[u8]> {
        self.objects.get(key).map(Vec::as_slice)
    }

    /// Answers `call` without any fault.
    pub(crate) fn answer(&self, call: &Call) -> Reply {
        match call {
            Call::Get { key, range } => match self.objects.get(key) {
                None => Reply::Missing,
                Some(bytes) => {
                    let range = range.clone().unwrap_or(0..bytes.len() as u64);
                    Reply::Bytes(bytes[range.start as usize..range.end as usize].to_vec())
                }
            },
            Call::List { prefix } => {
                let under = self.objects.range((*prefix).to_owned()..);
                let under = under.take_while(|(key, _)| key.starts_with(prefix));
                let keys = under.map(|(key, bytes)| (key.clone(), bytes.len() as u64));
                Reply::Keys(keys.collect())
            }
            Call::Make { .. } | Call::Remove { .. } => unreachable!("this one changes the bucket"),
        }
    }

    fn act(&mut self, call: &Call) -> Reply {
        match call {
            Call::Make { key, bytes } => {
                if self.objects.contains_key(key) {
                    return Reply::Exists;
                }
                self.objects.insert(key.clone(), bytes.to_vec());
                Reply::Done
            }
            Call::Remove { key } => match self.objects.remove(key) {
                Some(_) => Reply::Done,
                None => Reply::Missing,
            },
            _ => self.answer(call),
        }
    }
}
