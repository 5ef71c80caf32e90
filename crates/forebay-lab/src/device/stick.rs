//! A USB stick: one request at a time, and few erase blocks that can be written at a time
//! (spec/workloads.md 5.3).
//!
//! The stick has a few *open* units (erase blocks), each with a pointer. A write at the pointer
//! costs the flash pages that it begins; a page that was begun is already paid for. A gap before
//! the write is filled by copying. Any other write changes units: the least recently used one is
//! closed, which copies what was not written of it, and the new one is opened where the write
//! starts. Closing a unit that was filled from its first byte to its last costs nothing, and going
//! on from there into the next one is not a change.

use super::drive::{Command, Drive, DriveCounts, span_of};
use super::settings::StickSettings;
use super::transfer::TransferKind;
use forebay_base::{Instant, Span};
use std::collections::VecDeque;

/// A USB stick.
#[derive(Debug)]
pub(crate) struct Stick {
    settings: StickSettings,
    /// Least recently used first.
    open: VecDeque<Unit>,
    /// Where the last write ended.
    written_to: u64,
    doing: Option<(Instant, u32)>,
    counts: DriveCounts,
}

/// An open erase block.
#[derive(Clone, Copy, Debug)]
struct Unit {
    number: u64,
    /// Offset in the unit at which writing goes on.
    pointer_bytes: u64,
    /// Bytes that are in the new block already, written or copied.
    filled_bytes: u64,
}

impl Stick {
    pub(crate) fn new(settings: StickSettings) -> Stick {
        Stick {
            settings,
            open: VecDeque::new(),
            written_to: 0,
            doing: None,
            counts: DriveCounts::default(),
        }
    }

    fn span(&mut self, command: &Command) -> Span {
        let overhead = Span::from_micros(self.settings.overhead_us);
        let bus = span_of(command.length_bytes, self.settings.bus_bytes_per_s);
        match command.kind {
            TransferKind::Read => {
                let moved = span_of(command.length_bytes, self.settings.read_bytes_per_s);
                Span::from_micros(self.settings.read_latency_us) + bus.max(moved)
            }
            // The stick receives the next bytes while it programs the ones before.
            TransferKind::Write => self.write(command).max(overhead + bus),
            TransferKind::Flush => overhead,
        }
    }

    /// Writes unit by unit; returns the time that it took.
    fn write(&mut self, command: &Command) -> Span {
        let unit_bytes = self.settings.unit_bytes;
        let (mut start, end) = (command.start_bytes, command.end_bytes());
        let mut span = Span::ZERO;
        while start < end {
            let number = start / unit_bytes;
            let stop = end.min((number + 1) * unit_bytes);
            let offset = start - number * unit_bytes;
            span += self.reach(number, offset) + self.program(stop - start);
            start = stop;
            self.written_to = stop;
        }
        span
    }

    /// Makes `offset` of the unit `number` the place where writing goes on, as the last unit in
    /// use. Returns the time that it took.
    fn reach(&mut self, number: u64, offset: u64) -> Span {
        let found = self.open.iter().position(|unit| unit.number == number);
        let Some(mut unit) = found.and_then(|index| self.open.remove(index)) else {
            let closed = if self.open.len() >= self.settings.open_units as usize {
                self.open.pop_front()
            } else {
                None
            };
            return self.change(closed, number, offset);
        };
        if offset < unit.pointer_bytes {
            return self.change(Some(unit), number, offset);
        }
        let gap = offset - unit.pointer_bytes;
        unit.pointer_bytes += gap;
        unit.filled_bytes += gap;
        self.open.push_back(unit);
        self.copy(gap)
    }

    /// Closes one unit, if need be, and opens another.
    fn change(&mut self, closed: Option<Unit>, number: u64, offset: u64) -> Span {
        let starts = number * self.settings.unit_bytes + offset;
        let goes_on = offset == 0 && starts == self.written_to;
        self.open.push_back(Unit {
            number,
            pointer_bytes: offset,
            filled_bytes: 0,
        });
        let rest = closed.map_or(0, |unit| self.settings.unit_bytes - unit.filled_bytes);
        let change = if goes_on && rest == 0 {
            Span::ZERO
        } else {
            self.counts.unit_changes += 1;
            Span::from_micros(self.settings.change_us)
        };
        change + self.copy(rest)
    }

    /// Writes `bytes` at the pointer of the unit in use, in whole flash pages.
    fn program(&mut self, bytes: u64) -> Span {
        let page = self.settings.flash_page_bytes;
        let unit = self.open.back_mut().expect("a unit was just reached");
        let paid = if unit.filled_bytes == 0 {
            unit.pointer_bytes / page
        } else {
            unit.pointer_bytes.div_ceil(page)
        };
        unit.pointer_bytes += bytes;
        let begun = unit.pointer_bytes.div_ceil(page) - paid;
        unit.filled_bytes += bytes;
        if unit.filled_bytes == self.settings.unit_bytes {
            // Nothing is left to copy, so it need not be kept open.
            self.open.pop_back();
        }
        span_of(begun * page, self.settings.program_bytes_per_s)
    }

    fn copy(&mut self, bytes: u64) -> Span {
        self.counts.copied_bytes += bytes;
        span_of(bytes, self.settings.copy_bytes_per_s)
    }
}

impl Drive for Stick {
    fn depth(&self) -> usize {
        1
    }

    fn accept(&mut self, command: Command, now: Instant) {
        let span = self.span(&command);
        self.doing = Some((now + span, command.tag));
    }

    fn next_event(&self) -> Instant {
        self.doing.map_or(Instant::NEVER, |(until, _)| until)
    }

    fn advance(&mut self, now: Instant, ended: &mut Vec<u32>) {
        if let Some((until, tag)) = self.doing
            && until <= now
        {
            self.doing = None;
            ended.push(tag);
        }
    }

    fn counts(&self) -> DriveCounts {
        self.counts
    }
}

#[cfg(test)]
#[path = "stick_tests.rs"]
mod tests;
