//! The contract of openers, over each of them.

use forebay_store::claims::Holder;
use forebay_store::{
    FileStore, FileStoreSettings, MemoryStore, OpenError, Opener, Openers, Volume, VolumeError,
    VolumeMode, VolumeUser,
};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LENGTH_BYTES: u64 = 1 << 20;
const CREATE: VolumeMode = VolumeMode::Create {
    length_bytes: LENGTH_BYTES,
};

/// An opener, and how its volumes are called.
struct Fixture {
    opener: Arc<dyn Opener>,
    folder: Option<tempfile::TempDir>,
}

impl Fixture {
    fn all() -> Vec<Fixture> {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let files = FileStore::new(FileStoreSettings::default()).expect("it starts");
        vec![
            Fixture {
                opener: Arc::new(files),
                folder: Some(folder),
            },
            Fixture {
                opener: Arc::new(Arc::new(MemoryStore::new())),
                folder: None,
            },
        ]
    }

    fn address(&self, number: u64) -> OsString {
        match &self.folder {
            Some(folder) => folder.path().join(number.to_string()).into(),
            None => number.to_string().into(),
        }
    }

    fn open(&self, number: u64, mode: VolumeMode) -> Result<Volume, VolumeError> {
        self.opener.open_volume(&self.address(number), mode)
    }
}

fn error(opened: Result<Volume, VolumeError>) -> VolumeError {
    opened.err().expect("it is refused")
}

fn is_in_use(opened: Result<Volume, VolumeError>) -> bool {
    matches!(
        error(opened),
        VolumeError::InUse {
            user: VolumeUser::Server,
            ..
        }
    )
}

#[test]
fn a_volume_is_made_once_and_kept() {
    for fixture in Fixture::all() {
        let made = fixture.open(1, CREATE).unwrap();
        assert_eq!((made.length_bytes, made.warning), (LENGTH_BYTES, None));
        assert_eq!(
            (made.medium.loss(), made.medium.is_removed()),
            (None, false)
        );
        made.medium.open_anew().unwrap();
        drop(made.medium);
        let again = fixture.open(1, CREATE).unwrap();
        assert_eq!(again.length_bytes, LENGTH_BYTES);
        drop(again);
        let other = VolumeMode::Create { length_bytes: 4096 };
        let refused = error(fixture.open(1, other));
        assert!(
            matches!(
                refused,
                VolumeError::WrongLength {
                    found_bytes: LENGTH_BYTES,
                    ..
                }
            ),
            "{refused}"
        );
        let kept = fixture.open(1, VolumeMode::ReadWrite).unwrap();
        assert_eq!(kept.length_bytes, LENGTH_BYTES);
    }
}

#[test]
fn a_volume_has_one_writer_or_many_readers() {
    for fixture in Fixture::all() {
        let writer = fixture.open(1, CREATE).unwrap();
        for mode in [VolumeMode::ReadOnly, VolumeMode::ReadWrite, CREATE] {
            assert!(is_in_use(fixture.open(1, mode)), "{mode:?}");
        }
        let beside = fixture.open(2, CREATE).unwrap();
        assert!(Arc::ptr_eq(&writer.store, &beside.store));
        assert_ne!(writer.object, beside.object);
        drop(writer);
        let readers = [(); 2].map(|()| fixture.open(1, VolumeMode::ReadOnly).unwrap());
        assert!(is_in_use(fixture.open(1, VolumeMode::ReadWrite)));
        let [first, second] = readers;
        drop(first);
        assert!(is_in_use(fixture.open(1, VolumeMode::ReadWrite)));
        drop(second);
        fixture.open(1, VolumeMode::ReadWrite).unwrap();
    }
}

#[test]
fn what_is_not_there_is_refused_and_not_made() {
    for fixture in Fixture::all() {
        for mode in [VolumeMode::ReadOnly, VolumeMode::ReadWrite] {
            for _ in 0..2 {
                let VolumeError::Refused { cause, action, .. } = error(fixture.open(1, mode))
                else {
                    panic!("{mode:?}")
                };
                assert_eq!(
                    (cause.kind(), action),
                    (std::io::ErrorKind::NotFound, "open")
                );
            }
        }
        fixture.open(1, CREATE).unwrap();
    }
}

#[test]
fn a_new_volume_is_a_hole() {
    for fixture in Fixture::all() {
        let made = fixture.open(1, CREATE).unwrap();
        let hole = made.medium.extent_at(5000, LENGTH_BYTES);
        assert_eq!((hole.end_bytes, hole.is_hole), (LENGTH_BYTES, true));
    }
}

#[test]
fn pages_of_memory_that_were_written_are_no_hole() {
    let memory = Arc::new(MemoryStore::new());
    memory.fill(forebay_store::ObjectId(7), &[1; 8192]);
    let opened = memory.open_volume("memory://7".as_ref(), VolumeMode::ReadOnly);
    let medium = opened.unwrap().medium;
    let run = |start, end| {
        let extent = medium.extent_at(start, end);
        (extent.end_bytes, extent.is_hole)
    };
    assert_eq!(run(0, 20_000), (8192, false));
    assert_eq!(run(4097, 5000), (5000, false));
    assert_eq!(run(8192, 20_000), (20_000, true));
}

#[test]
fn a_file_that_cannot_have_its_length_is_not_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    let files = FileStore::new(FileStoreSettings::default()).unwrap();
    let length_bytes = u64::MAX;
    let refused = error(files.open_volume(path.as_ref(), VolumeMode::Create { length_bytes }));
    assert!(
        matches!(
            refused,
            VolumeError::Refused {
                action: "create",
                ..
            }
        ),
        "{refused}"
    );
    assert!(!path.exists());
    files.open_volume(path.as_ref(), CREATE).unwrap();
}

#[test]
fn what_is_no_file_or_empty_is_refused_and_free_again() {
    let folder = tempfile::tempdir().unwrap();
    let files = FileStore::new(FileStoreSettings::default()).unwrap();
    let open = |path: &Path| files.open_volume(path.as_ref(), VolumeMode::ReadWrite);
    assert!(matches!(
        error(open(folder.path())),
        VolumeError::Open(OpenError::WrongKind { .. })
    ));
    let path = folder.path().join("disk.img");
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(error(open(&path)), VolumeError::Empty { .. }));
    std::fs::write(&path, b"1").unwrap();
    assert_eq!(open(&path).unwrap().length_bytes, 1);
}

#[test]
fn a_file_that_is_cut_or_removed_is_noticed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"12").unwrap();
    let files = FileStore::new(FileStoreSettings::default()).unwrap();
    let opened = files.open_volume(file.path().as_ref(), VolumeMode::ReadWrite);
    let medium = opened.unwrap().medium;
    assert!(!medium.is_removed() && !medium.is_cut());
    file.as_file().set_len(1).unwrap();
    assert!(medium.is_cut() && !medium.is_removed());
    drop(file);
    assert!(medium.is_removed());
}

#[test]
fn a_scheme_chooses_the_opener_and_one_that_is_unknown_is_refused_with_those_that_are() {
    let folder = tempfile::tempdir().unwrap();
    let files = Arc::new(FileStore::new(FileStoreSettings::default()).unwrap());
    let memory = Arc::new(Arc::new(MemoryStore::new()));
    let openers = Openers::new(files.clone())
        .with("file", files)
        .with("memory", memory);
    let path = folder.path().join("disk.img");
    let made = openers.open_volume(path.as_ref(), CREATE).unwrap();
    let in_memory = openers.open_volume("memory://7".as_ref(), CREATE).unwrap();
    assert!(!Arc::ptr_eq(&made.store, &in_memory.store));
    drop(made);
    let mut address = OsString::from("file://");
    address.push(&path);
    let found = openers.open_volume(&address, VolumeMode::ReadOnly).unwrap();
    assert_eq!(found.length_bytes, LENGTH_BYTES);
    let hosted = error(openers.open_volume("file://host/disk".as_ref(), CREATE));
    assert!(
        hosted.to_string().contains("before an absolute path"),
        "{hosted}"
    );
    let unknown = error(openers.open_volume("ftp://host/disk".as_ref(), CREATE)).to_string();
    assert_eq!(
        unknown,
        "ftp://host/disk: addresses that begin with ftp:// are not known here; known are paths, \
         file://, memory://; a file of that name is ./ftp://host/disk"
    );
}

/// The descriptors of this process that programs which it starts would get.
fn inherited() -> BTreeSet<(String, PathBuf)> {
    const CLOSED_ON_EXEC: u64 = 0o2_000_000;
    let listed = std::fs::read_dir("/proc/self/fdinfo").expect("the system lists them");
    let names = listed.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_inherited = |name: &String| {
        // Other tests close theirs meanwhile.
        let said = std::fs::read_to_string(format!("/proc/self/fdinfo/{name}")).ok()?;
        let flags = said.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = u64::from_str_radix(flags.trim(), 8).ok()?;
        (flags & CLOSED_ON_EXEC == 0).then_some(())
    };
    let all = names.filter(|name| is_inherited(name).is_some());
    let with_targets = all.filter_map(|name| {
        let target = std::fs::read_link(format!("/proc/self/fd/{name}")).ok()?;
        Some((name, target))
    });
    with_targets.collect()
}

/// A program that is started beside an open volume must not keep the volume locked, nor its file on
/// the disk.
#[test]
fn no_program_that_the_process_starts_gets_a_descriptor() {
    let before = inherited();
    let fixtures = Fixture::all();
    let made = fixtures[0].open(7, CREATE).expect("it is made");
    assert_eq!(inherited(), before, "of a volume for writing");
    drop(made);
    let read = fixtures[0].open(7, VolumeMode::ReadOnly);
    let read = read.expect("it is there");
    assert_eq!(inherited(), before, "of a volume for reading");
    drop(read);
}

#[test]
fn whoever_has_a_volume_is_named() {
    for (user, said) in [
        (VolumeUser::Server, "another server"),
        (VolumeUser::Machine, "this machine"),
        (
            VolumeUser::Process(Holder {
                process: Some(7),
                program: "forebay".to_owned(),
                has: Some("/srv".into()),
            }),
            "it is in use by process 7 (forebay), which has /srv; end",
        ),
    ] {
        assert!(user.to_string().starts_with(said), "{user}");
    }
}

/// On NFS the lock would be refused otherwise.
#[test]
fn a_writer_locks_by_a_descriptor_that_can_write() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().join("image");
    std::fs::write(&path, [7; 4096]).expect("there is room");
    let store = FileStore::new(FileStoreSettings::default()).expect("its threads start");
    for (mode, access) in [(VolumeMode::ReadOnly, 0), (VolumeMode::ReadWrite, 2)] {
        let opened = store.open_volume(path.as_os_str(), mode);
        let _opened = opened.expect("nobody has it");
        assert_eq!(accesses_of_locks(&path), [access], "{mode:?}");
    }
}

/// How the descriptors of this process on `path` that hold a lock on all of it were opened.
fn accesses_of_locks(path: &Path) -> Vec<u32> {
    // The system shows the path without links: the folder of temporary files may be one.
    let path = std::fs::canonicalize(path).expect("the file is there");
    let entries = std::fs::read_dir("/proc/self/fd").expect("the system shows them");
    let access_of = |entry: std::fs::DirEntry| {
        let leads_there = std::fs::read_link(entry.path()).is_ok_and(|target| target == path);
        let about = Path::new("/proc/self/fdinfo").join(entry.file_name());
        let about = leads_there.then(|| std::fs::read_to_string(about).ok())??;
        let flags = about.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
        about.contains("FLOCK").then_some(flags & 3)
    };
    entries.flatten().filter_map(access_of).collect()
}
