//! A store that only reads and follows the volume's writer: it looks for new records after an
//! interval, and at once if an object is missing that its state names.
//!
//! - invariant BS5: each state that is served is one of the writer's records, and none is followed
//!   by an older one. What a cache has of a state before is dropped after the newer one is served,
//!   again and again until nothing of it is left.

use crate::error::BucketError;
use crate::retrying_client::pause_while;
use crate::volume_client::VolumeClient;
use forebay_base::Span;
use forebay_base::sync::{Mutex, lock};
use forebay_rt::say;
use forebay_rt::wait::{Gate, WaitQueue, either};
use forebay_volume::{Access, Manifest, Opened, Opening, PAGE_BYTES};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// After a look that failed the next one reads the whole map again.
const RETRY_INTERVAL: Span = Span::from_secs(2);

/// Drops what a cache has of a range of bytes. False: something is left of it, because it is in use
/// at the moment.
pub(crate) type Drops = Arc<dyn Fn(Range<u64>) -> bool + Send + Sync>;

/// See above. One thread waits for [`Following::is_due`] and looks.
pub(crate) struct Following {
    interval: Span,
    state: Mutex<State>,
    looked: WaitQueue,
    stopped: Gate,
}

#[derive(Default)]
struct State {
    /// How many looks have begun, and how many have ended.
    begun: u64,
    ended: u64,
    is_wanted: bool,
    drops: Option<Drops>,
    /// Pages that are to be dropped, by their first bytes.
    changed: BTreeSet<u64>,
}

impl fmt::Debug for Following {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Following")
            .field("interval", &self.interval)
            .finish_non_exhaustive()
    }
}

impl Following {
    pub(crate) fn new(interval: Span) -> Following {
        Following {
            interval,
            state: Mutex::default(),
            looked: WaitQueue::new(),
            stopped: Gate::new(false),
        }
    }

    /// A cache with pages of the volume drops them with `drops`.
    pub(crate) fn tell(&self, drops: Drops) {
        lock(&self.state).drops = Some(drops);
    }

    /// Waits until the next look is due, a little longer if the last one `has_failed`. False: it is
    /// stopped.
    pub(crate) fn is_due(&self, has_failed: bool) -> bool {
        let least = if has_failed {
            RETRY_INTERVAL
        } else {
            Span::ZERO
        };
        pause_while(self.interval.max(least), || {
            self.drop_changed();
            !self.stopped.is_open() && !lock(&self.state).is_wanted
        });
        let mut state = lock(&self.state);
        state.begun += 1;
        state.is_wanted = false;
        !self.stopped.is_open()
    }

    /// The look has ended; what lies in `changed` is not what it was.
    pub(crate) fn looked(&self, changed: Vec<Range<u64>>) {
        lock(&self.state).ended += 1;
        self.looked.wake_all();
        let Some(drops) = lock(&self.state).drops.clone() else {
            return;
        };
        let left = changed.into_iter().filter(|range| !drops(range.clone()));
        let pages = left.flat_map(|range| range.step_by(PAGE_BYTES as usize));
        let pages: Vec<u64> = pages.collect();
        lock(&self.state).changed.extend(pages);
        self.drop_changed();
    }

    /// Each page goes by itself: its neighbours may have been read since.
    fn drop_changed(&self) {
        let (drops, changed) = {
            let mut state = lock(&self.state);
            (state.drops.clone(), std::mem::take(&mut state.changed))
        };
        let Some(drops) = drops else { return };
        let is_left = |page: &u64| !drops(*page..*page + PAGE_BYTES);
        let left: Vec<u64> = changed.into_iter().filter(is_left).collect();
        lock(&self.state).changed.extend(left);
    }

    /// Waits for the end of a look that begins after this.
    pub(crate) async fn look(&self) {
        let wanted = {
            let mut state = lock(&self.state);
            state.is_wanted = true;
            state.begun + 1
        };
        loop {
            let looked = self.looked.listen();
            if self.stopped.is_open() || lock(&self.state).ended >= wanted {
                return;
            }
            either(looked, self.stopped.wait()).await;
        }
    }

    /// The end. What keeps pages may keep the store.
    pub(crate) fn stop(&self) {
        self.stopped.open();
        let drops = lock(&self.state).drops.take();
        drop(drops);
    }
}

/// Finds the newest state of a volume.
pub(crate) struct Follower {
    /// What is served: nothing else is followed.
    manifest: Manifest,
    number: u64,
    /// The state as of the last look; none if that failed.
    opened: Option<Opened>,
    /// What was said of the last looks, as long as they fail for that.
    said: Option<String>,
}

impl Follower {
    /// Follows from `opened`.
    pub(crate) fn new(opened: Opened) -> Follower {
        Follower {
            manifest: opened.manifest,
            number: opened.map.number(),
            opened: Some(opened),
            said: None,
        }
    }

    /// Whether the last look has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.opened.is_none()
    }

    /// The newest state, if it is newer than the last one.
    pub(crate) fn look(&mut self, volume: &Arc<VolumeClient>) -> Option<Opened> {
        match self.newest(volume) {
            // It has been said, and will be over.
            Err(BucketError::Bucket(_)) => None,
            Err(error) => {
                self.say(volume, error.to_string());
                None
            }
            Ok(opened) if opened.manifest != self.manifest => {
                let text = if opened.manifest.id == self.manifest.id {
                    "its length has changed"
                } else {
                    "another volume lies there now"
                };
                self.say(volume, format!("{text}; restart this server to serve that"));
                // So that the next look is short, and a length that comes back is served.
                self.opened = Some(opened);
                None
            }
            Ok(opened) => {
                self.said = None;
                let is_newer = opened.map.number() > self.number;
                self.number = self.number.max(opened.map.number());
                let newer = is_newer.then(|| opened.clone());
                self.opened = Some(opened);
                newer
            }
        }
    }

    fn newest(&mut self, volume: &Arc<VolumeClient>) -> Result<Opened, BucketError> {
        if let Some(opened) = self.opened.take() {
            match volume.finish(Opening::following(opened), |_| Ok(())) {
                // What it needed next may have been removed.
                Err(BucketError::Volume(_)) => {}
                found => return found,
            }
        }
        volume.open(Access::Read)
    }

    fn say(&mut self, volume: &VolumeClient, text: String) {
        if self.said.as_ref() != Some(&text) {
            say(format_args!(
                "{}: it is served as it was at record {}: {text}",
                volume.client.name(),
                self.number
            ));
        }
        self.said = Some(text);
    }
}
