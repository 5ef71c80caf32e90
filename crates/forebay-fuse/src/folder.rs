//! The mounted folder: its parts, and what else its requests share.

use crate::buffers::Buffers;
use crate::parts::{Allocation, Contents, Names, OpenFiles, Source};
use crate::refusals::Refusals;
use crate::worker_pool::WorkerPool;
use forebay_base::sync::Arc;
use std::fmt;

/// What the requests share.
pub(crate) struct Folder {
    pub(crate) source: Arc<Source>,
    pub(crate) names: Arc<Names>,
    pub(crate) contents: Arc<Contents>,
    pub(crate) allocation: Arc<Allocation>,
    pub(crate) open_files: Arc<OpenFiles>,
    pub(crate) workers: Arc<WorkerPool>,
    pub(crate) buffers: Arc<Buffers>,
    /// Bytes of one request at most.
    pub(crate) request_bytes: u32,
    /// What programs were answered with an error.
    pub(crate) refusals: Arc<Refusals>,
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folder")
            .field("limits", &self.source.limits)
            .finish_non_exhaustive()
    }
}
