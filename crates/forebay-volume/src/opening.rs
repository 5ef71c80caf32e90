//! Opens a volume: makes it if that was asked, reads it, and takes it over from the last writer.
//!
//! - invariant VB4: a writer has the volume only if its opening record is the first object that was
//!   ever made at that place of the log. `gc` never removes opening records, so the writer before
//!   finds this one at the place of its own next record, and cannot commit any more. A place that
//!   `gc` has emptied does not count: a writer that makes a record there sees a map that covers it.
//! - invariant VB11: the last answer of an opening is a list without a map newer than its state.
//!   Objects of a state go only behind such a map (VB8, VB9, VB10), so all of them were there then.
//!   A list before it is not enough: while the map that it showed was read, another writer may have
//!   taken the volume over, and removed objects before that map.

use crate::append::{Append, Appended};
use crate::call::{Call, Progress, Reply};
use crate::fault::VolumeFault;
use crate::manifest::Manifest;
use crate::map::Map;
use crate::name::{MANIFEST_KEY, MAP_PREFIX, log_key, map_key, probe_key};
use crate::probing::Probe;
use crate::reading::{Reading, newest};
use crate::record::{Body, Record, WHO_BYTES};

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
}

/// Opens a volume.
#[derive(Debug)]
pub struct Opening {
    access: Access,
    step: Step,
    /// The bucket has put-if-absent. It is found out once: the removal of the first try's object
    /// may come late, in the middle of a second try.
    is_probed: bool,
}

#[derive(Debug)]
enum Step {
    Manifest,
    /// Before a volume is made (none) or opened for writing.
    Probe(Probe, Option<Manifest>),
    Make(Append),
    Read(Manifest, Box<Reading>),
    Fence(Box<Fence>),
}

/// The opening record is being made, or was made.
#[derive(Debug)]
struct Fence {
    opened: Opened,
    append: Append,
    /// Whether it is there, and maps newer than `known` are looked for.
    is_made: bool,
    /// Maps up to this one have nothing that `opened` lacks.
    known: u64,
    /// A newer map, which says whether the record counts.
    newer: Option<u64>,
}

impl Opening {
    /// Opens a volume with `access`.
    pub fn new(access: Access) -> Opening {
        Opening {
            access,
            step: Step::Manifest,
            is_probed: false,
        }
    }

    /// What to ask now.
    pub fn next(&self) -> Call {
        match &self.step {
            Step::Manifest => Call::Get {
                key: MANIFEST_KEY.to_owned(),
                range: None,
            },
            Step::Probe(probe, _) => probe.next(),
            Step::Make(append) => append.next(),
            Step::Read(_, reading) => reading.next(),
            Step::Fence(fence) => fence.next(),
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
                    self.step = self.found(manifest)?;
                }
                Reply::Missing => self.step = self.not_found()?,
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
                if let Progress::Done(map) = reading.answer(reply)? {
                    let opened = Opened {
                        manifest,
                        map,
                        base: reading.base(),
                    };
                    let Access::Write(writing) = &self.access else {
                        return Ok(Progress::Done(opened));
                    };
                    self.step = Step::Fence(Box::new(Fence::new(opened, writing)?));
                }
            }
            Step::Fence(fence) => {
                let manifest = fence.opened.manifest;
                match fence.answer(reply)? {
                    Progress::More => {}
                    Progress::Done(Fenced::Has(opened)) => return Ok(Progress::Done(opened)),
                    Progress::Done(Fenced::Again) => self.step = read(manifest),
                }
            }
        }
        Ok(Progress::More)
    }

    fn found(&self, manifest: Manifest) -> Result<Step, VolumeFault> {
        let Access::Write(writing) = &self.access else {
            return Ok(read(manifest));
        };
        match writing.create {
            Some(asked) if asked.length_bytes != manifest.length_bytes => {
                Err(VolumeFault::WrongLength {
                    found_bytes: manifest.length_bytes,
                    asked_bytes: asked.length_bytes,
                })
            }
            _ if self.is_probed => Ok(read(manifest)),
            _ => Ok(Step::Probe(
                Probe::new(probe_key(writing.writer)),
                Some(manifest),
            )),
        }
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
    Step::Read(manifest, Box::new(Reading::new(manifest)))
}

enum Fenced {
    Has(Opened),
    /// Somebody was faster.
    Again,
}

impl Fence {
    /// # Errors
    /// [`VolumeFault::InUse`].
    fn new(mut opened: Opened, writing: &Writing) -> Result<Fence, VolumeFault> {
        let map = &mut opened.map;
        if map.is_open() && !writing.take_over && map.writer() != writing.writer {
            return Err(VolumeFault::InUse {
                who: map.who().to_owned(),
            });
        }
        let mut who = writing.who.clone();
        who.truncate(who.floor_char_boundary(WHO_BYTES));
        let record = Record {
            number: map.number() + 1,
            epoch: map.epoch() + 1,
            writer: writing.writer,
            settled: 0,
            prior: map.checksum(),
            body: Body::Open { who },
        };
        let (bytes, checksum) = record.encode();
        let number = record.number;
        map.apply(&opened.manifest, &record, checksum)?;
        Ok(Fence {
            opened,
            append: Append::new(log_key(number), bytes),
            is_made: false,
            known: number - 1,
            newer: None,
        })
    }

    fn next(&self) -> Call {
        match self.newer {
            Some(number) => Call::Get {
                key: map_key(number),
                range: None,
            },
            None if self.is_made => Call::List { prefix: MAP_PREFIX },
            None => self.append.next(),
        }
    }

    fn answer(&mut self, reply: Reply) -> Result<Progress<Fenced>, VolumeFault> {
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
            (Some(_), Reply::Missing) => self.newer = None,
            (None, Reply::Keys(keys)) if self.is_made => match newest(&keys) {
                newest if newest <= self.known => {
                    return Ok(Progress::Done(Fenced::Has(self.opened.clone())));
                }
                newest => self.newer = Some(newest),
            },
            (None, reply) if !self.is_made => match self.append.answer(reply) {
                Progress::More => {}
                Progress::Done(Appended::Ours) => self.is_made = true,
                Progress::Done(Appended::Theirs) => return Ok(Progress::Done(Fenced::Again)),
            },
            _ => {}
        }
        Ok(Progress::More)
    }
}
