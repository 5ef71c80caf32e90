//! Error reports: each handle learns by its syncs which writes failed.

use super::client::{Client, Heard};
use super::store::Failures;
use super::verdict::Oracle;
use forebay_base::sync::lock;
use forebay_engine::SyncError;
use std::ops::Range;

impl Client {
    /// A sync that is never given up.
    pub(super) async fn sync_surely(&mut self) {
        self.sync_waiting(None, None).await;
    }

    pub(super) async fn sync(&mut self, range: Option<Range<u64>>) {
        let waits = self.patience();
        self.sync_waiting(range, waits).await;
    }

    /// Syncs, and judges which failures the handle hears of.
    async fn sync_waiting(&mut self, range: Option<Range<u64>>, waits: Option<u32>) {
        let ticket = lock(&self.ledger).sync_begins(range.clone());
        let before = self.failures();
        self.print("sync", &(&range, waits));
        let synced = match range {
            None => self.world.call("sync", waits, self.file.sync()).await,
            Some(range) => {
                let call = self.file.sync_range(range);
                self.world.call("sync_range", waits, call).await
            }
        };
        let after = self.failures();
        self.print("sync ended", &synced);
        self.world.change_deeds(|deeds| deeds.syncs += 1);
        match synced {
            Some(Ok(())) => {
                lock(&self.ledger).sync_returned(ticket);
                self.judge_durable();
            }
            _ => lock(&self.ledger).sync_failed(&ticket),
        }
        if let Some(heard) = synced {
            self.judge_heard(heard, before, after);
        }
    }

    /// Each handle hears of each failure once (promise 2).
    fn judge_heard(&mut self, synced: Result<(), SyncError>, before: Failures, after: Failures) {
        match synced {
            Ok(()) => {
                if after.surely != before.surely || after.surely != self.heard.failures.surely {
                    let what = format!(
                        "a sync returned without error; {} writes or commits failed since its \
                         handle last heard of one (promise 2)",
                        after.surely - self.heard.failures.surely
                    );
                    self.broken(Oracle::Errors, &what);
                }
                self.heard.is_new = false;
            }
            Err(error @ SyncError::Store(_)) => {
                let heard = &self.heard;
                let is_news = heard.is_new || heard.failures != after;
                if !is_news || !self.world.plan.allows_of_sync(&error) {
                    let what =
                        format!("a sync reports a failure that was reported before: {error}");
                    self.broken(Oracle::Errors, &what);
                }
                self.heard = Heard {
                    failures: after,
                    is_new: false,
                };
            }
            Err(error) => {
                if !self.world.plan.allows_of_sync(&error) {
                    self.broken(
                        Oracle::Errors,
                        &format!("sync fails without a reason: {error}"),
                    );
                }
            }
        }
    }
}
