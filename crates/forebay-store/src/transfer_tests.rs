use super::*;
use crate::files::OpenMode;
use crate::io::{Finish, FinishedIo, PagePointer, leaked_pages};
use crate::request::ObjectId;
use rustix::fd::AsRawFd;

struct Ignored;

impl Finish for Ignored {
    fn finished(&self, _io: FinishedIo) {}
}

/// A transfer of `pages` at page 2 of an empty file, and the folder that keeps the file.
fn transfer(kind: IoKind, pages: Vec<PagePointer>, length_bytes: u64) -> Transfer {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let files = Files::default();
    let mode = OpenMode::Create { length_bytes: None };
    let opened = files
        .open(&folder.path().join("file"), mode, true)
        .expect("the file opens");
    let request = Request {
        kind,
        object: opened.object,
        offset_bytes: 8192,
        length_bytes,
    };
    let io = Io::new(request, pages, Arc::new(Ignored), 0);
    Addressed::look_up(io, &files)
        .and_then(Transfer::start)
        .expect("there is something to move")
}

fn vectors_of(transfer: &Transfer, room: usize) -> Vec<(usize, usize)> {
    let mut vectors = vec![IoVector::EMPTY; room];
    let used = transfer.fill_vectors(&mut vectors);
    vectors[..used]
        .iter()
        .map(|vector| (vector.base as usize, vector.length_bytes))
        .collect()
}

fn address(page: &PagePointer) -> usize {
    page.address().as_ptr() as usize
}

/// Notes whether a write was made durable.
#[derive(Default)]
struct HowDurable(forebay_rt::wait::Slot<bool>);

impl Finish for HowDurable {
    fn finished(&self, io: FinishedIo) {
        assert_eq!(io.result, Ok(()));
        self.0.set(io.is_durable);
    }
}

/// A write of a page that is to be durable, of the file of a folder, and how it ended.
fn durable_write(folder: &tempfile::TempDir, direct: bool) -> (Transfer, Arc<HowDurable>) {
    durable_write_that(folder, direct, |io| io)
}

/// The same with one more property.
fn durable_write_that(
    folder: &tempfile::TempDir,
    direct: bool,
    has: impl Fn(Io) -> Io,
) -> (Transfer, Arc<HowDurable>) {
    let files = Files::default();
    let mode = OpenMode::Create { length_bytes: None };
    let opened = files
        .open(&folder.path().join("file"), mode, direct)
        .expect("the file opens");
    let request = Request {
        kind: IoKind::Write,
        object: opened.object,
        offset_bytes: 0,
        length_bytes: 4096,
    };
    let ending = Arc::new(HowDurable::default());
    let io = has(Io::new(request, leaked_pages(1), ending.clone(), 0).durable());
    let transfer = Addressed::look_up(io, &files)
        .and_then(Transfer::start)
        .expect("there is something to write");
    (transfer.or_durable(), ending)
}

fn how_durable(ending: &HowDurable) -> bool {
    forebay_rt::block_on(ending.0.take())
}

/// Ends `transfer` as the kernel would if all went well. False if it is left to a commit, because
/// the file system is not known to make a write durable.
fn ends_durably(mut transfer: Transfer, ending: &HowDurable) -> bool {
    if !transfer.file.writes_through {
        transfer.finish(Ok(()));
        return false;
    }
    assert!(transfer.is_durable());
    assert_eq!(transfer.advance(Ok(4096)), Step::Done(Ok(())));
    transfer.finish(Ok(()));
    assert!(how_durable(ending));
    true
}

#[test]
fn a_write_past_the_kernels_cache_is_durable_if_it_is_wanted() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let (transfer, ending) = durable_write(&folder, true);
    let file = transfer.file.clone();
    let past = transfer.direct.then(|| transfer.descriptor().as_raw_fd());
    assert_eq!(past, file.direct().map(AsRawFd::as_raw_fd));
    ends_durably(transfer, &ending);
}

/// The kernel reports a failure once for each descriptor: what such a write is told is not taken
/// from the commits.
#[test]
fn a_durable_write_through_the_kernels_cache_has_a_descriptor_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let (transfer, ending) = durable_write(&folder, false);
    let (file, used) = (transfer.file.clone(), transfer.descriptor().as_raw_fd());
    if ends_durably(transfer, &ending) {
        assert_ne!(used, file.buffered().as_raw_fd());
    }
}

/// ext4 before Linux 6.7 notes the length of a direct write after it has made it durable.
#[test]
fn a_durable_write_that_makes_the_file_longer_goes_through_the_kernels_cache() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let (transfer, ending) = durable_write_that(&folder, true, Io::growing);
    assert_eq!(
        transfer.direct,
        !transfer.file.writes_through && transfer.file.direct().is_some()
    );
    ends_durably(transfer, &ending);
}

#[test]
fn a_write_that_is_not_to_be_durable_goes_where_it_went() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    for direct in [false, true] {
        let plain = |io: Io| io.growing().without_durability();
        let (transfer, _) = durable_write_that(&folder, direct, plain);
        assert!(!transfer.is_durable());
        assert_eq!(transfer.direct, transfer.file.direct().is_some());
        transfer.finish(Ok(()));
    }
}

/// FUSE takes a direct write that is to be durable, and flushes nothing.
#[test]
fn a_file_system_that_may_not_flush_is_asked_for_a_plain_write() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let (mut transfer, ending) = durable_write(&folder, true);
    let file = Arc::get_mut(&mut transfer.file).expect("nobody else has it open");
    file.writes_through = false;
    let transfer = transfer.or_durable();
    assert!(!transfer.is_durable());
    transfer.finish(Ok(()));
    assert!(!how_durable(&ending), "a commit follows");
}

#[test]
fn a_write_that_cannot_be_made_durable_is_made_and_its_commits_fail() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    for (errno, stays) in [(Errno::OPNOTSUPP, false), (Errno::IO, true)] {
        let (mut transfer, ending) = durable_write(&folder, true);
        if !transfer.is_durable() {
            return transfer.finish(Ok(()));
        }
        assert_eq!(transfer.advance(Err(errno)), Step::Again);
        assert!(!transfer.is_durable(), "it is asked for plainly");
        assert_eq!(transfer.advance(Ok(4096)), Step::Done(Ok(())));
        let file = transfer.file.clone();
        transfer.finish(Ok(()));
        assert!(!how_durable(&ending));
        assert_eq!(file.commits().failure().is_some(), stays, "{errno}");
    }
}

#[test]
fn invariant_c1_no_write_is_called_durable_once_a_commit_has_failed() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let (transfer, ending) = durable_write(&folder, true);
    let failure = Failure::from_errno(Errno::IO.raw_os_error());
    transfer.file.commits().record_failure(failure);
    transfer.finish(Ok(()));
    assert!(!how_durable(&ending));
}

#[test]
fn neighbours_are_joined_and_strangers_are_not() {
    let pages = leaked_pages(4);
    let first = address(&pages[0]);
    let joined = transfer(IoKind::Read, pages, 16_384);
    assert_eq!(vectors_of(&joined, 4), [(first, 16_384)]);
    let mut order = leaked_pages(4);
    let first = address(&order[0]);
    order.swap(0, 2);
    order.swap(1, 3);
    order.swap(2, 3);
    let apart = transfer(IoKind::Read, order, 16_384);
    let expected = [(first + 8192, 8192), (first + 4096, 4096), (first, 4096)];
    assert_eq!(vectors_of(&apart, 4), expected);
    assert_eq!(vectors_of(&apart, 2), expected[..2], "the rest comes later");
    joined.finish(Ok(()));
    apart.finish(Ok(()));
}

#[test]
fn a_short_count_goes_on_where_it_stopped() {
    let pages = leaked_pages(2);
    let first = address(&pages[0]);
    let mut write = transfer(IoKind::Write, pages, 5000);
    assert_eq!(vectors_of(&write, 2), [(first, 5000)], "no byte behind it");
    assert_eq!(write.advance(Ok(4500)), Step::Again);
    assert_eq!(write.offset_bytes(), 8192 + 4500);
    assert_eq!(vectors_of(&write, 2), [(first + 4500, 500)]);
    assert_eq!(write.advance(Err(Errno::INTR)), Step::Again);
    assert_eq!(write.advance(Ok(500)), Step::Done(Ok(())));
    write.finish(Ok(()));
}

#[test]
fn a_read_that_meets_the_end_is_done_and_a_write_that_moves_nothing_failed() {
    let mut read = transfer(IoKind::Read, leaked_pages(2), 8192);
    assert_eq!(read.advance(Ok(100)), Step::Again);
    assert_eq!(read.advance(Ok(0)), Step::Done(Ok(())));
    read.finish(Ok(()));
    let mut write = transfer(IoKind::Write, leaked_pages(1), 4096);
    assert_eq!(
        write.advance(Ok(0)),
        Step::Done(Err(Failure::Device(Errno::IO.raw_os_error())))
    );
    assert_eq!(
        write.advance(Err(Errno::NOSPC)),
        Step::Done(Err(Failure::NoSpace))
    );
    write.finish(Ok(()));
}

#[test]
fn a_refused_direct_request_is_asked_once_more_through_the_cache() {
    let mut read = transfer(IoKind::Read, leaked_pages(1), 4096);
    if read.file.direct().is_some() {
        assert_eq!(read.advance(Err(Errno::INVAL)), Step::Again);
        assert!(std::ptr::eq(read.descriptor(), read.file.buffered()));
    }
    let refused = read.advance(Err(Errno::INVAL));
    assert_eq!(refused, Step::Done(Err(Failure::Device(22))));
    read.finish(Ok(()));
}

#[test]
fn a_file_that_is_not_open_is_gone() {
    struct Gone;
    impl Finish for Gone {
        fn finished(&self, io: FinishedIo) {
            let error = io.result.expect_err("nothing is open");
            assert_eq!(error.failure, Failure::Gone);
        }
    }
    let request = Request {
        kind: IoKind::Commit,
        object: ObjectId(9),
        offset_bytes: 0,
        length_bytes: 0,
    };
    let io = Io::new(request, Vec::new(), Arc::new(Gone), 0);
    assert!(Addressed::look_up(io, &Files::default()).is_none());
}
