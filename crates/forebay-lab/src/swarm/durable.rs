//! Durable syncs: when a sync has returned, nothing that was dirty at the call is still to be
//! written. The store already holds it durably (spec/writeback.md 10.1 and 13.1, I13).
//!
//! This is judged at each return, by what the store would show if the power failed at that moment
//! and nothing landed that need not. A crash judges the same at one moment of a run, so it would
//! hardly ever catch a sync that returns too early by the time of one request.

use super::client::Client;
use super::crash_disk::CrashDisk;
use super::ledger::Ledger;
use super::reader_model::WrongByte;
use super::verdict::Oracle;
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
        let judge = |disk: &CrashDisk| {
            let mut ledger = lock(&self.ledger);
            // Some callers sync on and on where nothing changes.
            let is_new = ledger.needs_judging(disk.revision());
            is_new.then(|| judge(&mut ledger, disk)).flatten()
        };
        if let Some(what) = of_store.judge_durable(object, judge) {
            self.broken(Oracle::Sync, &format!("object {}: {what}", object.0));
        }
    }
}

/// Which promise of `ledger` the durable bytes of its object break. What was judged before and is
/// as it was is not judged again.
fn judge(ledger: &mut Ledger, disk: &CrashDisk) -> Option<String> {
    let object = disk.durable();
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
    let has_changed = |range, since| disk.has_changed(range, since);
    let judged = ledger.judge_durable(image, count, disk.revision(), has_changed);
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
#[path = "durable_tests.rs"]
mod tests;
