//! What a device is asked to do, and who learns of its end.
//!
//! A request of the engine is cut on its way down: by the extents of its file, by the chunks of an
//! array, by the largest request of a drive. Each piece is a [`Transfer`]; all of them share one
//! [`Whole`], which ends when the last piece has ended.

use forebay_base::sync::atomic::{AtomicU32, Ordering};
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_rt::wait::Slot;
use forebay_store::{Failure, Io, IoKind};

/// What one transfer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferKind {
    /// From the device.
    Read,
    /// To the device, where it may rest in a volatile cache.
    Write,
    /// Every write that has ended becomes durable. It has no range.
    Flush,
}

/// A range of a device's address space that is to be read or written, or a flush.
#[derive(Debug)]
pub struct Transfer {
    pub(crate) kind: TransferKind,
    pub(crate) start_bytes: u64,
    pub(crate) length_bytes: u64,
    pub(crate) piece: Piece,
}

impl Transfer {
    /// The whole of a request of the engine, at `start_bytes` of a device. It is cut further
    /// with [`Transfer::cut_front`].
    pub(crate) fn of(whole: Whole, kind: TransferKind, range: (u64, u64)) -> Transfer {
        Transfer {
            kind,
            start_bytes: range.0,
            length_bytes: range.1,
            piece: Piece(Arc::new(whole)),
        }
    }

    /// A transfer whose end nobody waits for: a log write, an inode.
    pub fn unheard(kind: TransferKind, start_bytes: u64, length_bytes: u64) -> Transfer {
        Transfer::of(Whole::new(End::Nobody), kind, (start_bytes, length_bytes))
    }

    /// A transfer whose end sets `ended`.
    pub fn heard(
        kind: TransferKind,
        start_bytes: u64,
        length_bytes: u64,
        ended: Arc<Slot<()>>,
    ) -> Transfer {
        let range = (start_bytes, length_bytes);
        Transfer::of(Whole::new(End::Slot(ended)), kind, range)
    }

    /// Takes the first `bytes` off, as a transfer of its own that starts at `start_bytes` of
    /// whatever it is given to.
    pub(crate) fn cut_front(&mut self, bytes: u64, start_bytes: u64) -> Transfer {
        self.length_bytes -= bytes;
        self.start_bytes += bytes;
        Transfer {
            kind: self.kind,
            start_bytes,
            length_bytes: bytes,
            piece: self.piece.another(),
        }
    }

    /// The first byte past it.
    pub(crate) fn end_bytes(&self) -> u64 {
        self.start_bytes + self.length_bytes
    }
}

/// One piece's part in the end of its whole.
#[derive(Debug)]
pub(crate) struct Piece(Arc<Whole>);

impl Piece {
    /// One more piece of the same whole.
    pub(crate) fn another(&self) -> Piece {
        self.0.left.fetch_add(1, Ordering::Relaxed);
        Piece(Arc::clone(&self.0))
    }

    /// This piece has ended. The last one wakes the waiter, so no lock may be held here.
    pub(crate) fn ended(self) {
        if self.0.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let end = std::mem::replace(&mut *lock(&self.0.end), End::Nobody);
            end.report();
        }
    }
}

/// What is under way in pieces.
#[derive(Debug)]
pub(crate) struct Whole {
    /// Pieces that have not ended.
    left: AtomicU32,
    end: Mutex<End>,
}

/// Who learns of the end.
pub(crate) enum End {
    /// Nobody.
    Nobody,
    /// A task of the machine.
    Slot(Arc<Slot<()>>),
    /// The engine.
    Io(Io),
    /// The next step, for work in several steps.
    Next(Box<dyn FnOnce() + Send>),
}

impl Whole {
    /// In one piece.
    pub(crate) fn new(end: End) -> Whole {
        Whole {
            left: AtomicU32::new(1),
            end: Mutex::new(end),
        }
    }
}

impl Drop for Whole {
    /// A device that ends with its machine answers the requests that it still has: one that is
    /// dropped unfinished would count as a fault of its program.
    fn drop(&mut self) {
        std::mem::replace(&mut *lock(&self.end), End::Nobody).give_up();
    }
}

impl End {
    /// The end will not come.
    pub(crate) fn give_up(self) {
        if let End::Io(io) = self {
            io.fail(Failure::NoAnswer);
        }
    }

    /// The end has come.
    pub(crate) fn report(self) {
        match self {
            End::Nobody => {}
            End::Slot(slot) => slot.set(()),
            End::Next(next) => next(),
            End::Io(io) => io.succeed(),
        }
    }
}

impl std::fmt::Debug for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Nobody => f.write_str("Nobody"),
            End::Slot(_) => f.write_str("Slot"),
            End::Io(io) => write!(f, "{io:?}"),
            End::Next(_) => f.write_str("Next"),
        }
    }
}

/// The direction of a request that moves bytes.
pub(crate) fn direction_of(kind: IoKind) -> Option<TransferKind> {
    match kind {
        IoKind::Read => Some(TransferKind::Read),
        IoKind::Write => Some(TransferKind::Write),
        IoKind::Commit | IoKind::Discard | IoKind::SetLength => None,
    }
}
