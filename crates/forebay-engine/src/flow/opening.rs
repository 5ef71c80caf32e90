//! An object is opened: it is registered, and takes its part of the budget.

use crate::error::BuildError;
use crate::parts::Files;
use crate::state::index::LONGEST_BYTES;
use crate::state::object::{ObjectState, Origin};
use crate::state::objects::StoreObject;
use std::sync::Arc;

impl Files {
    /// Registers the object of `origin`, or finds it if it is registered already.
    pub(crate) fn open(
        &self,
        origin: Origin,
        length_bytes: u64,
    ) -> Result<Arc<ObjectState>, BuildError> {
        if self.accounts.is_closing() {
            return Err(BuildError::Closed);
        }
        let limit_bytes = LONGEST_BYTES;
        if length_bytes > limit_bytes {
            return Err(BuildError::TooLong {
                length_bytes,
                limit_bytes,
            });
        }
        if let Origin::File { backing, object } = origin
            && let Some(known) = self.check_length(StoreObject { backing, object }, length_bytes)?
        {
            return Ok(known);
        }
        let forget = |object: &ObjectState| self.reclaim.capacity.forget_object(object);
        let opened = self.pages.objects.open(origin, length_bytes, forget);
        if self.reclaim.capacity.charge_objects() && self.memory.pages_over() > 0 {
            self.reclaim.start_filling();
        }
        opened.ok_or_else(|| BuildError::TooManyObjects {
            limit: self.pages.objects.limit_reached(),
        })
    }

    /// Refuses an object that its store knows to be longer. If it is known here, it may have been
    /// cut, and is given back as opened.
    fn check_length(
        &self,
        place: StoreObject,
        length_bytes: u64,
    ) -> Result<Option<Arc<ObjectState>>, BuildError> {
        let StoreObject { backing, object } = place;
        let stored = self.dirty.stores.get(backing).store.length_bytes(object);
        let Some(stored_bytes) = stored.filter(|&stored| length_bytes < stored) else {
            return Ok(None);
        };
        match self.pages.objects.reopen(place) {
            Some(known) => Ok(Some(known)),
            None => Err(BuildError::WrongLength {
                object: object.0,
                length_bytes,
                stored_bytes,
            }),
        }
    }
}
