//! The tasks of a crew.

use super::super::client::PAGE;
use super::observer::{Call, SceneIo, Watch};
use super::plan::{Crew, Work};
use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use forebay_engine::{AccessError, File};
use forebay_rt::Rt;
use std::sync::Arc;

/// The rest between two syncs of a file.
pub(in super::super) const SYNCER_RESTS: Span = Span::from_millis(70);
/// The rest after a call that failed at once, because otherwise no time would pass.
const AFTER_FAILURE: Span = Span::from_millis(100);
/// The time from one calm to the next.
const PERIOD: Span = Span::from_secs(1);

/// What tasks need of their stage.
#[derive(Clone)]
pub(in super::super) struct Actor {
    pub(in super::super) rt: Rt,
    pub(super) watch: Arc<Watch>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) calm: Span,
}

impl Actor {
    pub(in super::super) fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Makes a call, and reports when it begins and ends.
    pub(in super::super) async fn make(
        &self,
        call: &Call,
        future: impl Future<Output = Result<(), AccessError>>,
    ) -> Result<(), AccessError> {
        self.watch.io(SceneIo::CallBegins(call));
        let done = future.await;
        self.watch.io(SceneIo::CallEnds(call, done.is_ok()));
        done
    }

    /// Rests between two calls.
    async fn rest(&self, span: Span) {
        match span {
            Span::ZERO => self.rt.yield_now().await,
            span => self.rt.sleep(span).await,
        }
    }

    /// Rests between two calls, and until a calm is over.
    pub(in super::super) async fn rest_calmly(&self, span: Span) {
        self.rest(span).await;
        let into_period_ms = self.rt.now().as_millis() % PERIOD.as_millis();
        let left_ms = self.calm.as_millis().saturating_sub(into_period_ms);
        if left_ms > 0 {
            self.rt.sleep(Span::from_millis(left_ms)).await;
        }
    }

    /// Does the work of one task of `crew` on `file`, which is the object of `call`.
    pub(super) async fn work(self, crew: Crew, file: File, mut call: Call) {
        let mut bytes = vec![0; (crew.call_pages * PAGE) as usize];
        let mut page = 0;
        for _ in 0..crew.calls {
            if !self.goes_on() {
                break;
            }
            call.pages = page..page + crew.call_pages;
            let began = self.rt.now();
            let done = match crew.work {
                Work::Write => self.make(&call, file.write_at(&bytes, page * PAGE)).await,
                Work::Read => {
                    let read = async { file.read_at(&mut bytes, page * PAGE).await.map(drop) };
                    self.make(&call, read).await
                }
            };
            assert!(crew.may_fail || done.is_ok(), "no call fails: {done:?}");
            if done.is_err() && self.rt.now() == began {
                self.rt.sleep(AFTER_FAILURE).await;
            }
            page = (page + crew.call_pages) % crew.file_pages;
            match crew.work {
                Work::Write => self.rest(crew.rest).await,
                Work::Read => self.rest_calmly(crew.rest).await,
            }
        }
    }

    /// Syncs `file` repeatedly, with rests.
    pub(super) async fn sync(self, file: File) {
        while self.goes_on() {
            self.rt.sleep(SYNCER_RESTS).await;
            // On a slow store a sync may time out.
            let _ = file.sync().await;
        }
    }
}
