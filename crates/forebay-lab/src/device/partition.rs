//! A part of a device as a store: swap, or a block device that a program writes to.

use super::transfer::{End, Transfer, TransferKind, Whole, direction_of};
use super::{Device, Shape};
use forebay_base::PAGE_BYTES;
use forebay_base::sync::Arc;
use forebay_store::{Durability, Failure, Geometry, Io, IoKind, Store};

/// The bytes from one address of a device to another, as one object: every [`ObjectId`] names it.
///
/// [`ObjectId`]: forebay_store::ObjectId
pub struct Partition {
    device: Arc<dyn Device>,
    shape: Shape,
    start_bytes: u64,
    length_bytes: u64,
}

impl Partition {
    /// `length_bytes` of `device` from `start_bytes` on. Nothing is kept: reads change no page.
    ///
    /// # Panics
    /// If the device ends before.
    pub fn new(device: Arc<dyn Device>, start_bytes: u64, length_bytes: u64) -> Partition {
        let end = start_bytes.checked_add(length_bytes);
        let shape = device.shape();
        let capacity = shape.capacity_bytes;
        assert!(
            end.is_some_and(|end| end <= capacity),
            "a partition of {length_bytes} bytes at {start_bytes} leaves a device of {capacity}"
        );
        Partition {
            device,
            shape,
            start_bytes,
            length_bytes,
        }
    }

    /// The same for swap, whose pages may always change: a changed page is dirty, and is written
    /// again before it is freed.
    #[must_use]
    pub fn for_swap(mut self) -> Partition {
        self.shape.stable_pages = false;
        self
    }
}

/// The geometry of a store on `device`.
pub(crate) fn geometry_on(shape: Shape) -> Geometry {
    Geometry {
        block_bytes: PAGE_BYTES as u32,
        max_io_pages: (shape.largest_bytes / PAGE_BYTES as u64).max(1) as u32,
        write_unit_pages: 1,
        queue_depth: shape.queue_depth,
        durability: Durability::OnCommit,
        stable_pages: shape.stable_pages,
    }
}

impl Store for Partition {
    fn geometry(&self) -> Geometry {
        geometry_on(self.shape)
    }

    fn submit(&self, io: Io) {
        let request = io.request();
        let end = request.offset_bytes.checked_add(request.length_bytes);
        if end.is_none_or(|end| end > self.length_bytes) && request.kind != IoKind::Commit {
            return io.fail(Failure::OutOfRange);
        }
        let kind = direction_of(request.kind);
        let end = End::Io(io);
        let range = (
            self.start_bytes + request.offset_bytes,
            request.length_bytes,
        );
        match (kind, request.kind) {
            (Some(kind), _) => self
                .device
                .submit(Transfer::of(Whole::new(end), kind, range)),
            (None, IoKind::Commit) => {
                let flush = Transfer::of(Whole::new(end), TransferKind::Flush, (0, 0));
                self.device.submit(flush);
            }
            (None, _) => end.report(),
        }
    }
}
