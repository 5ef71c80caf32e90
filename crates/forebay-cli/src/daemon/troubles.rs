//! Reports a store that is silent or that refuses requests: once when it begins, and once when it
//! ends.

use crate::daemon::say::say;
use forebay::statistics::BackingStatistics;
use forebay::trouble::{KINDS, Trouble, silence_end_text, silence_text};
use forebay::why::OpenWait;
use forebay::{Cache, Statistics};
use forebay_base::{Instant, Span};

/// A store that has answered nothing for this long is reported.
const SILENCE: Span = Span::from_secs(5);

/// A wait of a caller that goes on for this long is reported, if no trouble of its store is.
const LONG_WAIT: Span = Span::from_secs(30);

/// What was reported of one store.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    is_silent: bool,
    /// Silences that were over at the last look.
    silences: u64,
    /// The last trouble of each kind: when it began, and whether it is over.
    troubles: [Option<(Instant, bool)>; KINDS.len()],
}

impl Reported {
    /// Whether something was reported that is not over.
    fn is_in_trouble(&self) -> bool {
        let mut troubles = self.troubles.iter().flatten();
        self.is_silent || troubles.any(|(_, is_over)| !is_over)
    }

    /// The lines for what has begun or ended at `store`, which people call `name`, since the last
    /// look.
    fn lines(&mut self, name: &str, store: &BackingStatistics) -> Vec<String> {
        let mut lines = Vec::new();
        if store.silences > self.silences {
            let lasted = Span::from_micros(store.last_silence_us);
            lines.push(silence_end_text(name, lasted));
            (self.silences, self.is_silent) = (store.silences, false);
        }
        if store.silent_us >= SILENCE.as_micros() && !self.is_silent {
            lines.push(silence_text(name, Span::from_micros(store.silent_us)));
            self.is_silent = true;
        }
        for (reported, trouble) in self.troubles.iter_mut().zip(store.troubles) {
            let Some(trouble) = trouble else { continue };
            let now = Some((trouble.since, trouble.is_over));
            if *reported != now {
                lines.push(line(&trouble, name, store.failed_pages));
                *reported = now;
            }
        }
        lines
    }
}

fn line(trouble: &Trouble, name: &str, kept_pages: u64) -> String {
    if trouble.is_over {
        trouble.end_text(name)
    } else {
        trouble.text(name, kept_pages)
    }
}

/// Reports the troubles of the stores of `cache`.
pub(crate) fn report_troubles(cache: &Cache) -> impl FnMut(&Statistics) -> bool + use<> {
    let cache = cache.clone();
    let mut reported: Vec<Reported> = Vec::new();
    let mut is_long = false;
    move |statistics| {
        reported.resize(statistics.backings.len(), Reported::default());
        let stores = statistics.backings.iter().zip(&mut reported).enumerate();
        for (bdi, (store, reported)) in stores {
            let lines = reported.lines(&cache.store_name(bdi), store);
            lines.iter().for_each(say);
        }
        let is_well = |wait: &OpenWait| {
            let store = wait.bdi.and_then(|bdi| reported.get(bdi));
            store.is_none_or(|reported| !reported.is_in_trouble())
        };
        let waits = cache.open_waits().into_iter();
        let long = waits.filter(|wait| wait.waited >= LONG_WAIT).find(is_well);
        match long {
            Some(wait) if !is_long => say(long_wait(&cache, &wait)),
            None if is_long => say("no caller waits longer than 30 s now"),
            _ => {}
        }
        is_long = long.is_some();
        true
    }
}

/// A wait that goes on although the store of its caller answers others.
fn long_wait(cache: &Cache, wait: &OpenWait) -> String {
    let (caller, cause) = (cache.caller(wait.caller), wait.cause.name());
    let of = wait.bdi.map(|bdi| format!(" of {}", cache.store_name(bdi)));
    let (of, seconds) = (of.unwrap_or_default(), wait.waited.as_millis() / 1_000);
    format!("{caller} has waited for {seconds} s: {cause}{of}; run forebay why")
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::Settings;
    use forebay_base::sync::Arc;
    use forebay_store::{Failure, IoKind, MemoryStore};

    /// A store of which nothing is known yet.
    fn well() -> BackingStatistics {
        let settings = Settings {
            memory_bytes: 8 << 20,
            ..Settings::default()
        };
        let cache = Cache::new(settings).expect("the settings are good");
        cache
            .attach(Arc::new(MemoryStore::new()))
            .expect("it is new");
        cache.statistics().backings[0]
    }

    #[test]
    fn a_trouble_is_one_line_when_it_begins_and_one_when_it_ends() {
        let mut reported = Reported::default();
        let mut store = well();
        assert!(reported.lines("store 0", &store).is_empty());
        let mut trouble = Trouble {
            kind: IoKind::Write,
            failure: Failure::NoSpace,
            requests: 1,
            since: Instant::ZERO,
            lasted: Span::from_secs(3),
            is_over: false,
        };
        let at = IoKind::Write as usize;
        store.failed_pages = 256;
        store.troubles[at] = Some(trouble);
        let began = reported.lines("store 0", &store);
        assert!(
            began[0].contains("store 0 has refused writes for 3.0 s"),
            "{began:?}"
        );
        assert!(began[0].contains("no space is left; 1 MiB"), "{began:?}");
        assert_eq!(began.len(), 1);
        trouble.requests = 900;
        store.troubles[at] = Some(trouble);
        assert!(
            reported.lines("store 0", &store).is_empty(),
            "it was reported"
        );
        trouble.is_over = true;
        store.troubles[at] = Some(trouble);
        let ended = reported.lines("store 0", &store);
        assert!(
            ended[0].contains("no longer refuses writes; 900 failed"),
            "{ended:?}"
        );
        assert!(reported.lines("store 0", &store).is_empty(), "it is over");
        trouble.since = Instant::ZERO + Span::from_secs(60);
        trouble.is_over = false;
        store.troubles[at] = Some(trouble);
        assert_eq!(reported.lines("store 0", &store).len(), 1, "another one");
    }

    #[test]
    fn a_silence_is_told_with_its_true_length() {
        let mut reported = Reported::default();
        let mut store = well();
        store.silent_us = 4_900_000;
        assert!(reported.lines("store 0", &store).is_empty());
        store.silent_us = 9_900_000;
        let began = reported.lines("store 0", &store);
        assert!(
            began[0].contains("store 0 has not answered for 9.9 s"),
            "{began:?}"
        );
        store.silent_us = 14_900_000;
        assert!(reported.lines("store 0", &store).is_empty());
        (store.silent_us, store.silences, store.last_silence_us) = (0, 1, 16_200_000);
        let ended = reported.lines("store 0", &store);
        assert_eq!(ended, ["store 0 answers again, after 16.2 s"]);
        assert!(reported.lines("store 0", &store).is_empty());
    }
}
