//! Opens a volume: makes it if that was asked, reads it, and takes it over from the last writer.
//!
//! - invariant VB4: a writer has the volume only if both copies of its opening record are there,
//!   the first one made by put-if-absent before the second. `gc` never removes opening records, so
//!   the writer before finds a copy at the place of its own next record, and cannot commit any
//!   more, even if the other copy is lost. A place that `gc` has emptied does not count: a writer
//!   that makes a record there sees a map that covers it.
//! - invariant VB11: the last answer of an opening for writing is a list without a map newer than
//!   its state. Objects of a state go only behind such a map (VB8, VB9, VB10), so all of them were
//!   there then. A list before it is not enough: while the map that it showed was read, another
//!   writer may have taken the volume over, and removed objects before that map.
//! - invariant VB18: what a writer begins with has two copies. One that is lonely is completed
//!   before the opening record is made.

use crate::append::{Append, Appended};
use crate::call::{Call, Progress, Reply};
use crate::copying::{Copied, Copying};
use crate::fault::VolumeFault;
use crate::layer::Staged;
use crate::manifest::Manifest;
use crate::map::Map;
use crate::name::{MANIFEST_KEY, MAP_PREFIX, Twin, map_key, probe_key};
use crate::probing::Probe;
use crate::reading::{Read, Reading, newest};
use crate::record::{Body, Record, WHO_BYTES};
use crate::twins::Twins;

/// How a volume is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// To be read.
    Read,
    /// To be written, by nobody else.
    Write(Writing),
}

/// Who writes, and what it may do for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writing {
    /// A number that no other writer has.
    pub writer: u128,
    /// What it says of itself, cut to [`WHO_BYTES`]: host and process.
    pub who: String,
    /// Make the volume if nothing is there. One that is there must have this length.
    pub create: Option<Manifest>,
    /// Open it although the last writer has not closed it.
    pub take_over: bool,
}

/// An open volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// What never changes.
    pub manifest: Manifest,
    /// Where everything is.
    pub map: Map,
    /// The record of the newest map object; 0 if there is none.
    pub base: u64,
    /// The record of the map object before that one; 0 if a listing shows none.
    pub older: u64,
    /// The record of the newest map object that a record names.
    pub mapped: u64,
    /// The last record, if it was read, has to be completed before anything is built on it.
    pub(crate) last: Option<Copying>,
}

/// Opens a volume.
#[derive(Debug)]
pub struct Opening {
    access: Access,
    step: Step,
    /// The bucket has put-if-absent. It is found out once: the removal of the first try's object
    /// may come late, in the middle of a second try.
    is_probed: bool,
    /// There is no manifest, and there is a record.
    is_traced: bool,
    /// The record of which two different copies were found.
    split: u64,
}

#[derive(Debug)]
enum Step {
    Manifest,
    /// No manifest is there. If there is a record, it was lost.
    Trace(Twin),
    /// Before a volume is made (none) or opened for writing.
    Probe(Probe, Option<Manifest>),
    Make(Append),
    Read(Manifest, Box<Reading>),
    /// The last record gets its other copy.
    Complete(Box<Opened>, Copying),
    Fence(Box<Fence>),
}

/// The opening record is being made, or was made.
#[derive(Debug)]
struct Fence {
    opened: Opened,
    twins: Twins,
    /// The copy that is being made; none if both are there, and maps newer than `known` are looked
    /// for.
    making: Option<Twin>,
    /// Maps up to this one have nothing that `opened` lacks.
    known: u64,
    /// A newer map, which says whether the record counts.
    newer: Option<u64>,
    /// One that was listed and is not there.
    missing: u64,
}

impl Opening {
    /// Opens a volume with `access`.
    pub fn new(access: Access) -> Opening {
        Opening {
            access,
            step: Step::Manifest,
            is_probed: false,
            is_traced: false,
            split: 0,
        }
    }

    /// Goes on from `opened`, which is to be read, to the newest record. What fails as damaged or
    /// missing may have been removed meanwhile: open the volume again then.
    pub fn following(opened: Opened) -> Opening {
        let Opened {
            manifest,
            map,
            base,
            older,
            mapped,
            ..
        } = opened;
        let read = Read {
            map,
            base,
            older,
            mapped,
            last: None,
        };
        let reading = Reading::following(manifest.as_made(), read);
        Opening {
            step: Step::Read(manifest, Box::new(reading)),
            ..Opening::new(Access::Read)
        }
    }

    /// What to ask now.
    pub fn next(&self) -> Call {
        match &self.step {
            Step::Manifest => Call::Get {
                key: MANIFEST_KEY.to_owned(),
                range: None,
            },
            Step::Trace(twin) => Call::Get {
                key: twin.key(1),
                range: None,
            },
            Step::Probe(probe, _) => probe.next(),
            Step::Make(append) => append.next(),
            Step::Read(_, reading) => reading.next(),
            Step::Complete(_, copying) => copying.next(),
            Step::Fence(fence) => fence.next(),
        }
    }

    /// The objects that will be asked for after [`Opening::next`], if they are there: up to `count`
    /// records. They may be read before that. That one is not there says nothing about later.
    pub fn ahead(&self, count: u64) -> Vec<String> {
        match &self.step {
            Step::Read(_, reading) => reading.ahead(count),
            _ => Vec::new(),
        }
    }

    /// The volume that the next steps take over from its last writer. Nothing of it has changed
    /// when this is known first.
    pub fn candidate(&self) -> Option<&Manifest> {
        match &self.step {
            Step::Complete(opened, _) => Some(&opened.manifest),
            Step::Fence(fence) => Some(&fence.opened.manifest),
            _ => None,
        }
    }

    /// Takes the answer to [`Opening::next`].
    ///
    /// # Errors
    /// [`VolumeFault`]; nothing is open then.
    pub fn answer(&mut self, reply: Reply) -> Result<Progress<Opened>, VolumeFault> {
        match &mut self.step {
            Step::Manifest => match reply {
                Reply::Bytes(bytes) => {
                    let manifest = Manifest::decode(&bytes)?;
                    self.step = self.found(manifest);
                }
                Reply::Missing if self.is_traced => {
                    let key = MANIFEST_KEY.to_owned();
                    return Err(VolumeFault::Missing { key });
                }
                Reply::Missing => self.step = Step::Trace(Twin::First),
                _ => {}
            },
            Step::Trace(twin) => match (reply, *twin) {
                // Another writer may have made the volume meanwhile.
                (Reply::Bytes(_), _) => {
                    self.is_traced = true;
                    self.step = Step::Manifest;
                }
                (Reply::Missing, Twin::First) => self.step = Step::Trace(Twin::Second),
                (Reply::Missing, Twin::Second) => self.step = self.not_found()?,
                _ => {}
            },
            Step::Probe(probe, manifest) => {
                if let Progress::Done(()) = probe.answer(reply)? {
                    let manifest = *manifest;
                    self.is_probed = true;
                    self.step = self.probed(manifest);
                }
            }
            Step::Make(append) => {
                if let Progress::Done(_) = append.answer(reply) {
                    // If another one made it, it is judged as any that is found.
                    self.step = Step::Manifest;
                }
            }
            Step::Read(manifest, reading) => {
                let manifest = *manifest;
                if let Progress::Done(read) = reading.answer(reply)? {
                    let mut opened = Opened::new(manifest, read);
                    let Access::Write(writing) = &self.access else {
                        return Ok(Progress::Done(opened));
                    };
                    writing.check(&opened)?;
                    self.step = match opened.last.take() {
                        Some(copying) => Step::Complete(Box::new(opened), copying),
                        None => Step::Fence(Box::new(Fence::new(opened, writing, false)?)),
                    };
                }
            }
            Step::Complete(opened, copying) => {
                if let Progress::Done(copied) = copying.answer(reply) {
                    let opened = opened.take();
                    self.step = self.completed(opened, copied)?;
                }
            }
            Step::Fence(fence) => {
                let manifest = fence.opened.manifest;
                match fence.answer(reply)? {
                    Progress::More => {}
                    Progress::Done(Fenced::Has(opened)) => return Ok(Progress::Done(*opened)),
                    Progress::Done(Fenced::Again) => self.step = read(manifest),
                }
            }
        }
        Ok(Progress::More)
    }

    /// The last record has been completed, if it can be.
    fn completed(&mut self, opened: Opened, copied: Copied) -> Result<Step, VolumeFault> {
        let number = opened.map.number();
        // The copy that was read may be lost since then, so it is looked at once more.
        let is_new = copied == Copied::Differs && self.split != number;
        let Access::Write(writing) = &self.access else {
            return Ok(read(opened.manifest));
        };
        if is_new || copied == Copied::IsOther {
            self.split = number;
            return Ok(read(opened.manifest));
        }
        let fence = Fence::new(opened, writing, copied == Copied::Differs)?;
        Ok(Step::Fence(Box::new(fence)))
    }

    fn found(&self, manifest: Manifest) -> Step {
        let Access::Write(writing) = &self.access else {
            return read(manifest);
        };
        if self.is_probed {
            return read(manifest);
        }
        let probe = Probe::new(probe_key(writing.writer));
        Step::Probe(probe, Some(manifest))
    }

    fn not_found(&self) -> Result<Step, VolumeFault> {
        match &self.access {
            Access::Write(writing) if writing.create.is_some() => {
                Ok(Step::Probe(Probe::new(probe_key(writing.writer)), None))
            }
            _ => Err(VolumeFault::NotThere),
        }
    }

    fn probed(&self, found: Option<Manifest>) -> Step {
        match (found, &self.access) {
            (
                None,
                Access::Write(Writing {
                    create: Some(manifest),
                    ..
                }),
            ) => Step::Make(Append::new(MANIFEST_KEY.to_owned(), manifest.encode())),
            (Some(manifest), _) => read(manifest),
            (None, _) => Step::Manifest,
        }
    }
}

fn read(manifest: Manifest) -> Step {
    Step::Read(manifest, Box::new(Reading::new(manifest.as_made())))
}

enum Fenced {
    Has(Box<Opened>),
    /// Somebody was faster.
    Again,
}

impl Opened {
    /// The volume with `manifest` as it was when `map` was kept as a snapshot, to be read.
    pub fn of_snapshot(manifest: Manifest, map: Map) -> Opened {
        let base = map.number();
        let read = Read {
            map,
            base,
            older: 0,
            mapped: base,
            last: None,
        };
        Opened::new(manifest, read)
    }

    /// The record of the map that stays with the newest one, if a map is made of what was opened.
    pub fn stays(&self) -> u64 {
        if self.map.number() > self.base {
            return self.base;
        }
        self.older
    }

    /// What was opened. Nothing is left: the map of a large volume is not copied.
    fn take(&mut self) -> Opened {
        let manifest = self.manifest;
        let nothing = Read {
            map: Map::new(&manifest),
            base: 0,
            older: 0,
            mapped: 0,
            last: None,
        };
        std::mem::replace(self, Opened::new(manifest, nothing))
    }

    fn new(manifest: Manifest, read: Read) -> Opened {
        Opened {
            manifest: read.map.manifest(&manifest),
            map: read.map,
            base: read.base,
            older: read.older,
            mapped: read.mapped,
            last: read.last.map(Copying::new),
        }
    }
}

impl Writing {
    /// # Errors
    /// [`VolumeFault::WrongLength`], [`VolumeFault::InUse`].
    fn check(&self, opened: &Opened) -> Result<(), VolumeFault> {
        let (map, found_bytes) = (&opened.map, opened.manifest.length_bytes);
        let asked_bytes = self.create.map_or(found_bytes, |asked| asked.length_bytes);
        if asked_bytes != found_bytes {
            return Err(VolumeFault::WrongLength {
                found_bytes,
                asked_bytes,
            });
        }
        if map.is_open() && !self.take_over && map.writer() != self.writer {
            return Err(VolumeFault::InUse {
                who: map.who().to_owned(),
            });
        }
        Ok(())
    }
}

impl Fence {
    /// If the copies of the last record differ, another writer may have the next epoch already.
    fn new(mut opened: Opened, writing: &Writing, differ: bool) -> Result<Fence, VolumeFault> {
        let map = &mut opened.map;
        let mut who = writing.who.clone();
        who.truncate(who.floor_char_boundary(WHO_BYTES));
        let record = Record {
            number: map.number() + 1,
            epoch: map.epoch() + 1 + u64::from(differ),
            writer: writing.writer,
            settled: 0,
            prior: map.checksum(),
            mapped: opened.mapped,
            body: Body::Open { who },
        };
        let (bytes, checksum) = record.encode();
        let number = record.number;
        map.apply(&opened.manifest, &record, checksum)?;
        Ok(Fence {
            opened,
            twins: Twins::new(number, bytes, Staged::new()),
            making: Some(Twin::First),
            known: number - 1,
            newer: None,
            missing: 0,
        })
    }

    fn next(&self) -> Call {
        if let Some(number) = self.newer {
            return Call::Get {
                key: map_key(number),
                range: None,
            };
        }
        let call = self.making.and_then(|twin| self.twins.next(twin));
        call.unwrap_or(Call::List { prefix: MAP_PREFIX })
    }

    fn answer(&mut self, reply: Reply) -> Result<Progress<Fenced>, VolumeFault> {
        if let Some(twin) = self.making {
            if self.twins.answer(twin, reply) == Progress::Done(Appended::Theirs) {
                return Ok(Progress::Done(Fenced::Again));
            }
            if self.twins.next(twin).is_none() {
                self.making = (twin == Twin::First).then_some(Twin::Second);
            }
            return Ok(Progress::More);
        }
        match (self.newer, reply) {
            (Some(number), Reply::Bytes(bytes)) => {
                let map = Map::decode(&self.opened.manifest, number, &bytes)?;
                // The map covers the record: it counts if the replay met it.
                if map.writer() != self.opened.map.writer() {
                    return Ok(Progress::Done(Fenced::Again));
                }
                self.known = number;
                self.newer = None;
            }
            // Newer ones have replaced it, or it was lost: another one says the same.
            (Some(number), Reply::Missing) => {
                self.missing = number;
                self.newer = None;
            }
            (None, Reply::Keys(keys)) => match newest(&keys, self.missing) {
                newest if newest <= self.known => {
                    return Ok(Progress::Done(Fenced::Has(Box::new(self.opened.take()))));
                }
                newest => self.newer = Some(newest),
            },
            _ => {}
        }
        Ok(Progress::More)
    }
}
