//! What serves the requests of a device, one model for each kind.
//!
//! A drive lives in its own time ([`super::pace`]): it gets each request, says when it has to be
//! asked again, and then says which requests have ended. It never sees the bytes.

use super::transfer::TransferKind;
use forebay_base::{Instant, Span};

/// One request, as the drive sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// By which the device recognizes it.
    pub(crate) tag: u32,
    pub(crate) kind: TransferKind,
    pub(crate) start_bytes: u64,
    pub(crate) length_bytes: u64,
}

impl Command {
    pub(crate) fn end_bytes(&self) -> u64 {
        self.start_bytes + self.length_bytes
    }
}

/// What only some kinds of drives count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DriveCounts {
    /// Erase blocks that were opened away from where the last one ended.
    pub(crate) unit_changes: u64,
    /// Bytes that the drive copied to close erase blocks.
    pub(crate) copied_bytes: u64,
}

/// A model of one kind of drive. Times never go back.
pub(crate) trait Drive: Send {
    /// Commands that it takes at a time; at least 1.
    fn depth(&self) -> usize;

    /// Takes a command; never more than [`Drive::depth`] at a time.
    fn accept(&mut self, command: Command, now: Instant);

    /// When something happens next; [`Instant::NEVER`] if nothing does.
    fn next_event(&self) -> Instant;

    /// Lets everything happen up to `now`, and adds the tags of the commands that have ended.
    fn advance(&mut self, now: Instant, ended: &mut Vec<u32>);

    /// What it has counted.
    fn counts(&self) -> DriveCounts {
        DriveCounts::default()
    }

    /// From `now` on it runs at `rate`. Only a rated drive has one.
    fn set_rate(&mut self, rate: forebay_store::Rate, now: Instant) -> bool {
        let _ = (rate, now);
        false
    }
}

/// The time that `bytes` take at `bytes_per_s`, rounded up.
pub(crate) fn span_of(bytes: u64, bytes_per_s: u64) -> Span {
    const NANOS_PER_S: u128 = 1_000_000_000;
    let nanos = u128::from(bytes) * NANOS_PER_S;
    let nanos = nanos.div_ceil(u128::from(bytes_per_s.max(1)));
    Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
