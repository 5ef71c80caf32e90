//! Exports of servers as volumes.

use super::address::Address;
use super::refusal::ClientError;
use super::store::{ClientSettings, NbdStore};
use forebay_base::sync::{Mutex, lock};
use forebay_store::{Extent, Holes, Medium, Opener, Volume, VolumeError, VolumeMode, VolumeUser};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;

/// The schemes of the addresses of exports of servers.
pub const SCHEMES: [&str; 4] = ["nbd", "nbds", "nbd+unix", "nbds+unix"];

/// Its addresses are `nbd://HOST[:PORT]/EXPORT` and `nbd+unix:///EXPORT?socket=PATH`, and
/// `nbds://HOST[:PORT]/EXPORT?tls-certificates=DIR` and `nbds+unix:///EXPORT?socket=PATH` with TLS.
///
/// A volume is refused to a second writer of this opener. The protocol has no claims: another
/// program may write to the same export, and this one cannot know.
#[derive(Debug, Default)]
pub struct NbdOpener {
    settings: ClientSettings,
    claims: Claims,
}

/// How many users have an address open; a writer is alone.
type Claims = Arc<Mutex<BTreeMap<String, Claim>>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    Writer,
    Readers(usize),
}

impl NbdOpener {
    /// Opens volumes with `settings`.
    pub fn new(settings: ClientSettings) -> NbdOpener {
        NbdOpener {
            settings,
            claims: Claims::default(),
        }
    }

    fn claim(&self, name: String, is_read_only: bool) -> Option<Claimed> {
        let mut claims = lock(&self.claims);
        let claim = match (claims.get(&name), is_read_only) {
            (None, false) => Claim::Writer,
            (None, true) => Claim::Readers(1),
            (Some(Claim::Readers(readers)), true) => Claim::Readers(readers + 1),
            _ => return None,
        };
        claims.insert(name.clone(), claim);
        Some(Claimed {
            name,
            claims: self.claims.clone(),
        })
    }
}

impl Opener for NbdOpener {
    fn open_volume(&self, address: &OsStr, mode: VolumeMode) -> Result<Volume, VolumeError> {
        let refused = |kind, text: String| VolumeError::Refused {
            action: "open",
            address: address.to_owned(),
            cause: io::Error::new(kind, text),
        };
        let text = address.to_str().unwrap_or_default();
        let parsed: Result<Address, _> = text.parse();
        let parsed =
            parsed.map_err(|error| refused(io::ErrorKind::InvalidInput, error.to_string()))?;
        let claimed = self
            .claim(parsed.to_string(), mode.is_read_only())
            .ok_or_else(|| VolumeError::InUse {
                address: address.to_owned(),
                user: VolumeUser::Server,
            })?;
        let opened = NbdStore::open(&parsed, !mode.is_read_only(), self.settings);
        let store = opened.map_err(|error| match error {
            ClientError::Empty => VolumeError::Empty {
                address: address.to_owned(),
            },
            error => refused(io::ErrorKind::Other, error.to_string()),
        })?;
        let length_bytes = store.length_bytes();
        match mode {
            // Only a server can make its exports.
            VolumeMode::Create {
                length_bytes: asked_bytes,
            } if asked_bytes != length_bytes => Err(VolumeError::WrongLength {
                address: address.to_owned(),
                found_bytes: length_bytes,
                asked_bytes,
            }),
            _ => Ok(Volume {
                store: store.clone(),
                object: NbdStore::OBJECT,
                length_bytes,
                medium: Arc::new(OpenExport {
                    store,
                    _claimed: claimed,
                }),
                warning: None,
            }),
        }
    }
}

/// An address that is claimed until this is dropped.
#[derive(Debug)]
struct Claimed {
    name: String,
    claims: Claims,
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let mut claims = lock(&self.claims);
        match claims.get_mut(&self.name) {
            Some(Claim::Readers(readers)) if *readers > 1 => *readers -= 1,
            _ => drop(claims.remove(&self.name)),
        }
    }
}

/// An export that is open, and claimed.
#[derive(Debug)]
struct OpenExport {
    store: Arc<NbdStore>,
    _claimed: Claimed,
}

impl Holes for OpenExport {
    fn extent_at(&self, offset_bytes: u64, end_bytes: u64) -> Extent {
        self.store.extent_at(offset_bytes, end_bytes)
    }
}

/// The cache keeps what is not durable yet, so a commit that fails loses nothing.
impl Medium for OpenExport {}
