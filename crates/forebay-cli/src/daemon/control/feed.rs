//! Events of the engine on their way to clients that listen.

use forebay::event::{Event, EventSink};
use forebay_base::Instant;
use forebay_base::sync::atomic::{AtomicUsize, Ordering};
use forebay_base::sync::{Arc, Mutex, lock};
use std::collections::VecDeque;

/// Events that are kept for slow listeners.
const KEPT_LIMIT: usize = 512;

/// Something that listeners get.
#[derive(Clone, Debug)]
pub(super) enum News {
    /// Something happened in the engine.
    Event(Box<Event>),
    /// Knobs were turned: the line that says which.
    Set(String),
}

/// The sink of a server's cache. It keeps events only while somebody listens.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    listeners: AtomicUsize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The number of the first piece of news that is kept.
    first: u64,
    news: VecDeque<(Instant, News)>,
}

impl Feed {
    /// Keeps `news` for all listeners.
    pub(super) fn publish(&self, at: Instant, news: impl FnOnce() -> News) {
        // A listener that comes at this moment may miss what happens at this moment.
        if self.listeners.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut kept = lock(&self.kept);
        if kept.news.len() == KEPT_LIMIT {
            kept.news.pop_front();
            kept.first += 1;
        }
        kept.news.push_back((at, news()));
    }

    /// A listener of what happens from now on, unless there are `limit` of them.
    pub(super) fn listen(self: &Arc<Feed>, limit: usize) -> Option<Hearing> {
        let kept = lock(&self.kept);
        if self.listeners.load(Ordering::Relaxed) >= limit {
            return None;
        }
        self.listeners.fetch_add(1, Ordering::Relaxed);
        Some(Hearing {
            next: kept.first + kept.news.len() as u64,
            feed: self.clone(),
        })
    }
}

impl EventSink for Feed {
    fn record(&self, at: Instant, event: &Event) {
        self.publish(at, || News::Event(Box::new(*event)));
    }
}

/// A listener.
#[derive(Debug)]
pub(super) struct Hearing {
    feed: Arc<Feed>,
    /// The number of the next piece of news for it.
    next: u64,
}

impl Hearing {
    /// How many pieces of news it has lost, and at most `limit` of those after them.
    pub(super) fn hear(&mut self, limit: usize) -> (u64, Vec<(Instant, News)>) {
        let kept = lock(&self.feed.kept);
        let lost = kept.first.saturating_sub(self.next);
        self.next += lost;
        let from = (self.next - kept.first) as usize;
        let heard: Vec<_> = kept.news.iter().skip(from).take(limit).cloned().collect();
        self.next += heard.len() as u64;
        (lost, heard)
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        let mut kept = lock(&self.feed.kept);
        if self.feed.listeners.fetch_sub(1, Ordering::Relaxed) == 1 {
            kept.first += kept.news.len() as u64;
            kept.news = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fall_asleep(feed: &Feed, nid: usize) {
        feed.record(Instant::ZERO, &Event::MmVmscanKswapdSleep { nid });
    }

    fn heard(hearing: &mut Hearing) -> (u64, usize) {
        let (lost, news) = hearing.hear(1_000);
        (lost, news.len())
    }

    #[test]
    fn a_slow_listener_learns_how_many_it_has_lost() {
        let feed = Arc::new(Feed::default());
        fall_asleep(&feed, 0);
        let mut slow = feed.listen(2).unwrap();
        let mut fast = feed.listen(2).unwrap();
        assert!(feed.listen(2).is_none());
        assert_eq!(heard(&mut slow), (0, 0), "nothing from before it came");
        for nid in 0..KEPT_LIMIT {
            fall_asleep(&feed, nid);
        }
        assert_eq!(heard(&mut fast), (0, KEPT_LIMIT));
        fall_asleep(&feed, 0);
        fall_asleep(&feed, 1);
        assert_eq!(heard(&mut fast), (0, 2));
        assert_eq!(heard(&mut slow), (2, KEPT_LIMIT));
        drop((fast, slow));
        fall_asleep(&feed, 2);
        assert_eq!(
            heard(&mut feed.listen(1).unwrap()),
            (0, 0),
            "nobody listened"
        );
        assert!(lock(&feed.kept).news.is_empty());
    }
}
