//! A copy of a volume in another place, and the removal of a volume.

use crate::abreast::abreast;
use crate::asker::{Asker, Tries};
use crate::bucket::Bucket;
use crate::check::Item;
use crate::store::BucketError;
use crate::upkeep::asker;
use forebay_base::sync::{Mutex, lock};
use forebay_rt::fresh_number;
use forebay_volume::{
    Access, Append, Appended, Call, Collected, DATA_PREFIX, LOG_PREFIX, MANIFEST_KEY, MAP_PREFIX,
    MAPPED, MAPPED_KEY, Opened, PROBE_PREFIX, Reply, TWIN_PREFIX, Twin, VolumeFault, Writer,
    Writing, map_key,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far a copy or a removal is: objects that are done, and all of them.
pub type Progress = dyn Fn(u64, u64) + Send + Sync + 'static;

/// What became of one item of a volume.
enum Outcome {
    Copied(Collected),
    /// The object with this key is not there any more.
    Missing(String),
}

/// Copies the volume in `from`, as of its last record, to `to`, where none may be. Its writer may
/// go on meanwhile. The copy counts as closed, and its manifest is made last: what was interrupted
/// is no volume, and can be begun again.
///
/// # Errors
/// [`BucketError::Occupied`] if there is a volume already, or objects of another one.
pub fn copy(
    from: Arc<dyn Bucket>,
    to: Arc<dyn Bucket>,
    progress: &Arc<Progress>,
) -> Result<Collected, BucketError> {
    let (from, to) = (Arc::new(asker(from)), Arc::new(asker(to)));
    if to.object(MANIFEST_KEY)?.is_some() {
        return Err(BucketError::Occupied);
    }
    let mut before = None;
    let copied = loop {
        let opened = from.open(Access::Read)?;
        let number = opened.map.number();
        match copy_state(&from, &to, opened, progress)? {
            Outcome::Copied(copied) => break copied,
            // A collector has passed. What was copied stays useful, for objects never change.
            Outcome::Missing(_) if before != Some(number) => before = Some(number),
            Outcome::Missing(key) => return Err(VolumeFault::Missing { key }.into()),
        }
    };
    let access = Access::Write(Writing {
        writer: fresh_number()?,
        who: "a copy".to_owned(),
        create: None,
        take_over: true,
    });
    to.leave(Writer::new(to.open(access)?));
    Ok(copied)
}

/// Removes the volume in `bucket` and everything of it. Unless it `is_forced`, a volume that
/// another writer has, or that cannot be opened, stays.
///
/// # Errors
/// [`BucketError`]. What was removed until then is gone.
pub fn remove(
    bucket: Arc<dyn Bucket>,
    is_forced: bool,
    progress: &Arc<Progress>,
) -> Result<Collected, BucketError> {
    let asker = Arc::new(asker(bucket));
    if !is_forced {
        let access = Access::Write(Writing {
            writer: fresh_number()?,
            who: "a removal".to_owned(),
            create: None,
            take_over: false,
        });
        asker.open(access)?;
    }
    let mut keys = Vec::new();
    let prefixes = [
        DATA_PREFIX,
        MAP_PREFIX,
        TWIN_PREFIX,
        LOG_PREFIX,
        PROBE_PREFIX,
    ];
    for prefix in prefixes {
        keys.extend(asker.list(prefix)?);
    }
    let mut removed = Collected {
        objects: keys.len() as u64,
        bytes: keys.iter().map(|(_, bytes)| bytes).sum(),
    };
    let (left, all) = (asker.clone(), removed.objects);
    let (done, progress) = (AtomicU64::new(0), progress.clone());
    let ends = abreast(keys, move |(key, _)| {
        let end = left.remove_at_last(key);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
        end
    })?;
    ends.into_iter().collect::<Result<(), _>>()?;
    // A removal that was interrupted goes on for as long as this one is there.
    for key in [MAPPED_KEY, MANIFEST_KEY] {
        removed.objects += u64::from(asker.object(key)?.is_some());
        asker.remove_at_last(key.to_owned())?;
    }
    Ok(removed)
}

/// Copies all that `opened` consists of, and the manifest at the end.
fn copy_state(
    from: &Arc<Asker>,
    to: &Arc<Asker>,
    opened: Opened,
    progress: &Arc<Progress>,
) -> Result<Outcome, BucketError> {
    let items = from.items(&opened)?;
    let has_all_records = records_of(&items).eq(1..=opened.map.number());
    let manifest = opened.manifest;
    drop(opened);
    let (all, done) = (items.len() as u64, AtomicU64::new(0));
    let (reader, maker, progress) = (from.clone(), to.clone(), progress.clone());
    let outcomes = abreast(items, move |item| {
        let outcome = reader.copy_item(&maker, &item);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
        outcome
    })?;
    let mut sum = Collected::default();
    for outcome in outcomes {
        match outcome? {
            Outcome::Copied(copied) => {
                sum.objects += copied.objects;
                sum.bytes += copied.bytes;
            }
            missing @ Outcome::Missing(_) => return Ok(missing),
        }
    }
    if !has_all_records {
        to.make(MAPPED_KEY.to_owned(), MAPPED.to_vec())?;
        sum.objects += 1;
    }
    to.make(MANIFEST_KEY.to_owned(), manifest.encode())?;
    sum.objects += 1;
    Ok(Outcome::Copied(sum))
}

/// The records of `items`, which has them in order.
fn records_of(items: &[Item]) -> impl Iterator<Item = u64> + '_ {
    items.iter().filter_map(|item| match item {
        Item::Record(number, _) => Some(*number),
        _ => None,
    })
}

impl Asker {
    fn copy_item(&self, to: &Asker, item: &Item) -> Result<Outcome, BucketError> {
        let keys = match item {
            Item::Chunk(object, _) => vec![object.name.to_string()],
            Item::Record(number, _) => Twin::BOTH.map(|twin| twin.key(*number)).to_vec(),
            Item::Map(number) => vec![map_key(*number)],
            Item::Mapped => Vec::new(),
        };
        let (mut copied, mut missing) = (Collected::default(), None);
        let needed = keys.len().min(1) as u64;
        for key in keys {
            let Some(bytes) = self.object(&key)? else {
                missing = Some(key);
                continue;
            };
            if let Item::Chunk(object, length_bytes) = item {
                object.check(&bytes, *length_bytes)?;
            }
            copied.objects += 1;
            copied.bytes += bytes.len() as u64;
            to.make(key, bytes)?;
        }
        // Records of older programs have one copy, and so may the last one.
        match missing {
            Some(key) if copied.objects < needed => Ok(Outcome::Missing(key)),
            _ => Ok(Outcome::Copied(copied)),
        }
    }

    fn make(&self, key: String, bytes: Vec<u8>) -> Result<(), BucketError> {
        match self.append(&mut Append::new(key, bytes))? {
            Appended::Ours => Ok(()),
            Appended::Theirs => Err(BucketError::Occupied),
        }
    }

    /// Leaves a volume to others.
    fn leave(&self, mut writer: Writer) {
        writer.close();
        let writer = Mutex::new(writer);
        // If that fails, the next writer has to take it over.
        for twin in Twin::BOTH {
            let answer = |reply| lock(&writer).answer(twin, reply);
            let _ = self.record(|| lock(&writer).next(twin), answer);
        }
    }

    fn remove_at_last(&self, key: String) -> Result<(), BucketError> {
        let (call, mut tries) = (Call::Remove { key }, Tries::begin());
        while matches!(self.ask(&call, &mut tries)?, Reply::Unknown) {}
        Ok(())
    }
}
