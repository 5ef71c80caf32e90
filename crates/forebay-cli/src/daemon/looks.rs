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
                let statistics = cache.statistics();
                self.0.retain_mut(|look| look(&statistics));
            }
        });
    }
}
