//! A snapshot is taken while the volume's writer and `gc` go on.
//!
//! - invariant VB23: a snapshot counts only if, after both of its copies were made, nothing says
//!   that its pin is dropped. The pin is set before the state is read. So a remover that does not
//!   see the pin knew that state or an older one (VB22), and one that drops the pin lists the
//!   snapshots afterwards and sees this one.
//!
//! Time decides nothing here: a pin that its owner has left behind may be dropped at once. Removers
//! let it stay for a while, so that a snapshot that was begun can end.

use crate::append::{Append, Appended};
use crate::call::{Call, Progress, Reply};
use crate::copying::{Copied, Copying};
use crate::fault::VolumeFault;
use crate::name::Twin;
use crate::opening::{Access, Opened, Opening};
use crate::snapshot::{Pin, Snapshot};
use crate::snapshot_name::SnapshotName;

/// The bytes of a pin.
const PIN: &[u8] = b"a snapshot is being taken\n";

/// Takes a snapshot.
#[derive(Debug)]
pub struct Snapshotting {
    name: SnapshotName,
    taken_ms: u64,
    pin: u128,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Pin(Twin, Append),
    Read(Opening),
    /// The last record gets its other copy: it may be one that does not count.
    Complete(Box<Opened>, Copying),
    Make(Twin, Append),
    /// A snapshot of this name is there: what has the first copy?
    Other,
    /// It gets its second copy, if that is missing.
    CompleteOther(Append),
    /// Does this copy say that the pin is dropped?
    Look(Twin),
    /// The end, after the removal of what is left: what says something of the pin, and the
    /// snapshot if it does not count. The next one is the last.
    Clear(Vec<String>, Result<(), VolumeFault>),
}

impl Snapshotting {
    /// Takes the snapshot `name`, at `taken_ms` milliseconds since 1970. No other one has the
    /// number `pin`.
    pub fn new(name: SnapshotName, taken_ms: u64, pin: u128) -> Snapshotting {
        Snapshotting {
            name,
            taken_ms,
            pin,
            step: pin_step(pin, Twin::First),
        }
    }

    /// What to ask now.
    pub fn next(&self) -> Call {
        match &self.step {
            Step::Pin(_, append) | Step::Make(_, append) | Step::CompleteOther(append) => {
                append.next()
            }
            Step::Read(opening) => opening.next(),
            Step::Complete(_, copying) => copying.next(),
            Step::Other => get(self.name.key(Twin::First)),
            Step::Look(twin) => get(Pin::Dropped.key(self.pin, *twin)),
            Step::Clear(keys, _) => Call::Remove {
                key: keys.last().cloned().unwrap_or_default(),
            },
        }
    }

    /// Takes the answer to [`Snapshotting::next`].
    ///
    /// # Errors
    /// [`VolumeFault`]. [`VolumeFault::PinDropped`]: it can be tried again. The pin is left to
    /// removers if the volume cannot be read.
    pub fn answer(&mut self, reply: Reply) -> Result<Progress<()>, VolumeFault> {
        let step = std::mem::replace(&mut self.step, Step::Look(Twin::First));
        self.step = match (step, reply) {
            (Step::Pin(twin, mut append), reply) => match (append.answer(reply), twin) {
                (Progress::Done(_), Twin::First) => pin_step(self.pin, Twin::Second),
                (Progress::Done(_), Twin::Second) => Step::Read(Opening::new(Access::Read)),
                (Progress::More, twin) => Step::Pin(twin, append),
            },
            (Step::Read(mut opening), reply) => match opening.answer(reply)? {
                Progress::More => Step::Read(opening),
                Progress::Done(mut opened) => match opened.last.take() {
                    // An opening changes nothing of what a snapshot names.
                    Some(copying) if copying.is_settled() => {
                        Step::Complete(Box::new(opened), copying)
                    }
                    _ => self.make(opened),
                },
            },
            (Step::Complete(opened, mut copying), reply) => match copying.answer(reply) {
                Progress::More => Step::Complete(opened, copying),
                Progress::Done(Copied::Same | Copied::Differs) => self.make(*opened),
                Progress::Done(Copied::IsOther) => Step::Read(Opening::new(Access::Read)),
            },
            (Step::Make(twin, mut append), reply) => match append.answer(reply) {
                Progress::More => Step::Make(twin, append),
                Progress::Done(Appended::Ours) => match twin {
                    Twin::First => {
                        let second = append.again_as(self.name.key(Twin::Second));
                        Step::Make(Twin::Second, second)
                    }
                    Twin::Second => Step::Look(Twin::First),
                },
                Progress::Done(Appended::Theirs) => match twin {
                    Twin::First => Step::Other,
                    // It may be the last copy of a snapshot: only the first one is our own.
                    Twin::Second => self.clear(Err(self.is_there()), &[Twin::First]),
                },
            },
            (Step::Other, Reply::Bytes(bytes)) => {
                Step::CompleteOther(self.copy(Twin::Second, bytes))
            }
            (Step::Other, Reply::Missing) => self.clear(Err(self.is_there()), &[]),
            (Step::CompleteOther(mut append), reply) => match append.answer(reply) {
                Progress::More => Step::CompleteOther(append),
                Progress::Done(_) => self.clear(Err(self.is_there()), &[]),
            },
            (Step::Look(Twin::First), Reply::Missing) => Step::Look(Twin::Second),
            (Step::Look(Twin::Second), Reply::Missing) => self.clear(Ok(()), &[]),
            (Step::Look(_), Reply::Bytes(_)) => {
                self.clear(Err(VolumeFault::PinDropped), &Twin::BOTH)
            }
            (Step::Clear(mut keys, end), Reply::Done | Reply::Missing) => {
                keys.pop();
                if keys.is_empty() {
                    return end.map(Progress::Done);
                }
                Step::Clear(keys, end)
            }
            // The same is asked again.
            (step, _) => step,
        };
        Ok(Progress::More)
    }

    fn is_there(&self) -> VolumeFault {
        VolumeFault::SnapshotExists { name: self.name }
    }

    fn make(&self, opened: Opened) -> Step {
        let snapshot = Snapshot {
            taken_ms: self.taken_ms,
            map: opened.map,
        };
        Step::Make(Twin::First, self.copy(Twin::First, snapshot.encode()))
    }

    fn copy(&self, twin: Twin, bytes: Vec<u8>) -> Append {
        Append::new(self.name.key(twin), bytes)
    }

    /// Pins go last: what does not count is gone before.
    fn clear(&self, end: Result<(), VolumeFault>, copies: &[Twin]) -> Step {
        let mut keys = Pin::keys(self.pin);
        keys.extend(copies.iter().map(|&twin| self.name.key(twin)));
        Step::Clear(keys, end)
    }
}

fn pin_step(pin: u128, twin: Twin) -> Step {
    Step::Pin(twin, Append::new(Pin::Set.key(pin, twin), PIN.to_vec()))
}

fn get(key: String) -> Call {
    Call::Get { key, range: None }
}
