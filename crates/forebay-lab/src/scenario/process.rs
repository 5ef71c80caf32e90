//! What the processes of a scenario do. They end when they are killed.

use super::known::latency_of;
use super::progress::Progress;
use super::script::{Access, AccessRate, Action, FilePlace, Hog};
use crate::world::{Process, World, WorldError, WorldFile};
use forebay_base::units::pages_for;
use forebay_base::{Instant, PAGE_BYTES, Span};
use std::sync::Arc;

/// A paced process that fell behind by more than this does not catch up.
const MOST_ARREARS: Span = Span::from_secs(1);

/// Pages of a hog that are touched at a time.
const HOG_PAGES: u64 = 256;

/// A process that goes on after a call that failed does so after this time.
const REST_AFTER_FAILURE: Span = Span::from_millis(100);

/// One process of a group.
pub(super) struct Actor {
    pub(super) process: Process,
    /// The group's number and name, and the process's number in it.
    pub(super) group: usize,
    pub(super) name: String,
    pub(super) number: usize,
    pub(super) progress: Arc<Progress>,
    /// Nothing that ends before this is measured.
    pub(super) measured_from: Instant,
}

/// One latency of a process of the group called `name`.
pub(super) fn note_latency(world: &World, latency: &str, name: &str, span: Span) {
    let measures = world.measures();
    measures.latency(latency, span);
    measures.latency(&format!("{latency}@{name}"), span);
}

impl Actor {
    /// Does what `action` says, until it is killed or cannot go on; the latter ends the whole run.
    /// `shared` is the file that it shares with others, if any.
    pub(super) async fn act(
        self,
        action: Action,
        shared: Option<WorldFile>,
    ) -> Result<(), WorldError> {
        let result = self.perform(action, shared).await;
        if let Err(error) = &result {
            self.progress.fail(self.group, error);
        }
        result
    }

    async fn perform(&self, action: Action, shared: Option<WorldFile>) -> Result<(), WorldError> {
        let latency = latency_of(&action).unwrap_or_default();
        match action {
            Action::Access(access) => self.access(&access, shared, latency).await,
            Action::Hog(hog) => self.hog(hog).await,
            Action::Pin {
                length_bytes,
                place,
            } => self.pin(length_bytes, &place, shared).await,
            Action::Map {
                length_bytes,
                every,
            } => self.map(length_bytes, every, latency).await,
        }
    }

    /// A call begins. If it never returns, its age counts instead.
    fn begin(&self) {
        let now = self.process.now();
        self.progress.begin_call(self.group, self.number, now);
    }

    fn note(&self, latency: &str, bytes: u64) {
        self.progress.moved(self.group, self.number, bytes);
        let now = self.process.now();
        let began = self.progress.end_call(self.group, self.number);
        // A call counts when it ends, with its whole length.
        if let Some(began) = began.filter(|_| now >= self.measured_from) {
            self.progress.note_call(self.group, now - began);
            note_latency(self.process.world(), latency, &self.name, now - began);
        }
    }

    /// A file of its own: an old one to read or to write anywhere in, an empty one to write in
    /// order.
    async fn own_file(
        &self,
        file_system: &str,
        length_bytes: Option<u64>,
        is_old: bool,
    ) -> Result<WorldFile, WorldError> {
        let name = format!("{}-{}", self.name, self.number);
        let file_system = self.process.world().file_system(file_system)?;
        match length_bytes {
            Some(length) if is_old => self.process.open_old(file_system, &name, length).await,
            _ => self.process.create(file_system, &name).await,
        }
    }

    /// The file at `place`: `shared`, which it was given, or one of its own.
    async fn file_at(
        &self,
        place: &FilePlace,
        shared: Option<WorldFile>,
        is_old: bool,
    ) -> Result<WorldFile, WorldError> {
        match (shared, place) {
            (Some(file), _) => Ok(file),
            (
                None,
                FilePlace::Own {
                    file_system,
                    length_bytes,
                },
            ) => self.own_file(file_system, *length_bytes, is_old).await,
            (None, FilePlace::Shared(_)) => {
                let problem = format!("process '{}' was given no file", self.name);
                Err(WorldError::Impossible(problem))
            }
        }
    }

    async fn access(
        &self,
        access: &Access,
        shared: Option<WorldFile>,
        latency: &str,
    ) -> Result<(), WorldError> {
        let own_length = match &access.place {
            FilePlace::Shared(_) => None,
            FilePlace::Own { length_bytes, .. } => *length_bytes,
        };
        let is_old = access.at_random || !access.writes;
        let mut file = self.file_at(&access.place, shared, is_old).await?;
        let length_bytes = own_length.or((!file.handle().is_empty()).then(|| file.handle().len()));
        let mut steps = Steps::new(self, access, length_bytes);
        let mut pace = Pace::new(self.process.now(), access.rate);
        let mut unsynced_bytes = 0;
        loop {
            let lost = pace.wait(&self.process, access.block_bytes).await;
            if lost > 0 && self.process.now() >= self.measured_from {
                self.progress.lose_turns(self.group, lost);
            }
            let at = steps.next();
            self.begin();
            let done = if access.writes {
                file.write(at, access.block_bytes).await
            } else {
                file.read(at, access.block_bytes).await.map(|_| ())
            };
            if self.is_done(access, done).await? {
                self.note(latency, access.block_bytes);
                unsynced_bytes += access.block_bytes;
            }
            if access
                .sync_every_bytes
                .is_some_and(|every| unsynced_bytes >= every)
            {
                let synced = file.sync().await;
                self.is_done(access, synced).await?;
                unsynced_bytes = 0;
            }
        }
    }

    /// Whether a call was done. One that failed ends the process, unless it goes on after a rest.
    async fn is_done(
        &self,
        access: &Access,
        done: Result<(), WorldError>,
    ) -> Result<bool, WorldError> {
        if done.is_ok() || !access.goes_on {
            return done.map(|()| true);
        }
        self.process.sleep(REST_AFTER_FAILURE).await;
        Ok(false)
    }

    /// Touches all of its memory, again and again.
    async fn hog(&self, hog: Hog) -> Result<(), WorldError> {
        let mut memory = self.process.map_anonymous(hog.length_bytes).await?;
        let mut pace = Pace::new(self.process.now(), hog.rate);
        loop {
            let mut page = 0;
            while page < memory.pages() {
                let bytes = HOG_PAGES * PAGE_BYTES as u64;
                pace.wait(&self.process, bytes.min(hog.length_bytes)).await;
                memory.touch(page, HOG_PAGES).await?;
                let touched = HOG_PAGES.min(memory.pages() - page);
                self.progress
                    .moved(self.group, self.number, touched * PAGE_BYTES as u64);
                page += touched;
            }
            self.process.sleep(hog.rest).await;
        }
    }

    /// Holds pages until it is killed.
    async fn pin(
        &self,
        length_bytes: u64,
        place: &FilePlace,
        shared: Option<WorldFile>,
    ) -> Result<(), WorldError> {
        let file = self.file_at(place, shared, true).await?;
        let mut held = Vec::new();
        for page in 0..pages_for(length_bytes) {
            held.push(file.handle().page(page).await?);
            self.progress
                .moved(self.group, self.number, PAGE_BYTES as u64);
        }
        self.process.world().over().await;
        drop(held);
        Ok(())
    }

    async fn map(&self, length_bytes: u64, every: Span, latency: &str) -> Result<(), WorldError> {
        loop {
            self.begin();
            let mut memory = self.process.map_anonymous(length_bytes).await?;
            memory.touch_all().await?;
            memory.unmap().await;
            self.note(latency, length_bytes);
            self.process.sleep(every).await;
        }
    }
}

/// The places of a file that are used one after the other.
struct Steps {
    next_bytes: u64,
    block_bytes: u64,
    /// Whole blocks of the file; none if it grows for ever.
    blocks: Option<u64>,
    chance: Option<forebay_base::Prng>,
}

impl Steps {
    fn new(actor: &Actor, access: &Access, length_bytes: Option<u64>) -> Steps {
        let stream = || format!("{} {}", actor.name, actor.number);
        let world = actor.process.world();
        Steps {
            next_bytes: 0,
            block_bytes: access.block_bytes,
            blocks: length_bytes.map(|length| (length / access.block_bytes).max(1)),
            chance: access.at_random.then(|| world.chance(&stream())),
        }
    }

    /// Where the next call goes.
    fn next(&mut self) -> u64 {
        if let (Some(chance), Some(blocks)) = (&mut self.chance, self.blocks) {
            return chance.below(blocks) * self.block_bytes;
        }
        let at = self.next_bytes;
        self.next_bytes += self.block_bytes;
        let end = self.blocks.map(|blocks| blocks * self.block_bytes);
        if end.is_some_and(|end| self.next_bytes >= end) {
            self.next_bytes = 0;
        }
        at
    }
}

/// A process with a bounded amount of work.
struct Pace {
    due: Instant,
    rate: Option<AccessRate>,
}

impl Pace {
    fn new(now: Instant, rate: Option<AccessRate>) -> Pace {
        Pace { due: now, rate }
    }

    /// Waits until the next `bytes` are due. Returns how many turns came too late and are left out:
    /// one is too late when the next is due.
    async fn wait(&mut self, process: &Process, bytes: u64) -> u64 {
        let Some(rate) = self.rate else { return 0 };
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.bytes_per_s);
        let turn = Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let now = process.now();
        let mut lost = 0;
        if self.due > now {
            process.sleep(self.due - now).await;
        } else if rate.loses_late_turns {
            lost = (now - self.due).as_nanos() / turn.as_nanos().max(1);
            self.due += Span::from_nanos(lost * turn.as_nanos());
        } else if now - self.due > MOST_ARREARS {
            self.due = now;
        }
        self.due += turn;
        lost
    }
}
