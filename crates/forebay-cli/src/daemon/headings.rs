//! Groups of flags in help and manuals.

pub(crate) const WHERE: &str = "Where";
pub(crate) const MEMORY: &str = "Memory";
pub(crate) const PROMISES: &str = "Promises";
pub(crate) const SECURITY: &str = "Security";
pub(crate) const BUCKETS: &str = "Bucket volumes";
pub(crate) const WATCHING: &str = "Watching";
