//! Asks a bucket with patience: it waits after each try without an answer, for longer each time,
//! and gives up at last.

use crate::bucket::{Bucket, CallError, ParentVolume};
use crate::statistics::{BucketStatistics, Traffic};
use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_rt::thread::{Stopwatch, pause_current};
use forebay_rt::{panic_text, say};
use forebay_store::Failure;
use forebay_volume::{Append, Appended, Call, Progress, Reply};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const FIRST_WAIT: Span = Span::from_millis(50);
/// A client waits for so much longer at most than the bucket is in trouble.
const LONGEST_WAIT: Span = Span::from_millis(1_500);
/// A bucket that does not answer while a volume is opened: longest wait.
const OPENING_TIMEOUT: Span = Span::from_secs(30);
/// Longest wait for an object that is missing or damaged. It may never come back, and its reader
/// needs an answer.
const BAD_TIMEOUT: Span = Span::from_secs(60);
/// Trouble that ends sooner is not reported. While a volume is being opened it is reported earlier,
/// because the caller has nothing else to look at.
const SAID_AFTER: Span = Span::from_secs(2);
const SAID_AFTER_OPENING: Span = Span::from_millis(500);

/// How long it takes at most until the end of a pause is noticed.
const LOOK: Span = Span::from_millis(100);

/// Waits for `longest`, as long as it `goes_on`, which is asked first and ten times a second.
pub(crate) fn pause_while(longest: Span, mut goes_on: impl FnMut() -> bool) {
    let clock = Stopwatch::start();
    while goes_on() {
        let left = longest.saturating_sub(clock.elapsed());
        if left == Span::ZERO {
            return;
        }
        pause_current(left.min(LOOK));
    }
}

/// Asks one bucket.
pub(crate) struct RetryingClient {
    bucket: Arc<dyn Bucket>,
    /// What people call the volume.
    name: String,
    answer_timeout: Span,
    is_stopped: AtomicBool,
    /// The volume is open, and requests wait for its troubles to end.
    is_open: AtomicBool,
    traffic: Traffic,
    /// The kind of trouble that was reported last and has not ended since. The text has the object
    /// and the time in it, which are others for each request.
    said: Mutex<Option<Failure>>,
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

impl RetryingClient {
    pub(crate) fn new(
        bucket: Arc<dyn Bucket>,
        name: String,
        answer_timeout: Span,
    ) -> RetryingClient {
        RetryingClient {
            bucket,
            name,
            answer_timeout,
            is_stopped: AtomicBool::new(false),
            is_open: AtomicBool::new(false),
            traffic: Traffic::default(),
            said: Mutex::new(None),
        }
    }

    /// For a task other than serving the volume in `bucket`.
    pub(crate) fn of_task(bucket: Arc<dyn Bucket>) -> RetryingClient {
        RetryingClient::new(bucket, "the volume".to_owned(), OPENING_TIMEOUT)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// See [`Bucket::parent`].
    pub(crate) fn parent(&self) -> Result<Option<ParentVolume>, CallError> {
        self.bucket.parent()
    }

    /// See [`Bucket::uploads_at_once`].
    pub(crate) fn uploads_at_once(&self, object_bytes: u64) -> usize {
        self.bucket.uploads_at_once(object_bytes)
    }

    /// Puts what was asked into `statistics`.
    pub(crate) fn count_into(&self, statistics: &mut BucketStatistics) {
        self.traffic.put_into(statistics);
    }

    /// The volume is open from now on.
    pub(crate) fn record_open(&self) {
        self.is_open.store(true, Ordering::Release);
    }

    fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// No try is repeated any more.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
    }

    /// Asks once. After trouble that may pass it waits a little, and the answer is
    /// [`Reply::Unknown`]: ask again.
    ///
    /// # Errors
    /// [`CallError`] that lasts, or has lasted for too long.
    pub(crate) fn ask(&self, call: &Call, tries: &mut Tries) -> Result<Reply, CallError> {
        self.ask_with(call, tries, || self.bucket.ask(call))
    }

    /// Removes objects, in one request where the bucket can; [`Reply::Unknown`] as above.
    ///
    /// # Errors
    /// As [`RetryingClient::ask`].
    pub(crate) fn remove_all(
        &self,
        keys: &[String],
        tries: &mut Tries,
    ) -> Result<Reply, CallError> {
        let Some(key) = keys.first() else {
            return Ok(Reply::Done);
        };
        let call = Call::Remove { key: key.clone() };
        let remove = || self.bucket.remove_all(keys).map(|()| Reply::Done);
        self.ask_with(&call, tries, remove)
    }

    /// Removes objects; trouble that may pass is waited for as in any other request.
    ///
    /// # Errors
    /// As [`RetryingClient::ask`].
    pub(crate) fn remove_batch(&self, keys: &[String]) -> Result<(), CallError> {
        let mut tries = Tries::begin();
        while self.remove_all(keys, &mut tries)? == Reply::Unknown {}
        Ok(())
    }

    fn ask_with(
        &self,
        call: &Call,
        tries: &mut Tries,
        ask: impl FnOnce() -> Result<Reply, CallError>,
    ) -> Result<Reply, CallError> {
        let answered = ask_bucket(ask);
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
                let is_over = self.is_final(call, &trouble)
                    || took >= self.longest()
                    || self.is_stopped.load(Ordering::Acquire);
                // An opening that fails returns the trouble as its error.
                let is_told = self.is_open() || !is_over;
                if is_told && (is_over || took >= self.said_after()) {
                    self.say(&trouble);
                }
                if is_over {
                    return Err(trouble);
                }
                self.wait_for_next(tries);
                Ok(Reply::Unknown)
            }
        }
    }

    /// Whether waiting cannot help. Once a volume is open, its clients wait while somebody renews
    /// the keys, corrects the clock or brings the bucket back. While it is being opened, the caller
    /// is the one who has to act.
    fn is_final(&self, call: &Call, trouble: &CallError) -> bool {
        let is_mended = matches!(trouble.failure, Failure::Gone | Failure::Device(13));
        let waits = self.is_open() && is_mended && !matches!(call, Call::Remove { .. });
        trouble.is_lasting && !waits
    }

    /// Waits before a bad answer about an object is asked for again.
    pub(crate) fn wait_for_better(&self, tries: &mut Tries) {
        if tries.since.elapsed() >= self.said_after() {
            let text = "objects that the volume needs are missing, or not whole";
            self.say(&CallError::lasting(text, Failure::Gone));
        }
        self.wait_for_next(tries);
    }

    fn wait_for_next(&self, tries: &mut Tries) {
        self.pause(tries.wait);
        tries.wait = tries.wait.saturating_mul(2).min(LONGEST_WAIT);
    }

    /// Whether the next answer about an object decides, if it is a bad one and the last one before
    /// these tries `was_bad` too.
    pub(crate) fn is_last_of_bad(&self, was_bad: bool, tries: &Tries) -> bool {
        let is_first = tries.wait == FIRST_WAIT;
        !is_first
            && (tries.since.elapsed() >= self.longest().min(BAD_TIMEOUT)
                || self.is_stopped.load(Ordering::Acquire)
                || was_bad)
    }

    /// The bytes of an object, or of a range of it; none if it is not there.
    ///
    /// # Errors
    /// As [`RetryingClient::ask`].
    pub(crate) fn get(&self, call: &Call) -> Result<Option<Vec<u8>>, CallError> {
        let mut tries = Tries::begin();
        loop {
            match self.ask(call, &mut tries)? {
                Reply::Bytes(bytes) => return Ok(Some(bytes)),
                Reply::Missing => return Ok(None),
                _ => {}
            }
        }
    }

    /// A whole object, if it is there.
    ///
    /// # Errors
    /// As [`RetryingClient::ask`].
    pub(crate) fn object(&self, key: &str) -> Result<Option<Vec<u8>>, CallError> {
        let call = Call::Get {
            key: key.to_owned(),
            range: None,
        };
        self.get(&call)
    }

    /// The keys that begin with `prefix`, and the lengths of their objects in bytes.
    ///
    /// # Errors
    /// As [`RetryingClient::ask`].
    pub(crate) fn list(&self, prefix: &'static str) -> Result<Vec<(String, u64)>, CallError> {
        let mut tries = Tries::begin();
        loop {
            if let Reply::Keys(keys) = self.ask(&Call::List { prefix }, &mut tries)? {
                return Ok(keys);
            }
        }
    }

    /// Makes an object.
    ///
    /// # Errors
    /// As [`RetryingClient::ask`]; it may be made all the same.
    pub(crate) fn append(&self, append: &mut Append) -> Result<Appended, CallError> {
        let mut tries = Tries::begin();
        loop {
            let reply = self.ask(&append.next(), &mut tries)?;
            if let Progress::Done(appended) = append.answer(reply) {
                return Ok(appended);
            }
        }
    }

    fn longest(&self) -> Span {
        if self.is_open() {
            return self.answer_timeout;
        }
        self.answer_timeout.min(OPENING_TIMEOUT)
    }

    fn said_after(&self) -> Span {
        if self.is_open() {
            return SAID_AFTER;
        }
        SAID_AFTER_OPENING
    }

    fn pause(&self, span: Span) {
        pause_while(span, || !self.is_stopped.load(Ordering::Acquire));
    }

    fn say(&self, trouble: &CallError) {
        let mut said = lock(&self.said);
        if *said != Some(trouble.failure) {
            *said = Some(trouble.failure);
            drop(said);
            let waiting = if self.is_open() {
                "requests wait".to_owned()
            } else {
                format!("asked again for up to {}", self.longest())
            };
            say(format_args!("{}: {trouble}; {waiting}", self.name));
        }
    }

    fn say_over(&self) {
        if lock(&self.said).take().is_some() {
            say(format_args!("{}: it answers again", self.name));
        }
    }
}

/// Asks once. A panic of the bucket ends this request and none of our threads.
fn ask_bucket(ask: impl FnOnce() -> Result<Reply, CallError>) -> Result<Reply, CallError> {
    catch_unwind(AssertUnwindSafe(ask)).unwrap_or_else(|panic| {
        let text = panic_text(&*panic).unwrap_or("without a word");
        let text = format!("the bucket's client panicked ({text}); report it as a fault");
        Err(CallError::lasting(text, Failure::Panicked))
    })
}
