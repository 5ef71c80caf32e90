//! Volumes in a bucket without faults.

#![allow(dead_code, reason = "each test binary uses its own part")]

use forebay_volume::{
    Access, Call, Manifest, Opening, Progress, Reply, VolumeFault, Writer, Writing,
};
use std::collections::BTreeMap;

/// A bucket without faults.
#[derive(Default)]
pub(crate) struct Bucket {
    pub(crate) objects: BTreeMap<String, Vec<u8>>,
    /// Whether it replaces what is there.
    pub(crate) replaces: bool,
    /// Whether its listings are empty.
    pub(crate) lists_nothing: bool,
}

impl Bucket {
    pub(crate) fn answer(&mut self, call: Call) -> Reply {
        match call {
            Call::Make { key, bytes } => {
                if self.objects.contains_key(&key) && !self.replaces {
                    return Reply::Exists;
                }
                self.objects.insert(key, bytes.to_vec());
                Reply::Done
            }
            Call::Get { key, .. } => match self.objects.get(&key) {
                Some(bytes) => Reply::Bytes(bytes.clone()),
                None => Reply::Missing,
            },
            Call::List { .. } if self.lists_nothing => Reply::Keys(Vec::new()),
            Call::List { prefix } => {
                let keys = self
                    .objects
                    .iter()
                    .filter(|(key, _)| key.starts_with(prefix));
                Reply::Keys(
                    keys.map(|(key, bytes)| (key.clone(), bytes.len() as u64))
                        .collect(),
                )
            }
            Call::Remove { key } => {
                self.objects.remove(&key);
                Reply::Done
            }
        }
    }
}

pub(crate) fn open(bucket: &mut Bucket, writing: Writing) -> Result<Writer, VolumeFault> {
    finish(bucket, Opening::new(Access::Write(writing)))
}

pub(crate) fn finish(bucket: &mut Bucket, mut opening: Opening) -> Result<Writer, VolumeFault> {
    loop {
        let reply = bucket.answer(opening.next());
        if let Progress::Done(opened) = opening.answer(reply)? {
            return Ok(Writer::new(opened));
        }
    }
}

pub(crate) fn writing(writer: u128, length_bytes: u64) -> Writing {
    Writing {
        writer,
        who: format!("writer {writer}"),
        create: Some(Manifest::new(1, length_bytes, 1 << 20).unwrap()),
        take_over: false,
    }
}

/// A writer of an empty volume.
pub(crate) fn writer() -> Writer {
    open(&mut Bucket::default(), writing(1, 64 << 20)).unwrap()
}
