//! The contenders: the cache of this repository, the kernel's page cache, and the hardware without
//! either.

pub(crate) mod floor;
pub(crate) mod forebay;
pub(crate) mod kernel;

pub(crate) use floor::Floor;
pub(crate) use forebay::Forebay;
pub(crate) use kernel::Kernel;
