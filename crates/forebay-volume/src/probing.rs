//! Does a bucket have put-if-absent, and do its listings show what was just made? It is asked to
//! make one object twice, and to list it.

use crate::append::{Append, Appended};
use crate::call::{Call, Progress, Reply};
use crate::fault::VolumeFault;
use crate::name::PROBE_PREFIX;
use std::sync::Arc;

const FIRST: &[u8] = b"made first";
const SECOND: &[u8] = b"made although it was there";

/// Makes an object, makes it again with other bytes, looks which are there, and lists it.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    key: String,
    step: Step,
}

#[derive(Clone, Debug)]
enum Step {
    First(Append),
    Again,
    Look,
    List,
    Remove,
}

impl Probe {
    pub(crate) fn new(key: String) -> Probe {
        let first = Append::new(key.clone(), FIRST.to_vec());
        Probe {
            key,
            step: Step::First(first),
        }
    }

    pub(crate) fn next(&self) -> Call {
        let key = self.key.clone();
        match &self.step {
            Step::First(append) => append.next(),
            Step::Again => Call::Make {
                key,
                bytes: Arc::new(SECOND.to_vec()),
            },
            Step::Look => Call::Get { key, range: None },
            Step::List => Call::List {
                prefix: PROBE_PREFIX,
            },
            Step::Remove => Call::Remove { key },
        }
    }

    pub(crate) fn answer(&mut self, reply: Reply) -> Result<Progress<()>, VolumeFault> {
        match (&mut self.step, reply) {
            (Step::First(append), reply) => match append.answer(reply) {
                Progress::More => {}
                Progress::Done(Appended::Ours) => self.step = Step::Again,
                Progress::Done(Appended::Theirs) => return Err(VolumeFault::NoPutIfAbsent),
            },
            (Step::Again, Reply::Exists) => self.step = Step::Look,
            (Step::Look, Reply::Bytes(found)) if found == FIRST => self.step = Step::List,
            (Step::List, Reply::Keys(keys)) => {
                if !keys.iter().any(|(key, _)| *key == self.key) {
                    return Err(VolumeFault::LateListing);
                }
                self.step = Step::Remove;
            }
            (Step::Remove, Reply::Done | Reply::Missing) => return Ok(Progress::Done(())),
            (_, Reply::Unknown) => {}
            _ => return Err(VolumeFault::NoPutIfAbsent),
        }
        Ok(Progress::More)
    }
}
