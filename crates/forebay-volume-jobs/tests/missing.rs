//! Objects that are missing because nobody needs them any more, and those that are needed.

use forebay_store::{Failure, Finish, FinishedIo, Io, IoKind, ObjectId, Request};
use forebay_volume::{
    Access, Call, Manifest, Opening, PAGE_BYTES, Progress, Reply, Writer, Writing,
};
use forebay_volume_jobs::{Ended, Job, Limits, ReadJob, Scheduler, UploadJob};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const CHUNK_BYTES: u64 = 16 * PAGE_BYTES;

/// How requests have ended, by their token.
#[derive(Default)]
struct Results(Mutex<BTreeMap<u64, Result<(), Failure>>>);

impl Finish for Results {
    fn finished(&self, io: FinishedIo) {
        let result = io.result.map_err(|error| error.failure);
        self.0
            .lock()
            .expect("no test goes on after a panic")
            .insert(io.token, result);
    }
}

/// A scheduler, and who submits requests to it.
struct Bench {
    scheduler: Scheduler,
    results: Arc<Results>,
}

impl Bench {
    /// One of a new volume, in a bucket that is not needed again.
    fn new() -> Bench {
        let mut objects: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let manifest = Manifest::new(1, 64 << 20, CHUNK_BYTES as u32);
        let mut opening = Opening::new(Access::Write(Writing {
            writer: 1,
            who: "host a".to_owned(),
            create: Some(manifest.expect("such a volume is possible")),
            take_over: false,
        }));
        let opened = loop {
            let reply = match opening.next() {
                Call::Make { key, .. } if objects.contains_key(&key) => Reply::Exists,
                Call::Make { key, bytes } => {
                    objects.insert(key, bytes.to_vec());
                    Reply::Done
                }
                Call::Get { key, .. } => {
                    let found = objects.get(&key).cloned();
                    found.map_or(Reply::Missing, Reply::Bytes)
                }
                Call::List { .. } => {
                    Reply::Keys(objects.keys().map(|key| (key.clone(), 1)).collect())
                }
                Call::Remove { key } => match objects.remove(&key) {
                    Some(_) => Reply::Done,
                    None => Reply::Missing,
                },
            };
            let progress = opening.answer(reply);
            if let Progress::Done(opened) = progress.expect("nobody else is there") {
                break opened;
            }
        };
        Bench {
            scheduler: Scheduler::new(Writer::new(opened), Limits::default(), false),
            results: Arc::default(),
        }
    }

    fn submit(&mut self, kind: IoKind, chunk: u64, bytes: u64, token: u64) {
        let request = Request {
            kind,
            object: ObjectId(0),
            offset_bytes: chunk * CHUNK_BYTES,
            length_bytes: bytes,
        };
        let io = Io::phantom(request, self.results.clone(), token);
        self.with(|scheduler, ended| scheduler.submit(io, ended));
    }

    fn with<T>(&mut self, change: impl FnOnce(&mut Scheduler, &mut Ended) -> T) -> T {
        let mut ended = Ended::default();
        let changed = change(&mut self.scheduler, &mut ended);
        ended.finish();
        changed
    }

    fn next(&mut self) -> Option<Job> {
        self.with(Scheduler::next_job)
    }

    fn next_upload(&mut self) -> UploadJob {
        match self.next() {
            Some(Job::Upload(job)) => job,
            other => panic!("an upload is due, not {other:?}"),
        }
    }

    fn next_read(&mut self) -> ReadJob {
        match self.next() {
            Some(Job::Read(job)) => *job,
            other => panic!("a read is due, not {other:?}"),
        }
    }

    fn uploaded(&mut self, job: UploadJob, result: Result<Option<u32>, Failure>) {
        self.with(|scheduler, ended| scheduler.uploaded(job, result, ended));
    }

    /// Writes `chunk` and makes its object. Returns the key.
    fn make(&mut self, chunk: u64) -> String {
        self.submit(IoKind::Write, chunk, CHUNK_BYTES, 0);
        let job = self.next_upload();
        let key = job.name.to_string();
        self.uploaded(job, Ok(Some(7)));
        key
    }

    fn result(&self, token: u64) -> Option<Result<(), Failure>> {
        let results = self.results.0.lock();
        let results = results.expect("no test goes on after a panic");
        results.get(&token).copied()
    }
}

/// What a record was to name may be replaced and removed once it gave up. An upload for it, which
/// takes something over from there, is not told that the volume lacks an object.
#[test]
fn an_upload_for_a_record_that_gave_up_serves_for_nothing() {
    let mut bench = Bench::new();
    for chunk in 0..2 {
        bench.submit(IoKind::Write, chunk, CHUNK_BYTES, 0);
    }
    bench.submit(IoKind::Commit, 0, 0, 1);
    let (first, second) = (bench.next_upload(), bench.next_upload());
    assert!(bench.scheduler.is_wanted(&first) && bench.scheduler.is_wanted(&second));
    bench.uploaded(first, Err(Failure::NoAnswer));
    assert_eq!(bench.result(1), Some(Err(Failure::NoAnswer)));
    assert!(!bench.scheduler.is_wanted(&second));
    // The next commit makes its own.
    bench.submit(IoKind::Commit, 0, 0, 2);
    let third = bench.next_upload();
    bench.uploaded(second, Err(Failure::Gone));
    assert_eq!(bench.result(2), None);
    assert!(bench.scheduler.is_wanted(&third));
}

/// A read may meet one object after the other that was replaced and removed since it was told
/// where its pages lie. Only an object that the map still names is missing.
#[test]
fn a_read_that_is_overtaken_is_repeated_as_often_as_that_happens() {
    let mut bench = Bench::new();
    let mut missing = bench.make(0);
    bench.submit(IoKind::Read, 0, PAGE_BYTES, 1);
    let mut job = bench.next_read();
    for _ in 0..3 {
        assert_eq!(job.pieces[0].key(), missing);
        let newer = bench.make(0);
        let again = bench.with(|scheduler, ended| scheduler.read_again(job, &missing, ended));
        assert!(again.is_ok(), "the map names another object");
        missing = newer;
        job = bench.next_read();
        assert!(!job.is_repeated);
    }
    // Now it is the one that the map names: once more, and then it is missing.
    let again = bench.with(|scheduler, ended| scheduler.read_again(job, &missing, ended));
    assert!(again.is_ok());
    let job = bench.next_read();
    assert!(job.is_repeated);
    let again = bench.with(|scheduler, ended| scheduler.read_again(job, &missing, ended));
    again.expect_err("it is missing").fail(Failure::Device(5));
    assert_eq!(bench.result(1), Some(Err(Failure::Device(5))));
}
