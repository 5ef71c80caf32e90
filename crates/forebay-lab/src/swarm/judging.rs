//! Judging answers: bytes that no client wrote, and errors without a reason, are violations.

use super::client::{Client, PAGE};
use super::ledger::Ticket;
use super::reader_model::WrongByte;
use super::verdict::Oracle;
use forebay_base::sync::lock;
use forebay_engine::AccessError;
use std::ops::Range;

impl Client {
    /// Prints what is called, or how it ended, if the run is loud.
    pub(super) fn print<T: std::fmt::Debug>(&self, what: &str, detail: &T) {
        self.world
            .print(|| format!("{}: {what} {detail:?}", self.name));
    }

    pub(super) fn broken(&self, oracle: Oracle, what: &str) {
        self.world.broken(oracle, format!("{}: {what}", self.name));
    }

    pub(super) fn judge_bytes(&self, what: &str, judged: Result<(), WrongByte>) {
        if let Err(WrongByte {
            place,
            found,
            expected,
        }) = judged
        {
            let what = format!(
                "{what} shows {found:#04x} at byte {place} (page {}), where {expected:#04x} or \
                 something newer should be",
                place / PAGE
            );
            self.broken(Oracle::Bytes, &what);
        }
    }

    /// An error that this run does not allow is a violation.
    pub(super) fn refused(&self, what: &str, error: &AccessError) {
        self.world.change_deeds(|deeds| deeds.refused += 1);
        if !self.world.plan.allows(error) {
            self.broken(
                Oracle::Errors,
                &format!("{what} fails without a reason: {error}"),
            );
        }
    }

    pub(super) fn judge_read(
        &self,
        ticket: Ticket,
        range: &Range<u64>,
        bytes: &[u8],
        read: Option<Result<usize, AccessError>>,
    ) {
        let mut ledger = lock(&self.ledger);
        let count = match read {
            Some(Ok(count)) => count,
            other => {
                ledger.turned_away(ticket);
                drop(ledger);
                if let Some(Err(error)) = other {
                    self.refused("read_at", &error);
                }
                return;
            }
        };
        let (is_whole, region_end) = (ledger.is_whole_object(), ledger.start() + ledger.len());
        let lengths = ledger.length_seen(ticket).filter(|_| is_whole);
        let own = (region_end.max(range.start) - range.start).min(count as u64) as usize;
        let own = if is_whole { count } else { own };
        let judged = ledger.seen(ticket, range.start, &bytes[..own]);
        drop(ledger);
        self.world
            .note(count as u64 ^ bytes.first().map_or(0, |&byte| u64::from(byte) << 32));
        self.judge_bytes("a read", judged);
        let Some((shortest, longest)) = lengths else {
            return;
        };
        let wanted = |length: u64| length.saturating_sub(range.start).min(bytes.len() as u64);
        if !(wanted(shortest)..=wanted(longest)).contains(&(count as u64)) {
            let what = format!(
                "a read of {} bytes at {} returned {count}, of an object of {shortest} to \
                 {longest} bytes",
                bytes.len(),
                range.start
            );
            self.broken(Oracle::Bytes, &what);
        }
    }
}
