//! What every server of a cache needs: an end in order, metrics, memory that is there.

pub(crate) mod ending;
pub(crate) mod memory;
pub(crate) mod metrics;
pub(crate) mod scrape;
