//! The end of a silence. Requests that a server got while it was away may never be answered, and
//! their connections may take long to find out. When the server answers again after a silence, the
//! requests from before it are given up, and their callers ask again.

use forebay_base::sync::{Mutex, lock};
use futures_util::future::{Either, select};
use object_store::{Error, Result};
use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// A server that lets a request wait for this long, and answers no other one meanwhile, is asked
/// whether it is there.
const SUSPICIOUS: Duration = Duration::from_secs(4);
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// A slow line makes one question late, and seldom as many in a row.
const SILENT_PROBES: u32 = 4;
/// For answers that the server gives by itself when it is there again.
const GRACE: Duration = Duration::from_secs(1);

/// What is under way to one server.
#[derive(Debug)]
pub(crate) struct Silence {
    requests: Mutex<Requests>,
    /// Requests below this number are given up.
    lost: watch::Sender<u64>,
}

#[derive(Debug)]
struct Requests {
    next: u64,
    under_way: BTreeMap<u64, Instant>,
    heard_at: Option<Instant>,
}

impl Default for Silence {
    fn default() -> Silence {
        Silence {
            requests: Mutex::new(Requests {
                next: 0,
                under_way: BTreeMap::new(),
                heard_at: None,
            }),
            lost: watch::Sender::new(0),
        }
    }
}

impl Silence {
    /// The answer of `request`, unless it is given up.
    pub(crate) async fn end_or<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        let number = lock(&self.requests).begin();
        let _under_way = UnderWay {
            requests: &self.requests,
            number,
        };
        let mut lost = self.lost.subscribe();
        let is_lost = pin!(lost.wait_for(|&lost| number < lost));
        let answered = match select(pin!(request), is_lost).await {
            Either::Left((answered, _)) => answered,
            Either::Right(_) => Err(Error::Generic {
                store: "bucket",
                source: "the server was silent".into(),
            }),
        };
        if is_answer(&answered) {
            lock(&self.requests).heard_at = Some(Instant::now());
        }
        answered
    }

    /// Watches for the end of each silence, without end. `probe` asks for something small.
    pub(crate) async fn listen<T, F: Future<Output = Result<T>>>(&self, probe: impl Fn() -> F) {
        let mut unanswered = 0;
        loop {
            sleep(PROBE_INTERVAL).await;
            let Some(next) = lock(&self.requests).next_if_suspicious() else {
                unanswered = 0;
                continue;
            };
            let answered = timeout(PROBE_TIMEOUT, probe()).await;
            if !answered.is_ok_and(|answered| is_answer(&answered)) {
                unanswered += 1;
                continue;
            }
            if unanswered >= SILENT_PROBES {
                sleep(GRACE).await;
                self.lost.send_replace(next);
            }
            unanswered = 0;
        }
    }
}

/// A request that is under way until this is dropped.
struct UnderWay<'s> {
    requests: &'s Mutex<Requests>,
    number: u64,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        lock(self.requests).under_way.remove(&self.number);
    }
}

impl Requests {
    fn begin(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.under_way.insert(number, Instant::now());
        number
    }

    /// The number of the next request, if those before it may be lost.
    fn next_if_suspicious(&self) -> Option<u64> {
        let (_, oldest) = self.under_way.first_key_value()?;
        let since = self.heard_at.map_or(*oldest, |heard| heard.max(*oldest));
        (since.elapsed() >= SUSPICIOUS).then_some(self.next)
    }
}

/// Whether the server has said something.
fn is_answer<T>(answered: &Result<T>) -> bool {
    !matches!(answered, Err(Error::Generic { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::on_a_clock_of_its_own;
    use std::future::pending;
    use std::sync::Arc;
    use tokio::spawn;

    /// A server that answers no probe from the first second to the second one.
    fn listen_while_silent(silence: &Arc<Silence>, from_s: u64, to_s: u64) {
        let (began, silence) = (Instant::now(), silence.clone());
        let probe = move || async move {
            if (from_s..to_s).contains(&began.elapsed().as_secs()) {
                pending::<()>().await;
            }
            Ok(())
        };
        spawn(async move { silence.listen(probe).await });
    }

    #[test]
    fn requests_of_a_silence_are_given_up_when_it_ends() {
        on_a_clock_of_its_own(async {
            let (began, silence) = (Instant::now(), Arc::new(Silence::default()));
            listen_while_silent(&silence, 0, 60);
            let given_up = silence.end_or(pending::<Result<()>>()).await;
            assert!(given_up.is_err());
            let took_s = began.elapsed().as_secs();
            assert!((60..64).contains(&took_s), "{took_s}");
        });
    }

    #[test]
    fn a_request_that_takes_long_at_a_server_that_speaks_goes_on() {
        on_a_clock_of_its_own(async {
            let silence = Arc::new(Silence::default());
            // Less than the shortest silence that counts.
            listen_while_silent(&silence, 10, 16);
            let slow = async {
                sleep(Duration::from_secs(100)).await;
                Ok(7)
            };
            assert_eq!(silence.end_or(slow).await.expect("it goes on"), 7);
        });
    }

    #[test]
    fn what_is_asked_after_a_silence_is_not_given_up_for_it() {
        on_a_clock_of_its_own(async {
            let silence = Arc::new(Silence::default());
            listen_while_silent(&silence, 0, 60);
            let asked = silence.clone();
            let before = spawn(async move { asked.end_or(pending::<Result<()>>()).await.is_err() });
            // After the first question that is answered, and before requests are given up.
            sleep(Duration::from_millis(63_500)).await;
            let after = async {
                sleep(Duration::from_secs(20)).await;
                Ok(())
            };
            assert!(silence.end_or(after).await.is_ok());
            assert!(before.await.expect("it does not panic"));
        });
    }

    #[test]
    fn a_refusal_is_an_answer_and_a_dead_line_is_none() {
        let dead: Result<()> = Err(Error::Generic {
            store: "bucket",
            source: "connection refused".into(),
        });
        let refused: Result<()> = Err(Error::PermissionDenied {
            path: "volume".to_owned(),
            source: "403".into(),
        });
        assert!(!is_answer(&dead) && is_answer(&refused) && is_answer(&Ok(())));
    }
}
