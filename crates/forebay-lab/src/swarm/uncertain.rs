//! Uncertain changes: a call that failed, or was dropped half-way, may have done its work or not.
//! Reads find out which.

use super::client::Client;
use forebay_base::Span;
use forebay_base::sync::lock;

impl Client {
    /// A call failed or was dropped half-way. This finds out by reading what the call did. If the
    /// call lingers, its requests to the store go on without it, and this waits for them first.
    /// What cannot be found out now stays uncertain.
    pub(super) async fn resolve_uncertain(&mut self, lingers: bool) {
        const TRIES: u64 = 20;
        self.lingers |= lingers;
        for _ in 0..TRIES {
            if self.lingers && !self.settle().await {
                return;
            }
            if self.world.is_over() || self.find_out().await {
                self.lingers = false;
                return;
            }
            self.world.rt.sleep(Span::from_millis(200)).await;
        }
    }

    /// Reads what is uncertain. True if nothing is afterwards.
    async fn find_out(&mut self) -> bool {
        let (uncertain, start, end, is_whole) = {
            let ledger = lock(&self.ledger);
            let end = ledger.start() + ledger.len();
            (
                ledger.uncertain_range(),
                ledger.start(),
                end,
                ledger.is_whole_object(),
            )
        };
        let Some(uncertain) = uncertain else {
            return true;
        };
        let length = self.file.len();
        let end = if is_whole {
            length
        } else {
            end.min(length.max(start))
        };
        let first = uncertain.start.clamp(start, end);
        let last = uncertain.end.clamp(first, end);
        let ticket = lock(&self.ledger).look(first..last);
        let mut bytes = vec![0; (last - first) as usize];
        let call = self.file.read_at(&mut bytes, first);
        let read = self.world.call("read_at", None, call).await;
        if read == Some(Ok(bytes.len())) && self.file.len() == length {
            self.judge_read(ticket, &(first..last), &bytes, read);
            self.print("resolved", &(length, first..last));
            lock(&self.ledger).resolve(length, first, &bytes);
            return true;
        }
        lock(&self.ledger).turned_away(ticket);
        if let Some(Err(error)) = read {
            self.refused("read_at", &error);
        }
        false
    }

    /// Waits until nothing is under way for the object on behalf of dropped calls: long enough that
    /// a wait for a guard would be over, and with no request in flight. False if that does not
    /// come.
    async fn settle(&self) -> bool {
        const LOOKS: u64 = 3;
        let Some((store, object)) = self.place else {
            return true;
        };
        let span = Span::from_nanos(self.world.plan.settings.held_timeout.as_nanos() / 2);
        let mut quiet = 0;
        for _ in 0..40 {
            self.world.rt.sleep(span + Span::from_millis(1)).await;
            let is_quiet = self.world.stores[store].0.in_flight(object) == 0;
            quiet = if is_quiet { quiet + 1 } else { 0 };
            if quiet >= LOOKS || self.world.is_over() {
                return quiet >= LOOKS;
            }
        }
        false
    }
}
