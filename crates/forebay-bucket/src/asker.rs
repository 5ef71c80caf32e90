//! Asks a bucket with patience: it waits after each try without an answer, for longer each time,
//! and gives up at last.

use crate::bucket::{Bucket, Trouble};
use crate::statistics::{BucketStatistics, Traffic};
use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_rt::say;
use forebay_rt::thread::{Stopwatch, pause_current};
use forebay_volume::{Append, Appended, Call, Progress, Reply};
use std::sync::Arc;

const FIRST_WAIT: Span = Span::from_millis(50);
const LONGEST_WAIT: Span = Span::from_secs(5);
/// A bucket that does not answer while a volume is opened: longest wait.
const OPENING_TIMEOUT: Span = Span::from_secs(30);
/// Somebody may want the thread to end.
const LOOK: Span = Span::from_millis(100);
/// Trouble that is over sooner is not reported.
const SAID_AFTER: Span = Span::from_secs(2);

/// Asks one bucket.
pub(crate) struct Asker {
    bucket: Arc<dyn Bucket>,
    /// What people call the volume.
    name: String,
    answer_timeout: Span,
    is_stopped: AtomicBool,
    /// Whoever opens the volume hears of its troubles by the error; later they are said.
    speaks: AtomicBool,
    traffic: Traffic,
    /// The trouble that was reported last and has not ended since.
    said: Mutex<Option<String>>,
}

/// The tries of one request.
#[derive(Debug)]
pub(crate) struct Tries {
    since: Stopwatch,
    wait: Span,
}

impl Tries {
    pub(crate) fn begin() -> Tries {
        Tries {
            since: Stopwatch::start(),
            wait: FIRST_WAIT,
        }
    }
}

impl Asker {
    pub(crate) fn new(bucket: Arc<dyn Bucket>, name: String, answer_timeout: Span) -> Asker {
        Asker {
            bucket,
            name,
            answer_timeout,
            is_stopped: AtomicBool::new(false),
            speaks: AtomicBool::new(false),
            traffic: Traffic::default(),
            said: Mutex::new(None),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Puts what was asked into `statistics`.
    pub(crate) fn count_into(&self, statistics: &mut BucketStatistics) {
        self.traffic.put_into(statistics);
    }

    /// Troubles are said from now on.
    pub(crate) fn speak(&self) {
        self.speaks.store(true, Ordering::Release);
    }

    /// No try is repeated any more.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
    }

    /// Asks once. After trouble that may pass it waits a little, and the answer is
    /// [`Reply::Unknown`]: ask again.
    ///
    /// # Errors
    /// [`Trouble`] that lasts, or has lasted for too long.
    pub(crate) fn ask(&self, call: &Call, tries: &mut Tries) -> Result<Reply, Trouble> {
        let answered = self.bucket.ask(call);
        self.traffic.count(call, answered.as_ref().ok());
        match answered {
            Ok(reply) => {
                // That an object is there, or not, is asked between tries to make it: a bucket that
                // is read and cannot be written would be tried for ever.
                if !matches!(reply, Reply::Exists | Reply::Missing) {
                    *tries = Tries::begin();
                    self.say_over();
                }
                Ok(reply)
            }
            Err(trouble) => {
                let took = tries.since.elapsed();
                let is_over = trouble.is_lasting
                    || took >= self.longest()
                    || self.is_stopped.load(Ordering::Acquire);
                if is_over || took >= SAID_AFTER {
                    self.say(&trouble);
                }
                if is_over {
                    return Err(trouble);
                }
                self.pause(tries.wait);
                tries.wait = tries.wait.saturating_mul(2).min(LONGEST_WAIT);
                Ok(Reply::Unknown)
            }
        }
    }

    /// The bytes of an object, or of a range of it; none if it is not there.
    ///
    /// # Errors
    /// As [`Asker::ask`].
    pub(crate) fn get(&self, call: &Call) -> Result<Option<Vec<u8>>, Trouble> {
        let mut tries = Tries::begin();
        loop {
            match self.ask(call, &mut tries)? {
                Reply::Bytes(bytes) => return Ok(Some(bytes)),
                Reply::Missing => return Ok(None),
                _ => {}
            }
        }
    }

    /// Makes an object.
    ///
    /// # Errors
    /// As [`Asker::ask`]; it may be made all the same.
    pub(crate) fn append(&self, append: &mut Append) -> Result<Appended, Trouble> {
        let mut tries = Tries::begin();
        loop {
            let reply = self.ask(&append.next(), &mut tries)?;
            if let Progress::Done(appended) = append.answer(reply) {
                return Ok(appended);
            }
        }
    }

    fn longest(&self) -> Span {
        if self.speaks.load(Ordering::Acquire) {
            return self.answer_timeout;
        }
        self.answer_timeout.min(OPENING_TIMEOUT)
    }

    fn pause(&self, span: Span) {
        let clock = Stopwatch::start();
        loop {
            let left = span.saturating_sub(clock.elapsed());
            if left == Span::ZERO || self.is_stopped.load(Ordering::Acquire) {
                return;
            }
            pause_current(left.min(LOOK));
        }
    }

    fn say(&self, trouble: &Trouble) {
        if !self.speaks.load(Ordering::Acquire) {
            return;
        }
        let mut said = lock(&self.said);
        if said.as_ref() != Some(&trouble.text) {
            *said = Some(trouble.text.clone());
            drop(said);
            say(format_args!("{}: {trouble}; requests wait", self.name));
        }
    }

    fn say_over(&self) {
        if lock(&self.said).take().is_some() {
            say(format_args!("{}: it answers again", self.name));
        }
    }
}
