//! Durable syncs: when a sync has returned, nothing that was dirty at the call is still to be
//! written. The store already holds it durably (spec/writeback.md 10.1 and 13.1, I13).
//!
//! This is judged at each return, by what the store would show if the power failed at that moment
//! and nothing landed that need not. A crash judges the same at one moment of a run, so it would
//! hardly ever catch a sync that returns too early by the time of one request.

use super::client::Client;
use super::ledger::Ledger;
use super::verdict::Oracle;
use super::witness::WrongByte;
use forebay_base::sync::lock;

impl Client {
    /// A sync has returned without error, and the ledger has noted it.
    pub(super) fn judge_durable(&self) {
        let Some((store, object)) = self.place else {
            return;
        };
        // Bytes in wrong places stay there until their pages are written again, and no promise says
        // that they are right before that.
        if self.world.is_over() || self.world.plan.may_misdirect() {
            return;
        }
        let of_store = &self.world.stores[store].0;
        let judge = |image: &[u8], revision| {
            let mut ledger = lock(&self.ledger);
            // Some callers sync on and on where nothing changes.
            let is_new = ledger.is_judged_anew(revision);
            is_new.then(|| judge(&ledger, image)).flatten()
        };
        if let Some(what) = of_store.judge_durable(object, judge) {
            self.broken(Oracle::Sync, &format!("object {}: {what}", object.0));
        }
    }
}

/// Which promise of `ledger` the durable bytes of its object break.
fn judge(ledger: &Ledger, object: &[u8]) -> Option<String> {
    let (shortest, longest) = ledger.durable_length_bytes();
    let length = object.len() as u64;
    let is_whole = ledger.is_whole_object();
    if is_whole && !(shortest..=longest).contains(&length) {
        return Some(format!(
            "a sync returned, and the store has {length} bytes for certain; {shortest} to \
             {longest} \
             were synced (spec/writeback.md 13.1, I13)"
        ));
    }
    let start = (ledger.start() as usize).min(object.len());
    let count = if is_whole { longest } else { ledger.len() } as usize;
    let image = &object[start..(start + count).min(object.len())];
    let judged = if image.len() == count {
        ledger.judge_image(image)
    } else {
        // What lies past the end reads as zeros.
        let mut padded = image.to_vec();
        padded.resize(count, 0);
        ledger.judge_image(&padded)
    };
    let WrongByte {
        place,
        found,
        expected,
    } = judged.err()?;
    Some(format!(
        "a sync returned, and the store has {found:#04x} for certain at byte {place}; \
         {expected:#04x} \
         or something newer was synced (spec/writeback.md 13.1, I13)"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::pattern::bytes_of_version;
    use super::super::witness::{Change, NewLength};
    use super::*;
    use forebay_base::sync::atomic::AtomicBool;
    use std::sync::Arc;

    #[test]
    fn a_sync_that_returned_too_early_is_found() {
        let mut ledger = Ledger::of_object(1, Arc::new(AtomicBool::new(false)));
        let version = ledger.new_version();
        let written = ledger.begin(Change {
            start: 0,
            end: 100,
            version,
            length: NewLength::AtLeast(100),
        });
        ledger.done(written);
        assert_eq!(judge(&ledger, &[]), None, "nothing was synced");
        assert!(ledger.is_judged_anew(0));
        let sync = ledger.sync_begins(None);
        ledger.sync_returned(sync);
        assert!(ledger.is_judged_anew(0), "more has to be durable");
        assert!(ledger.is_judged_anew(1), "other bytes are durable");
        let sync = ledger.sync_begins(None);
        ledger.sync_returned(sync);
        assert!(!ledger.is_judged_anew(1), "everything is as it was");
        let mut stored = bytes_of_version(version, 0, 100);
        assert_eq!(judge(&ledger, &stored), None);
        let short = judge(&ledger, &stored[..60]).expect("40 bytes are missing");
        assert!(short.contains("60 bytes for certain"), "{short}");
        stored[70] ^= 1;
        let wrong = judge(&ledger, &stored).expect("one byte is another");
        assert!(wrong.contains("at byte 70"), "{wrong}");
    }
}
