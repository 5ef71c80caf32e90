//! The seam to a place with objects.

use forebay_store::Failure;
use forebay_volume::{Call, Parent, Reply};
use std::ffi::OsString;
use std::sync::Arc;
use thiserror::Error;

/// A place with objects. Each of its calls blocks until there is an answer, and may be made from
/// many threads at a time.
///
/// # Contract
/// 1. [`Call::Make`] makes an object whole or not at all, and of several makers of one key one
///    alone is answered with [`Reply::Done`].
/// 2. An object for which `Done` or [`Reply::Exists`] was answered survives a crash of this
///    machine.
/// 3. A caller that asks after such an answer finds the object.
/// 4. A call that ends with a [`CallError`] may have been carried out, or may still be.
pub trait Bucket: Send + Sync + 'static {
    /// Asks once.
    ///
    /// # Errors
    /// [`CallError`], if there is no answer or the place refuses.
    fn ask(&self, call: &Call) -> Result<Reply, CallError>;

    /// How many objects of `object_bytes` are made at once at most, so that each ends in a
    /// reasonable time.
    fn uploads_at_once(&self, _object_bytes: u64) -> usize {
        usize::MAX
    }

    /// Removes objects, as [`Call::Remove`] does for each. Some may be gone if it ends with
    /// trouble.
    ///
    /// # Errors
    /// As [`Bucket::ask`].
    fn remove_all(&self, keys: &[String]) -> Result<(), CallError> {
        for key in keys {
            self.ask(&Call::Remove { key: key.clone() })?;
        }
        Ok(())
    }

    /// The parent of the volume in it, if that is a clone.
    ///
    /// # Errors
    /// [`CallError`] if it cannot be found.
    fn parent(&self) -> Result<Option<ParentVolume>, CallError> {
        Ok(None)
    }

    /// Removes what writers before this one did not finish. It is called once this one has the
    /// volume. An earlier writer that still goes on makes its object again, and finds out that
    /// it is fenced.
    fn sweep(&self) {}
}

/// The parent of a clone, as its clone names it.
pub struct ParentVolume {
    /// Where it is.
    pub address: OsString,
    /// How the clone names it.
    pub named: Parent,
    /// It, to be asked.
    pub(crate) bucket: Arc<dyn Bucket>,
}

/// Why a call has no answer.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{text}")]
pub struct CallError {
    /// What went wrong, in a few words.
    pub text: String,
    /// The cache's word for it.
    pub failure: Failure,
    /// Whether it is of no use to ask again without a person who changes something.
    pub is_lasting: bool,
}

impl CallError {
    /// An error that may be over soon.
    pub fn passing(text: impl Into<String>) -> CallError {
        CallError {
            text: text.into(),
            failure: Failure::NoAnswer,
            is_lasting: false,
        }
    }

    /// An error that stays until somebody does something about it.
    pub fn lasting(text: impl Into<String>, failure: Failure) -> CallError {
        CallError {
            text: text.into(),
            failure,
            is_lasting: true,
        }
    }
}
