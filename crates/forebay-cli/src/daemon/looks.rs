//! What a server looks at every five seconds while it runs.
//!
//! All looks are one task's: each wake-up of an idle server costs its machine more than the looks
//! themselves do.

use forebay::{Cache, Statistics};
use forebay_base::Span;
use forebay_rt::Rt;

/// The pause between two looks.
pub(super) const INTERVAL: Span = Span::from_secs(5);

/// Gets the cache's statistics, and returns whether there is anything left to look for.
type Look = Box<dyn FnMut(&Statistics) -> bool + Send>;

/// The looks of one server.
#[derive(Default)]
pub(crate) struct Looks(Vec<Look>);

impl Looks {
    /// The same with another one.
    #[must_use]
    pub(crate) fn with(mut self, look: impl FnMut(&Statistics) -> bool + Send + 'static) -> Looks {
        self.0.push(Box::new(look));
        self
    }

    /// Looks for as long as there is anything to look for.
    pub(crate) fn begin(mut self, cache: &Cache, rt: &Rt) {
        let (cache, timer) = (cache.clone(), rt.clone());
        rt.spawn("looks", async move {
            while !self.0.is_empty() {
                timer.sleep(INTERVAL).await;
                self.look(&cache.statistics());
            }
        });
    }

    fn look(&mut self, statistics: &Statistics) {
        self.0.retain_mut(|look| look(statistics));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::Settings;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_look_ends_alone_when_nothing_is_left_to_look_for() {
        let settings = Settings {
            memory_bytes: 8 << 20,
            ..Settings::default()
        };
        let cache = Cache::new(settings).expect("the settings are good");
        let counts = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
        let [once, always] = counts.clone();
        let mut looks = Looks::default()
            .with(move |_| {
                once.fetch_add(1, Ordering::Relaxed);
                false
            })
            .with(move |_| {
                always.fetch_add(1, Ordering::Relaxed);
                true
            });
        for _ in 0..3 {
            looks.look(&cache.statistics());
        }
        assert_eq!(counts.map(|it| it.load(Ordering::Relaxed)), [1, 3]);
    }
}
