//! The descriptor that holds a file, while there are descriptors to spare.

use forebay_base::sync::Arc;
use rustix::fd::OwnedFd;
use std::sync::Weak;

/// The descriptor of a file, while it is not given back.
#[derive(Debug, Default)]
pub(crate) struct Anchor {
    pub(crate) fd: Option<Arc<OwnedFd>>,
    /// The one that was given back last, which a caller may still use.
    pub(crate) given_back: Weak<OwnedFd>,
    /// It must not be given back.
    pub(crate) is_pinned: bool,
    /// It was asked for since it last came to the front of the shelf.
    pub(crate) was_used: bool,
}

impl Anchor {
    /// The anchor of a file that is held for good.
    pub(crate) fn pinned(fd: OwnedFd) -> Anchor {
        Anchor {
            fd: Some(Arc::new(fd)),
            is_pinned: true,
            ..Anchor::default()
        }
    }

    /// The descriptor, while anything holds it.
    pub(crate) fn present(&self) -> Option<Arc<OwnedFd>> {
        self.fd.clone().or_else(|| self.given_back.upgrade())
    }
}
