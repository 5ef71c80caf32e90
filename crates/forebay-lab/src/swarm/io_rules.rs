//! Rules of requests: what a store may expect of the cache. The cache never asks for two writes of
//! one place at a time, because the store may do them in any order. If the store asks for stable
//! pages, no page changes while it is written.

use forebay_base::PAGE_BYTES;
use forebay_store::{Io, IoKind, Request};

/// Whether both write and have a byte in common.
pub(super) fn write_one_place(one: Request, other: Request) -> bool {
    let are_writes = one.kind == IoKind::Write && other.kind == IoKind::Write;
    let end = |request: Request| request.offset_bytes + request.length_bytes;
    are_writes
        && one.object == other.object
        && one.offset_bytes < end(other)
        && other.offset_bytes < end(one)
}

/// A sum that almost surely changes when a byte of the pages changes.
pub(super) fn sum_of(io: &Io) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut bytes = [0; PAGE_BYTES];
    let (mut sum, mut factor) = (0_u64, ODD);
    for page in 0..io.page_count() {
        io.copy_page(page, 0, &mut bytes);
        for word in bytes.as_chunks::<8>().0 {
            sum = sum.wrapping_add(u64::from_le_bytes(*word).wrapping_mul(factor));
            factor = factor.wrapping_add(ODD << 1);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_store::ObjectId;

    #[test]
    fn writes_meet_where_they_have_a_byte_in_common() {
        let request = |kind, object, offset_bytes| Request {
            kind,
            object: ObjectId(object),
            offset_bytes,
            length_bytes: 8192,
        };
        let write = request(IoKind::Write, 1, 4096);
        assert!(write_one_place(write, request(IoKind::Write, 1, 0)));
        assert!(write_one_place(write, request(IoKind::Write, 1, 8192)));
        assert!(!write_one_place(write, request(IoKind::Write, 1, 12_288)));
        assert!(!write_one_place(write, request(IoKind::Write, 2, 4096)));
        assert!(!write_one_place(write, request(IoKind::Read, 1, 4096)));
    }
}
