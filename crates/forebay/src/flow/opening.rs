//! An object is opened: it is registered, and takes its part of the budget.

use crate::engine::Engine;
use crate::error::BuildError;
use crate::state::index::LONGEST_BYTES;
use crate::state::object::{ObjectState, Origin};
use std::sync::Arc;

impl Engine {
    /// Registers the object of `origin`, or finds it if it is registered already.
    pub(crate) fn open(
        &self,
        origin: Origin,
        length_bytes: u64,
    ) -> Result<Arc<ObjectState>, BuildError> {
        if self.is_closing() {
            return Err(BuildError::Closed);
        }
        let limit_bytes = LONGEST_BYTES;
        if length_bytes > limit_bytes {
            return Err(BuildError::TooLong {
                length_bytes,
                limit_bytes,
            });
        }
        let limit = self.settings.objects_limit;
        let forget = |object: &ObjectState| self.forget_object(object);
        let opened = self.objects.open(origin, length_bytes, forget);
        if self.charge_objects() && self.memory.pages_over() > 0 {
            self.start_filling();
        }
        opened.ok_or(BuildError::TooManyObjects { limit })
    }
}
