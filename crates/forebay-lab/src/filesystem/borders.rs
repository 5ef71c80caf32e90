//! Where pages begin.

use forebay_base::units::{byte_of, page_of, pages_for};

/// The start of the page that has the byte `offset`.
pub(crate) fn page_floor(offset: u64) -> u64 {
    byte_of(page_of(offset))
}

/// The first start of a page at or after `offset`.
pub(crate) fn page_ceiling(offset: u64) -> u64 {
    byte_of(pages_for(offset))
}
