//! Objects in memory as volumes, for tests of whatever serves volumes.

use super::{Medium, Opener, Volume, VolumeError, VolumeMode, VolumeUser};
use crate::holes::{Extent, Holes};
use crate::memory::MemoryStore;
use crate::request::ObjectId;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;

/// Its addresses are numbers of objects, `7`, with or without `memory://` before them.
impl Opener for Arc<MemoryStore> {
    fn open_volume(&self, address: &OsStr, mode: VolumeMode) -> Result<Volume, VolumeError> {
        let refused = |kind: io::ErrorKind, text| VolumeError::Refused {
            action: "open",
            address: address.to_owned(),
            cause: io::Error::new(kind, text),
        };
        let text = address.to_str().unwrap_or_default();
        let number = text.strip_prefix("memory://").unwrap_or(text).parse();
        let Ok(object) = number.map(ObjectId) else {
            return Err(refused(io::ErrorKind::InvalidInput, "it is no number"));
        };
        if !self.claim(object, mode.is_read_only()) {
            return Err(VolumeError::InUse {
                address: address.to_owned(),
                user: VolumeUser::Server,
            });
        }
        let medium = Claim {
            memory: self.clone(),
            object,
        };
        let mut length_bytes = self.length_bytes(object);
        match mode {
            VolumeMode::Create {
                length_bytes: asked,
            } if length_bytes == 0 => {
                self.set_length(object, asked);
                length_bytes = asked;
            }
            VolumeMode::Create {
                length_bytes: asked,
            } if length_bytes != asked => {
                return Err(VolumeError::WrongLength {
                    address: address.to_owned(),
                    found_bytes: length_bytes,
                    asked_bytes: asked,
                });
            }
            _ if length_bytes == 0 => {
                return Err(refused(
                    io::ErrorKind::NotFound,
                    "nothing was written to it",
                ));
            }
            _ => {}
        }
        Ok(Volume {
            store: self.clone(),
            object,
            length_bytes,
            medium: Arc::new(medium),
            warning: None,
        })
    }
}

/// An object that is claimed until this is dropped.
#[derive(Debug)]
struct Claim {
    memory: Arc<MemoryStore>,
    object: ObjectId,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.memory.release(self.object);
    }
}

impl Holes for Claim {
    fn extent_at(&self, offset_bytes: u64, end_bytes: u64) -> Extent {
        self.memory.extent_at(self.object, offset_bytes, end_bytes)
    }
}

/// Memory keeps what it took.
impl Medium for Claim {}
