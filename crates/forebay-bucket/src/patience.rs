//! How long a request to a server may go on. What is silent is given up, and not what is slow.
//!
//! What a server sends is seen as it arrives, so its silence is measured. What is sent to a server
//! lies in the system's socket from its first moment, and nothing is seen until the answer comes:
//! there the [`Line`] law says how long that may take, and how many uploads share the line.

use forebay_base::sync::{Mutex, lock};
use forebay_law::line::{Line, SILENCE_MS};
use object_store::{Error, Result};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Requests below this say more of the way's length than of its width.
const LEAST_SAMPLE_BYTES: u64 = 64 << 10;

/// What is known of the line to one server.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    line: Line,
    under_way_bytes: u64,
    /// By uploads that have ended.
    sent_bytes: u64,
    /// How many uploads had no answer; of those that were under way together one alone counts.
    silences: u64,
}

impl Patience {
    /// See [`Line::uploads_at_once`].
    pub(crate) fn uploads_at_once(&self, object_bytes: u64) -> usize {
        lock(&self.state).line.uploads_at_once(object_bytes)
    }

    /// The answer of `upload`, which sends `bytes`.
    pub(crate) async fn with_upload<T>(
        &self,
        bytes: u64,
        upload: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let before = {
            let mut state = lock(&self.state);
            state.under_way_bytes += bytes;
            *state
        };
        let _under_way = UnderWay {
            state: &self.state,
            bytes,
        };
        let began = Instant::now();
        let mut upload = std::pin::pin!(upload);
        let answered = loop {
            // Others that began later share the line too.
            let longest = lock(&self.state).longest();
            let left = longest.saturating_sub(began.elapsed());
            if left.is_zero() {
                break Err(no_answer(longest));
            }
            if let Ok(answered) = timeout(left, upload.as_mut()).await {
                break Ok(answered);
            }
        };
        let mut state = lock(&self.state);
        match &answered {
            Ok(Ok(_)) => state.record_sent(bytes, before, began.elapsed()),
            Err(_) if state.silences == before.silences => {
                state.silences += 1;
                state.line = state.line.without_answer();
            }
            Ok(Err(_)) | Err(_) => {}
        }
        drop(state);
        answered?
    }
}

/// Bytes that are under way until this is dropped, as it is too if an upload is given up.
struct UnderWay<'p> {
    state: &'p Mutex<State>,
    bytes: u64,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        lock(self.state).under_way_bytes -= self.bytes;
    }
}

impl State {
    fn longest(&self) -> Duration {
        Duration::from_millis(self.line.patience_ms(self.under_way_bytes))
    }

    fn record_sent(&mut self, bytes: u64, before: State, took: Duration) {
        self.sent_bytes += bytes;
        if bytes >= LEAST_SAMPLE_BYTES {
            let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            let sent_bytes = self.sent_bytes - before.sent_bytes;
            self.line = self.line.sent(sent_bytes, took_ms);
        }
    }
}

/// The next piece of an answer, for which a server may be silent for a while.
pub(crate) async fn unless_silent<T>(piece: impl Future<Output = Result<T>>) -> Result<T> {
    let silence = Duration::from_millis(SILENCE_MS);
    timeout(silence, piece)
        .await
        .unwrap_or_else(|_| Err(no_answer(silence)))
}

fn no_answer(span: Duration) -> Error {
    Error::Generic {
        store: "bucket",
        source: format!("no answer in {} s", span.as_secs()).into(),
    }
}

/// Runs `future` on a clock that leaps to the next thing that happens.
#[cfg(test)]
pub(crate) fn on_a_clock_of_its_own(future: impl Future) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.expect("a runtime is made").block_on(future);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::sync::Arc;
    use tokio::time::sleep;

    async fn upload_of(patience: &Patience, bytes: u64, span: Duration) -> Result<()> {
        let upload = async {
            sleep(span).await;
            Ok(())
        };
        patience.with_upload(bytes, upload).await
    }

    #[test]
    fn a_server_that_never_answers_is_given_up() {
        on_a_clock_of_its_own(async {
            let patience = Patience::default();
            let began = Instant::now();
            let upload = patience.with_upload(1 << 20, pending::<Result<()>>());
            let text = upload.await.unwrap_err().to_string();
            assert!(text.contains("no answer in 34 s"), "{text}");
            assert_eq!(began.elapsed().as_secs(), 34);
            assert_eq!(patience.uploads_at_once(1 << 20), 5);
            let piece = unless_silent(pending::<Result<()>>());
            let text = piece.await.unwrap_err().to_string();
            assert!(text.contains("no answer in 30 s"), "{text}");
        });
    }

    #[test]
    fn an_upload_that_is_given_up_is_not_under_way_any_more() {
        on_a_clock_of_its_own(async {
            let patience = Patience::default();
            let upload = patience.with_upload(1 << 20, pending::<Result<()>>());
            assert!(timeout(Duration::from_secs(1), upload).await.is_err());
            assert_eq!(lock(&patience.state).under_way_bytes, 0);
        });
    }

    #[test]
    fn uploads_that_are_silent_together_count_once() {
        on_a_clock_of_its_own(async {
            let patience = Arc::new(Patience::default());
            let uploads = (0..8).map(|_| {
                let patience = patience.clone();
                tokio::spawn(async move {
                    let upload = patience.with_upload(1 << 20, pending::<Result<()>>());
                    upload.await.map_err(drop)
                })
            });
            for upload in uploads.collect::<Vec<_>>() {
                assert!(upload.await.expect("it does not panic").is_err());
            }
            assert_eq!(patience.uploads_at_once(1 << 20), 5);
        });
    }

    #[test]
    fn a_slow_line_is_not_a_silent_one() {
        on_a_clock_of_its_own(async {
            let patience = Patience::default();
            // 64 KiB/s: each of these alone takes longer than a silence lasts at first.
            for _ in 0..20 {
                let upload = upload_of(&patience, 2 << 20, Duration::from_secs(32));
                upload.await.expect("it goes on");
            }
            assert_eq!(patience.uploads_at_once(1 << 20), 1);
            upload_of(&patience, 1 << 20, Duration::from_secs(1))
                .await
                .expect("it goes on");
            assert_eq!(patience.uploads_at_once(1 << 20), 10);
        });
    }

    #[test]
    fn sixteen_on_one_line_get_through_once_there_are_fewer() {
        on_a_clock_of_its_own(async {
            let patience = Patience::default();
            let line_bytes_per_s = 64 << 10;
            let mut sent = 0;
            for _ in 0..20 {
                let at_once = patience.uploads_at_once(1 << 20) as u64;
                let span = Duration::from_secs((at_once << 20) / line_bytes_per_s);
                let uploads = (0..at_once).map(|_| upload_of(&patience, 1 << 20, span));
                let ends = futures_util::future::join_all(uploads).await;
                sent += ends.iter().filter(|end| end.is_ok()).count();
            }
            assert!(sent >= 16, "{sent} of 20 rounds");
        });
    }
}
