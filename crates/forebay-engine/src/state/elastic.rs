//! What is remembered of the memory of the machine, for a budget that follows it.

use crate::elastic::MemoryStep;
use forebay_base::Instant;
use forebay_law::elastic::Elastic;

/// What is remembered from look to look.
#[derive(Debug, Default)]
pub(crate) struct ElasticBook {
    /// None before the first look.
    pub(crate) law: Option<Elastic>,
    pub(crate) headroom_bytes: u64,
    pub(crate) last: Option<(Instant, MemoryStep)>,
}
