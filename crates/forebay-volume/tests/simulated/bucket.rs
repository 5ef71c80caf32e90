//! A bucket in memory that does what buckets do to their users.

#![allow(dead_code, reason = "each test file uses a part")]

use forebay_base::Prng;
use forebay_volume::{Call, Manifest, PageCodec, Reply, VolumeKey};
use std::collections::BTreeMap;

/// Objects, and calls that will be carried out later.
pub(crate) struct Bucket {
    /// The volume in it, and what its pages are put into objects with.
    pub(crate) manifest: Manifest,
    pub(crate) codec: PageCodec,
    objects: BTreeMap<String, Vec<u8>>,
    /// Their askers have given up on them.
    late: Vec<Call>,
    /// What was removed, as it was.
    removed: BTreeMap<String, Vec<u8>>,
    /// No listing names it.
    hidden: Option<String>,
    prng: Prng,
}

impl Bucket {
    pub(crate) fn new(manifest: Manifest, prng: Prng) -> Bucket {
        let key = VolumeKey::new([9; 32]);
        Bucket {
            manifest,
            codec: PageCodec::new(&manifest, Some(&key)).expect("it has a key"),
            objects: BTreeMap::new(),
            late: Vec::new(),
            removed: BTreeMap::new(),
            hidden: None,
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
                let under = under.filter(|(key, _)| self.hidden.as_ref() != Some(key));
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
                Some(bytes) => {
                    self.removed.insert(key.clone(), bytes);
                    Reply::Done
                }
                None => Reply::Missing,
            },
            _ => self.answer(call),
        }
    }

    /// The keys of all objects, or of those that were removed.
    pub(crate) fn keys(&self, removed: bool) -> impl Iterator<Item = &str> {
        let objects = if removed {
            &self.removed
        } else {
            &self.objects
        };
        objects.keys().map(String::as_str)
    }

    /// Takes an object away.
    pub(crate) fn lose(&mut self, key: &str) -> Vec<u8> {
        self.objects.remove(key).expect("it is there")
    }

    /// An object is there again; false if another one has its key.
    pub(crate) fn put_back(&mut self, key: &str, bytes: &[u8]) -> bool {
        *self
            .objects
            .entry(key.to_owned())
            .or_insert_with(|| bytes.to_vec())
            == bytes
    }

    /// An object that was removed is there again.
    pub(crate) fn restore(&mut self, key: &str) {
        let bytes = self.removed[key].clone();
        self.put_back(key, &bytes);
    }

    /// Leaves an object out of listings, and no other.
    pub(crate) fn hide(&mut self, key: Option<&str>) {
        self.hidden = key.map(str::to_owned);
    }
}
