//! The commits of one open file, and the failure that none of them gets over.
//!
//! The kernel says once for each descriptor that a write-back failed, and gives the pages up as
//! clean: the next `fdatasync` has nothing to write and succeeds, though the bytes are not there.
//! So a failure is kept, and every later commit fails with it until the file is opened again.
//!
//! invariant C1: no commit of an open file succeeds that ends after one of them has failed.

use crate::error::Failure;
use crate::io::Io;
use forebay_base::sync::{Mutex, lock};

/// Shared by everything that is opened in the place of the same object.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failure: Option<Failure>,
    /// Commits that the system has been asked for and has not answered.
    under_way: u32,
    /// Commits that the system calls done. Of two at the same time only one learns of a failure,
    /// and it may be answered last: so none is finished before the others are answered.
    answered: Vec<Io>,
}

impl Commits {
    /// The failure that every commit ends with from now on.
    pub(crate) fn failure(&self) -> Option<Failure> {
        lock(&self.state).failure
    }

    /// A write could not be made durable, though it could be made.
    pub(crate) fn record_failure(&self, failure: Failure) {
        lock(&self.state).failure.get_or_insert(failure);
    }

    /// One more commit is to be asked for; refused if one has failed.
    pub(crate) fn begin(&self) -> Result<(), Failure> {
        let mut state = lock(&self.state);
        if let Some(failure) = state.failure {
            return Err(failure);
        }
        state.under_way += 1;
        Ok(())
    }

    /// A commit was answered. Gives the ones that can be finished now, and how.
    pub(crate) fn end(&self, commit: Io, answer: Result<(), Failure>) -> Ended {
        let mut state = lock(&self.state);
        state.under_way -= 1;
        if let Err(failure) = answer {
            state.failure.get_or_insert(failure);
        }
        if state.failure.is_none() && state.under_way > 0 {
            state.answered.push(commit);
            return Ended::default();
        }
        Ended {
            last: Some(commit),
            earlier: std::mem::take(&mut state.answered),
            failure: state.failure,
        }
    }
}

/// Commits that can be finished.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    pub(crate) last: Option<Io>,
    pub(crate) earlier: Vec<Io>,
    pub(crate) failure: Option<Failure>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Files, OpenMode};
    use crate::io::{Finish, FinishedIo};
    use crate::request::{IoKind, ObjectId, Request};
    use crate::transfer::{Addressed, Transfer};
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    /// How the commits ended, by their tokens, in that order.
    #[derive(Default)]
    struct Reported(Mutex<Vec<(u64, Result<(), Failure>)>>);

    impl Finish for Reported {
        fn finished(&self, io: FinishedIo) {
            lock(&self.0).push((io.token, io.result.map_err(|error| error.failure)));
        }
    }

    struct Bench {
        files: Files,
        object: ObjectId,
        reported: Arc<Reported>,
    }

    impl Bench {
        fn new(path: &Path, mode: OpenMode) -> Bench {
            let files = Files::default();
            let opened = files.open(path, mode, false).expect("it opens");
            Bench {
                files,
                object: opened.object,
                reported: Arc::default(),
            }
        }

        fn begin(&self, token: u64) -> Option<Transfer> {
            let request = Request {
                kind: IoKind::Commit,
                object: self.object,
                offset_bytes: 0,
                length_bytes: 0,
            };
            let reported = Arc::clone(&self.reported) as Arc<dyn Finish>;
            let io = Io::new(request, Vec::new(), reported, token);
            Addressed::look_up(io, &self.files).and_then(Transfer::start)
        }

        fn end(&self, token: u64, answer: Result<(), Failure>) {
            let commit = self.begin(token).expect("it is asked for");
            commit.finish(answer);
        }

        fn take_reported(&self) -> Vec<(u64, Result<(), Failure>)> {
            std::mem::take(&mut lock(&self.reported.0))
        }
    }

    const LOST: Result<(), Failure> = Err(Failure::Device(5));

    fn file() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 100]).expect("the file is written");
        (folder, path)
    }

    #[test]
    fn invariant_c1_a_commit_fails_after_one_that_failed() {
        let (_folder, path) = file();
        let bench = Bench::new(&path, OpenMode::ReadOnly);
        bench.end(1, Ok(()));
        bench.end(2, LOST);
        assert!(bench.begin(3).is_none(), "the system is not asked again");
        let writable = bench.files.make_writable(bench.object, &path, false);
        assert_eq!(writable, Ok(true));
        assert!(bench.begin(4).is_none(), "other descriptors know no better");
        let expected = [(1, Ok(())), (2, LOST), (3, LOST), (4, LOST)];
        assert_eq!(bench.take_reported(), expected);
        let file = bench.files.get(bench.object).expect("it is open");
        assert_eq!(file.commits().failure(), Some(Failure::Device(5)));

        let anew = Bench::new(&path, OpenMode::ReadWrite);
        anew.end(5, Ok(()));
        assert_eq!(anew.take_reported(), [(5, Ok(()))]);
    }

    #[test]
    fn invariant_c1_a_commit_waits_for_those_that_may_be_reported_in_its_place() {
        let (_folder, path) = file();
        let bench = Bench::new(&path, OpenMode::ReadWrite);
        let begin = |token| bench.begin(token).expect("it is asked for");
        let (first, second, third) = (begin(1), begin(2), begin(3));
        second.finish(Ok(()));
        assert_eq!(bench.take_reported(), [], "the first may have failed");
        first.finish(LOST);
        assert_eq!(bench.take_reported(), [(1, LOST), (2, LOST)]);
        third.finish(Ok(()));
        assert_eq!(bench.take_reported(), [(3, LOST)]);
    }

    #[test]
    fn commits_at_the_same_time_end_well_together() {
        let (_folder, path) = file();
        let bench = Bench::new(&path, OpenMode::ReadWrite);
        let (first, second) = (bench.begin(1).unwrap(), bench.begin(2).unwrap());
        first.finish(Ok(()));
        second.finish(Ok(()));
        assert_eq!(bench.take_reported(), [(2, Ok(())), (1, Ok(()))]);
    }
}
