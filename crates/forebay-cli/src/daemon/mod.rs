//! What every server of a cache needs: the cache, an orderly end, metrics, and checks of memory.

pub(crate) mod address;
pub(crate) mod budget;
pub(crate) mod control;
pub(crate) mod ending;
pub(crate) mod flags;
pub(crate) mod headings;
pub(crate) mod heap;
pub(crate) mod history;
pub(crate) mod left;
pub(crate) mod limits;
pub(crate) mod looks;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod metrics;
mod page;
pub(crate) mod patience;
pub(crate) mod pressure;
pub(crate) mod promises;
pub(crate) mod say;
pub(crate) mod starting;
mod status;
pub(crate) mod store;
pub(crate) mod troubles;
