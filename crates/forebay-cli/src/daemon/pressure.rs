//! Watches the memory of the machine for a cache whose budget gives way (`--memory FLOOR..SIZE`).
//!
//! The thread sleeps in `poll`: until the kernel reports pressure, or until the cache wants another
//! look. What follows from a look is the cache's business.

use crate::daemon::say::say;
use crate::error::CommandError;
use forebay::Cache;
use forebay::elastic::{Cause, MemorySeen, MemoryStep, Scarce, margin_bytes};
use forebay_base::Span;
use forebay_base::units::show_bytes;
use forebay_host::{Room, Sight, pressure_file, stalled_us};
use forebay_rt::thread::Stopwatch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Programs that wait for 150 ms in all within 2 s are pressure. Without a privilege the window
/// must be a multiple of 2 s, and the kernel wants the byte at the end.
const TRIGGER: &[u8] = b"some 150000 2000000\0";
const TRIGGER_PER_MILLE: u64 = 75;
/// After this time a look is repeated that the system did not answer.
const BLIND_INTERVAL: Span = Span::from_secs(5);

/// Watches for `cache` until the program ends, if its budget is elastic.
pub(crate) fn watch(cache: &Cache) -> Result<(), CommandError> {
    if cache.statistics().elastic.is_none() {
        return Ok(());
    }
    let pressure = Pressure::open(pressure_file().as_deref());
    announce(cache, &pressure);
    let cache = cache.clone();
    let watcher = forebay_rt::thread::spawn_small("memory", move || run(&cache, pressure));
    // It watches until the program ends.
    watcher
        .map(drop)
        .map_err(CommandError::system("watch the memory"))
}

fn run(cache: &Cache, mut pressure: Pressure) {
    let (mut said, mut is_pressed) = (Said::default(), false);
    let mut sight = Sight::new();
    let ceiling_bytes = cache.statistics().elastic.map(|it| it.ceiling_bytes);
    // With so much the law looks again after a second or later.
    let enough_bytes = 4 * margin_bytes(ceiling_bytes.unwrap_or(0)) + (768 << 20);
    loop {
        let room = sight.room(enough_bytes);
        said.sight(room.is_some());
        let seen = room.map(|room| seen_of(room, is_pressed));
        let look = seen.and_then(|seen| cache.memory_seen(&seen));
        if let Some(step) = look.and_then(|look| look.step) {
            said.step(&step, ceiling_bytes);
        }
        is_pressed = pressure.wait(look.map_or(BLIND_INTERVAL, |look| look.next_look));
    }
}

fn seen_of(room: Room, is_pressed: bool) -> MemorySeen {
    MemorySeen {
        headroom_bytes: room.headroom_bytes,
        free_bytes: room.free_bytes,
        is_pressed,
        scarce: if room.is_of_group {
            Scarce::Group
        } else {
            Scarce::Machine
        },
    }
}

fn announce(cache: &Cache, pressure: &Pressure) {
    let Some(elastic) = cache.statistics().elastic else {
        return;
    };
    let (most, floor) = (
        show_bytes(elastic.ceiling_bytes),
        show_bytes(elastic.floor_bytes),
    );
    say(format_args!(
        "{most} of cache, {floor} at least while other programs need memory; {pressure}"
    ));
}

/// What was reported, so that nothing is twice.
#[derive(Debug, Default)]
struct Said {
    is_blind: bool,
    is_rising: bool,
}

impl Said {
    fn sight(&mut self, is_seen: bool) {
        if is_seen == self.is_blind {
            self.is_blind = !is_seen;
            say(if is_seen {
                "the memory of the machine can be seen again"
            } else {
                "the system does not report its memory: the cache keeps the budget that it has"
            });
        }
    }

    fn step(&mut self, step: &MemoryStep, ceiling_bytes: Option<u64>) {
        if let Some(text) = self.news(step, ceiling_bytes) {
            say(text);
        }
    }

    /// Every fall, the first rise after one, and the return to the ceiling.
    fn news(&mut self, step: &MemoryStep, ceiling_bytes: Option<u64>) -> Option<String> {
        let was_rising = self.is_rising;
        self.is_rising = step.cause == Cause::Spare;
        if Some(step.to_bytes) == ceiling_bytes {
            return Some(format!("cache {step}; that is all of it"));
        }
        (!self.is_rising || !was_rising).then(|| format!("cache {step}"))
    }
}

/// The kernel's reports of pressure.
struct Pressure {
    path: Option<PathBuf>,
    /// It has an event when programs waited; none if the kernel takes no trigger.
    trigger: Option<File>,
    /// How long programs had waited at the last look, and when that was.
    stalled_us: Option<u64>,
    since: Stopwatch,
}

impl Pressure {
    fn open(path: Option<&Path>) -> Pressure {
        let mut pressure = Pressure {
            path: path.map(Path::to_owned),
            trigger: path.and_then(|path| triggered(path).ok()),
            stalled_us: None,
            since: Stopwatch::start(),
        };
        pressure.stalled_us = pressure.total_us();
        pressure
    }

    /// Sleeps until there is pressure, or for `most`. Returns whether there was some.
    fn wait(&mut self, most: Span) -> bool {
        let was_event = self.sleep(most);
        let (before_us, now_us) = (self.stalled_us, self.total_us());
        let elapsed_us = self.since.elapsed().as_micros();
        (self.stalled_us, self.since) = (now_us, Stopwatch::start());
        let Some(was_event) = was_event else {
            say("the kernel no longer reports pressure: the cache follows the free memory");
            self.trigger = None;
            return false;
        };
        let waited_us = now_us
            .unwrap_or(0)
            .saturating_sub(before_us.unwrap_or(u64::MAX));
        let is_much = waited_us > 0 && waited_us * 1_000 >= elapsed_us * TRIGGER_PER_MILLE;
        was_event || (self.trigger.is_none() && is_much)
    }

    /// Whether the trigger ended the sleep; none if it is gone.
    fn sleep(&self, most: Span) -> Option<bool> {
        let wanted = PollFlags::PRI | PollFlags::ERR;
        let mut files: Vec<PollFd<'_>> = self
            .trigger
            .iter()
            .map(|file| PollFd::new(file, wanted))
            .collect();
        let timeout = Timespec {
            tv_sec: (most.as_millis() / 1_000) as i64,
            tv_nsec: (most.as_nanos() % 1_000_000_000) as i64,
        };
        // A signal ends the sleep early, which does no harm.
        let _ = poll(&mut files, Some(&timeout));
        let seen = files.first().map_or(PollFlags::empty(), PollFd::revents);
        let gone = PollFlags::ERR | PollFlags::NVAL | PollFlags::HUP;
        (!seen.intersects(gone)).then(|| seen.contains(PollFlags::PRI))
    }

    fn total_us(&self) -> Option<u64> {
        let text = std::fs::read_to_string(self.path.as_ref()?).ok()?;
        stalled_us(&text)
    }
}

impl std::fmt::Display for Pressure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.path, &self.trigger) {
            (None, _) => write!(f, "the kernel does not report pressure"),
            (Some(path), Some(_)) => write!(f, "woken by {}", path.display()),
            (Some(path), None) => write!(f, "{} accepts no trigger and is polled", path.display()),
        }
    }
}

/// The file at `path`, with a trigger of its own.
fn triggered(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    file.write_all(TRIGGER)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Span = Span::from_millis(1);

    #[test]
    fn without_a_trigger_the_sum_of_waits_is_pressure_when_it_grows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.pressure");
        let write = |total: u64| {
            let text = format!("some avg10=0.00 total={total}\n");
            // A plain file takes any write: a folder in its place would take none.
            std::fs::write(&path, text).unwrap();
        };
        write(1_000);
        let mut pressure = Pressure::open(None);
        pressure.path = Some(path.clone());
        assert!(!pressure.wait(MOMENT), "there was no sum before");
        assert!(!pressure.wait(MOMENT), "nobody waited");
        write(u64::MAX / 2_000);
        assert!(pressure.wait(MOMENT));
        std::fs::remove_file(&path).unwrap();
        assert!(!pressure.wait(MOMENT), "the file has vanished");
        assert!(!pressure.wait(MOMENT));
    }

    #[test]
    fn a_file_that_refuses_triggers_is_read() {
        let folder = tempfile::tempdir().unwrap();
        // Nothing can be written to a folder.
        let pressure = Pressure::open(Some(folder.path()));
        assert!(pressure.trigger.is_none());
        assert!(
            pressure
                .to_string()
                .ends_with("accepts no trigger and is polled")
        );
        assert_eq!(
            Pressure::open(None).to_string(),
            "the kernel does not report pressure"
        );
    }

    #[test]
    fn falls_are_said_and_of_a_rise_its_beginning_and_its_end() {
        let step = |from_bytes: u64, to_bytes: u64| MemoryStep {
            from_bytes: from_bytes << 20,
            to_bytes: to_bytes << 20,
            cause: if from_bytes > to_bytes {
                Cause::Room
            } else {
                Cause::Spare
            },
            headroom_bytes: 50 << 20,
            scarce: Scarce::Group,
        };
        let mut said = Said::default();
        let mut news = |from, to| said.news(&step(from, to), Some(100 << 20));
        assert_eq!(
            news(100, 80).as_deref(),
            Some("cache 100 MiB -> 80 MiB: 50 MiB were left in the group")
        );
        assert!(news(80, 70).is_some());
        assert!(news(70, 80).is_some());
        assert_eq!(news(80, 90), None);
        assert!(news(90, 100).is_some_and(|text| text.ends_with("that is all of it")));
    }
}
