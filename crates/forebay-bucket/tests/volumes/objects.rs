//! The objects of a bucket, looked at and changed behind the back of its volume.

use forebay_bucket::{Bucket, CallError};
use forebay_volume::{
    Call, DATA_PREFIX, LOG_PREFIX, MANIFEST_KEY, MAP_PREFIX, MAPPED_KEY, Reply, TWIN_PREFIX,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The objects of a bucket, by their keys.
pub(crate) type Objects = BTreeMap<String, Vec<u8>>;

/// A bucket whose listings leave out one key.
pub(crate) struct Hiding {
    pub(crate) inner: Arc<dyn Bucket>,
    pub(crate) key: String,
}

impl Bucket for Hiding {
    fn ask(&self, call: &Call) -> Result<Reply, CallError> {
        let mut reply = self.inner.ask(call)?;
        if let Reply::Keys(keys) = &mut reply {
            keys.retain(|(key, _)| *key != self.key);
        }
        Ok(reply)
    }
}

pub(crate) fn ask(bucket: &Arc<dyn Bucket>, call: &Call) -> Reply {
    bucket.ask(call).expect("it answers")
}

pub(crate) fn get(bucket: &Arc<dyn Bucket>, key: &str) -> Option<Vec<u8>> {
    let key = key.to_owned();
    match ask(bucket, &Call::Get { key, range: None }) {
        Reply::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

pub(crate) fn remove(bucket: &Arc<dyn Bucket>, key: &str) {
    let key = key.to_owned();
    ask(bucket, &Call::Remove { key });
}

pub(crate) fn make(bucket: &Arc<dyn Bucket>, key: &str, bytes: &[u8]) {
    let (key, bytes) = (key.to_owned(), Arc::new(bytes.to_vec()));
    assert_eq!(ask(bucket, &Call::Make { key, bytes }), Reply::Done);
}

pub(crate) fn objects(bucket: &Arc<dyn Bucket>) -> Objects {
    let mut keys = vec![MANIFEST_KEY.to_owned(), MAPPED_KEY.to_owned()];
    for prefix in [LOG_PREFIX, TWIN_PREFIX, MAP_PREFIX, DATA_PREFIX] {
        match ask(bucket, &Call::List { prefix }) {
            Reply::Keys(listed) => keys.extend(listed.into_iter().map(|(key, _)| key)),
            other => panic!("{other:?}"),
        }
    }
    let found = keys.into_iter().filter_map(|key| {
        let bytes = get(bucket, &key)?;
        Some((key, bytes))
    });
    found.collect()
}

/// Makes the bucket what it was.
pub(crate) fn reset(bucket: &Arc<dyn Bucket>, was: &Objects) {
    let is = objects(bucket);
    for key in is.keys().filter(|&key| was.get(key) != is.get(key)) {
        remove(bucket, key);
    }
    for (key, bytes) in was.iter().filter(|&(key, _)| was.get(key) != is.get(key)) {
        make(bucket, key, bytes);
    }
}
