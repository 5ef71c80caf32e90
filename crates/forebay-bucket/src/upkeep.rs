//! What is done to a volume beside serving it: looked at, checked, freed of what nobody needs.

use crate::asker::{Asker, Tries};
use crate::bucket::Bucket;
use crate::store::BucketError;
use forebay_base::Span;
use forebay_volume::{
    Access, Call, Collected, Collecting, DATA_PREFIX, LOG_PREFIX, MAP_PREFIX, Manifest, Map,
    PAGE_BYTES, Progress, Reply, VolumeFault, crc32c, log_key, unneeded,
};
use std::sync::Arc;

const ANSWER_TIMEOUT: Span = Span::from_secs(30);

/// What can be said of a volume without reading its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// What never changes.
    pub manifest: Manifest,
    /// Everything as of the last record.
    pub map: Map,
    /// Objects, and their bytes.
    pub objects: u64,
    /// Bytes of all objects.
    pub bytes: u64,
    /// What [`collect`] would free now.
    pub unneeded: Collected,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Objects with chunks that were read and are whole, and pages in records.
    pub chunks: u64,
    /// Pages in records that were read and are whole.
    pub pages: u64,
    /// Each object that is missing or damaged, with what is wrong.
    pub faults: Vec<String>,
}

/// Looks at the volume in `bucket`. A writer may go on meanwhile.
///
/// ```
/// use forebay_bucket::{FolderBucket, info};
/// let folder = tempfile::tempdir()?;
/// let bucket = FolderBucket::open(folder.path(), false)?;
/// let refused = info(std::sync::Arc::new(bucket)).unwrap_err();
/// assert!(refused.to_string().contains("there is no volume"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// [`BucketError`].
pub fn info(bucket: Arc<dyn Bucket>) -> Result<VolumeInfo, BucketError> {
    let asker = asker(bucket);
    let opened = asker.open(Access::Read)?;
    let mut keys = Vec::new();
    for prefix in [DATA_PREFIX, LOG_PREFIX, MAP_PREFIX] {
        keys.extend(asker.list(prefix)?);
    }
    let bytes_of = |keys: &[(String, u64)]| keys.iter().map(|(_, bytes)| bytes).sum();
    let (objects, bytes) = (keys.len() as u64, bytes_of(&keys));
    let unneeded = unneeded(&opened.map, keys);
    Ok(VolumeInfo {
        manifest: opened.manifest,
        map: opened.map,
        objects,
        bytes,
        unneeded: Collected {
            objects: unneeded.len() as u64,
            bytes: bytes_of(&unneeded),
        },
    })
}

/// Removes what the state as of the last record does not need. A writer may go on meanwhile, and so
/// may readers that opened the volume after the last commit.
///
/// # Errors
/// [`BucketError`].
pub fn collect(bucket: Arc<dyn Bucket>) -> Result<Collected, BucketError> {
    let asker = asker(bucket);
    let mut collecting = Collecting::new();
    let mut tries = Tries::begin();
    loop {
        let reply = asker.ask(&collecting.next(), &mut tries)?;
        if let Progress::Done(collected) = collecting.answer(reply)? {
            return Ok(collected);
        }
    }
}

/// Reads everything that the volume in `bucket` names, and compares checksums. What a writer
/// replaces meanwhile, and `gc` removes, is looked for again in the newer state.
///
/// # Errors
/// [`BucketError`] if the volume cannot be opened at all.
pub fn check(bucket: Arc<dyn Bucket>) -> Result<Checked, BucketError> {
    let asker = asker(bucket);
    let mut opened = asker.open(Access::Read)?;
    loop {
        let checked = asker.check(&opened.manifest, &opened.map)?;
        if checked.faults.is_empty() {
            return Ok(checked);
        }
        let now = asker.open(Access::Read)?;
        if now.map.number() == opened.map.number() {
            return Ok(checked);
        }
        opened = now;
    }
}

fn asker(bucket: Arc<dyn Bucket>) -> Asker {
    Asker::new(bucket, String::new(), ANSWER_TIMEOUT)
}

impl Asker {
    fn list(&self, prefix: &'static str) -> Result<Vec<(String, u64)>, BucketError> {
        let mut tries = Tries::begin();
        loop {
            if let Reply::Keys(keys) = self.ask(&Call::List { prefix }, &mut tries)? {
                return Ok(keys);
            }
        }
    }

    fn check(&self, manifest: &Manifest, map: &Map) -> Result<Checked, BucketError> {
        let mut checked = Checked::default();
        let mut judge = |key: String, range, crc: u32, length_bytes: u64| {
            let call = Call::Get {
                key: key.clone(),
                range,
            };
            let fault = match self.get(&call)? {
                None => VolumeFault::Missing { key },
                Some(bytes) if bytes.len() as u64 != length_bytes => VolumeFault::Damaged {
                    key,
                    what: "its length",
                },
                Some(bytes) if crc32c(&bytes) != crc => VolumeFault::Damaged {
                    key,
                    what: "its checksum",
                },
                Some(_) => return Ok::<bool, BucketError>(true),
            };
            checked.faults.push(fault.to_string());
            Ok(false)
        };
        let (mut chunks, mut pages) = (0, 0);
        let chunk_bytes = u64::from(manifest.chunk_bytes);
        for (chunk, object) in map.chunks() {
            let length_bytes = chunk_bytes.min(manifest.length_bytes - chunk * chunk_bytes);
            let is_whole = judge(object.name.to_string(), None, object.crc, length_bytes)?;
            chunks += u64::from(is_whole);
        }
        for (_, page) in map.pages() {
            let range = Some(page.at..page.at + PAGE_BYTES);
            let is_whole = judge(log_key(page.record), range, page.crc, PAGE_BYTES)?;
            pages += u64::from(is_whole);
        }
        Ok(Checked {
            chunks,
            pages,
            ..checked
        })
    }
}
