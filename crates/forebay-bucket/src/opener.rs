//! Volumes in buckets by their addresses.

use crate::error::BucketError;
use crate::linked::bucket_at;
use crate::store::{BucketSettings, BucketStore};
use forebay_rt::{fresh_number, say};
use forebay_store::{
    Extent, Failure, Figure, Holes, Medium, Opener, Volume, VolumeError, VolumeMode,
};
use forebay_volume::{Access, Manifest, PAGE_BYTES, PageFormat, VolumeFault, Writing};
use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The bytes of a chunk, if nobody says another number.
pub const CHUNK_BYTES: u32 = 1 << 20;

/// Its addresses are `s3://BUCKET/PREFIX`, `az://CONTAINER/PREFIX`, `gs://BUCKET/PREFIX` and
/// `folder:///PATH`.
///
/// A volume that is made has checksums of its pages, or is encrypted if the settings have a key.
///
/// A volume has one writer, wherever it is, and any number of readers. A reader sees the
/// volume as of the moment in which it opened it, until `gc` removes what only that state needs, or
/// follows the writer: see [`BucketSettings::follow_interval`].
#[derive(Clone, Copy, Debug)]
pub struct BucketOpener {
    /// How the stores behave.
    pub settings: BucketSettings,
    /// Open a volume although its last writer has not closed it.
    pub take_over: bool,
    /// The bytes of a chunk of a volume that is made.
    pub chunk_bytes: u32,
}

impl Default for BucketOpener {
    fn default() -> BucketOpener {
        BucketOpener {
            settings: BucketSettings::default(),
            take_over: false,
            chunk_bytes: CHUNK_BYTES,
        }
    }
}

/// Whether chunks may have so many bytes: a power of two from 64 KiB to 8 MiB.
///
/// ```
/// assert!(forebay_bucket::is_chunk_size(1 << 20));
/// assert!(!forebay_bucket::is_chunk_size(1_000_000));
/// ```
pub fn is_chunk_size(bytes: u32) -> bool {
    Manifest::new(0, PAGE_BYTES, bytes).is_ok()
}

impl BucketOpener {
    fn access(&self, mode: VolumeMode) -> Result<Access, BucketError> {
        let create = match mode {
            VolumeMode::ReadOnly => return Ok(Access::Read),
            VolumeMode::ReadWrite => None,
            VolumeMode::Create { length_bytes } => {
                let manifest = Manifest::new(fresh_number()?, length_bytes, self.chunk_bytes)?;
                Some(manifest.with_pages(match self.settings.key {
                    Some(_) => PageFormat::Encrypted,
                    None => PageFormat::Checksum,
                }))
            }
        };
        Ok(Access::Write(Writing {
            writer: fresh_number()?,
            who: this_writer(),
            create,
            take_over: self.take_over,
        }))
    }
}

impl Opener for BucketOpener {
    fn open_volume(&self, address: &OsStr, mode: VolumeMode) -> Result<Volume, VolumeError> {
        let refused = |cause| VolumeError::Refused {
            action: "open",
            address: address.to_owned(),
            cause,
        };
        let creates = matches!(mode, VolumeMode::Create { .. });
        let bucket = bucket_at(address, creates).map_err(refused)?;
        let name = address.to_string_lossy();
        let access = self.access(mode);
        let opened = access
            .and_then(|access| BucketStore::open(bucket.clone(), &name, access, self.settings));
        let store = opened.map_err(|error| match error {
            BucketError::Volume(VolumeFault::WrongLength {
                found_bytes,
                asked_bytes,
            }) => VolumeError::WrongLength {
                address: address.to_owned(),
                found_bytes,
                asked_bytes,
            },
            BucketError::Volume(VolumeFault::NotThere) => refused(io::ErrorKind::NotFound.into()),
            error => refused(io::Error::other(error.to_string())),
        })?;
        if !mode.is_read_only() {
            bucket.sweep();
        }
        let length_bytes = store.manifest().length_bytes;
        Ok(Volume {
            store: store.clone(),
            object: BucketStore::OBJECT,
            length_bytes,
            medium: Arc::new(OpenVolume {
                store,
                address: address.to_owned(),
            }),
            warning: None,
        })
    }
}

/// What this process says of itself to the next writer.
fn this_writer() -> String {
    let names = rustix::system::uname();
    let host = names.nodename().to_string_lossy().into_owned();
    format!("host {host}, process {}", std::process::id())
}

/// A volume that is open; others may open it once this is dropped.
#[derive(Debug)]
struct OpenVolume {
    store: Arc<BucketStore>,
    address: OsString,
}

impl Holes for OpenVolume {
    fn extent_at(&self, offset_bytes: u64, end_bytes: u64) -> Extent {
        self.store.extent_at(offset_bytes, end_bytes)
    }
}

impl OpenVolume {
    fn refused(&self, action: &'static str, text: &str) -> VolumeError {
        VolumeError::Refused {
            action,
            address: self.address.clone(),
            cause: io::Error::other(text.to_owned()),
        }
    }
}

impl Medium for OpenVolume {
    /// The cache keeps what is not durable yet, so a commit that fails loses nothing, except to
    /// another writer.
    fn loss(&self) -> Option<Failure> {
        self.store.is_fenced().then_some(Failure::Fenced)
    }

    fn open_anew(&self) -> Result<(), VolumeError> {
        if self.store.is_fenced() {
            let text = "another writer has taken the volume over; stop this server";
            return Err(self.refused("open", text));
        }
        Ok(())
    }

    fn follow(&self, drops: Box<dyn Fn(Range<u64>) -> bool + Send + Sync>) {
        self.store.follow(drops);
    }

    fn figures(&self) -> Vec<Figure> {
        self.store.statistics().figures()
    }

    fn settle(&self) -> Result<(), VolumeError> {
        self.store
            .settle()
            .map_err(|failure| self.refused("record", &failure.to_string()))
    }

    fn is_settled(&self) -> bool {
        self.store.is_settled()
    }

    fn close(&self) -> Result<(), VolumeError> {
        if self.store.close() {
            return Ok(());
        }
        let text = if self.store.is_fenced() {
            "another writer has taken it over"
        } else {
            "not everything is committed; start the next writer with --take-over"
        };
        Err(self.refused("close", text))
    }
}

impl Drop for OpenVolume {
    fn drop(&mut self) {
        if !self.store.close() && !self.store.is_fenced() {
            say(format_args!(
                "{}: it could not be closed; start the next writer with --take-over",
                self.address.display()
            ));
        }
    }
}
