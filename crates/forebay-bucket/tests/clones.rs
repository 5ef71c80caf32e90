//! Clones: each goes on without its parent, and the parent without them (invariant VB24).

#![allow(clippy::unwrap_used)]

#[path = "../../forebay-store/tests/support/mod.rs"]
mod support;
mod volumes;

use forebay_base::{Prng, Span};
use forebay_bucket::{
    Bucket, BucketError, BucketSettings, BucketStore, PageFormat, SnapshotName, VolumeFault,
    bucket_at, check, clone_volume, collect, copy, flatten, info, parent_path, remove,
    remove_snapshot, resize, roll_back, take_snapshot,
};
use forebay_rt::fresh_number;
use forebay_store::{Failure, IoKind};
use forebay_volume::{Access, Parent, Writing};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use support::Driver;
use volumes::{CHUNK, MIB, drawn_write, full_after, key_of, quiet, removing, writing_of};

const LENGTH: u64 = 8 * MIB;

/// Volumes in the folders of one folder.
struct Place {
    folder: tempfile::TempDir,
    pages: PageFormat,
}

impl Place {
    fn new(pages: PageFormat) -> Place {
        let folder = tempfile::tempdir().unwrap();
        Place { folder, pages }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn address(&self, name: &str) -> OsString {
        let path = self.path(name);
        ["folder://".as_ref(), path.as_os_str()]
            .into_iter()
            .collect()
    }

    fn bucket(&self, name: &str) -> Arc<dyn Bucket> {
        bucket_at(&self.address(name), true).unwrap()
    }

    fn clone_from(&self, parent: &str, clone: &str, of: Option<&str>) -> Result<(), BucketError> {
        let (from, to) = (self.bucket(parent), self.bucket(clone));
        let path = parent_path(&self.address(clone), &self.address(parent)).unwrap();
        clone_volume(from, to, path, of.map(|name| name.parse().unwrap()))
    }

    fn settings(&self) -> BucketSettings {
        BucketSettings {
            // A bad object is waited for, for as long as any answer.
            answer_timeout: Span::from_millis(100),
            ..removing(self.pages)
        }
    }

    /// Writes, with a commit after each, to the volume that has `bytes`.
    fn write(&self, name: &str, bytes: &mut [u8], prng: &mut Prng, rounds: u64) {
        let access = if self.path(name).join("volume").exists() {
            Access::Write(Writing {
                writer: fresh_number().unwrap(),
                who: "host test".into(),
                create: None,
                take_over: true,
            })
        } else {
            writing_of(self.pages, false)
        };
        let store = BucketStore::open(self.bucket(name), name, access, self.settings()).unwrap();
        let driver = Driver::new(store.clone(), 4_096);
        for _ in 0..rounds {
            let (at, content) = drawn_write(prng, bytes.len());
            bytes[at..][..content.len()].copy_from_slice(&content);
            let written = driver.write(BucketStore::OBJECT, at as u64, &content);
            written.expect("it is staged");
            let committed = driver.order(IoKind::Commit, BucketStore::OBJECT, 0, 0);
            assert_eq!(committed, Ok::<(), Failure>(()));
        }
        assert!(store.close());
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        let opened = BucketStore::open(self.bucket(name), name, Access::Read, self.settings());
        let store = opened.map_err(|error| error.to_string())?;
        let length = store.manifest().length_bytes;
        let driver = Driver::new(store, 4_096);
        let mut bytes = Vec::new();
        for at in (0..length).step_by(CHUNK as usize) {
            let read = driver.try_read(BucketStore::OBJECT, at, CHUNK.min(length - at));
            bytes.extend(read.map_err(|failure| failure.to_string())?);
        }
        Ok(bytes)
    }

    fn is_whole(&self, name: &str) {
        assert_eq!(check(self.bucket(name)).unwrap().faults, [""; 0], "{name}");
    }
}

#[test]
fn each_goes_on_without_the_other() {
    for pages in PageFormat::ALL {
        let place = Place::new(pages);
        let mut prng = Prng::from_seed(5);
        let mut base = vec![0; LENGTH as usize];
        place.write("base", &mut base, &mut prng, 60);
        take_snapshot(place.bucket("base"), "monday".parse().unwrap()).unwrap();
        let monday = base.clone();
        place.write("base", &mut base, &mut prng, 60);
        place.clone_from("base", "now", None).unwrap();
        place.clone_from("base", "then", Some("monday")).unwrap();
        let bytes_of = |name: &str| info(place.bucket(name)).unwrap().bytes;
        assert!(bytes_of("now") < 64 << 10, "no data was copied");

        let (mut now, mut then) = (base.clone(), monday);
        for round in 0..3 {
            assert!(
                place.read("now").unwrap() == now,
                "{pages:?}, round {round}"
            );
            assert!(
                place.read("then").unwrap() == then,
                "{pages:?}, round {round}"
            );
            assert!(
                place.read("base").unwrap() == base,
                "{pages:?}, round {round}"
            );
            place.write("base", &mut base, &mut prng, 40);
            place.write("now", &mut now, &mut prng, 40);
            place.write("then", &mut then, &mut prng, 40);
            if round == 0 {
                let monday = "monday".parse().unwrap();
                remove_snapshot(place.bucket("base"), monday, false).unwrap();
            }
            for name in ["base", "now", "then"] {
                collect(place.bucket(name)).unwrap();
                place.is_whole(name);
                assert_eq!(info(place.bucket(name)).unwrap().unneeded.objects, 0);
            }
        }
        assert!(place.read("now").unwrap() == now && place.read("then").unwrap() == then);
    }
}

#[test]
fn clones_have_clones_snapshots_lengths_and_copies() {
    for pages in PageFormat::ALL {
        let place = Place::new(pages);
        let mut prng = Prng::from_seed(6);
        let mut bytes = vec![0; LENGTH as usize];
        place.write("a", &mut bytes, &mut prng, 60);
        place.clone_from("a", "b", None).unwrap();
        place.write("b", &mut bytes, &mut prng, 30);
        place.clone_from("b", "c", None).unwrap();
        assert!(place.read("c").unwrap() == bytes);
        // A snapshot of a clone, and back to it.
        let monday: SnapshotName = "monday".parse().unwrap();
        take_snapshot(place.bucket("c"), monday).unwrap();
        let was = bytes.clone();
        place.write("c", &mut bytes, &mut prng, 30);
        let key = key_of(pages);
        roll_back(place.bucket("c"), monday, key.as_ref(), false, &quiet()).unwrap();
        assert!(place.read("c").unwrap() == was);
        // Ends that cut chunks which lie with the parent's parent.
        let length = 3 * MIB + 12_288;
        resize(place.bucket("c"), length, true, key.as_ref(), false).unwrap();
        resize(place.bucket("c"), LENGTH, false, key.as_ref(), false).unwrap();
        let mut cut = was[..length as usize].to_vec();
        cut.resize(LENGTH as usize, 0);
        assert!(place.read("c").unwrap() == cut);
        collect(place.bucket("c")).unwrap();
        // A copy has no parent, and neither has what was flattened.
        copy(place.bucket("c"), place.bucket("copy"), &quiet()).unwrap();
        flatten(place.bucket("c"), false, &quiet()).unwrap();
        let refused = flatten(place.bucket("c"), false, &quiet());
        assert!(matches!(refused, Err(BucketError::NoClone)), "{refused:?}");
        for name in ["b", "a"] {
            remove(place.bucket(name), false, &quiet()).unwrap();
        }
        for name in ["copy", "c"] {
            let mut bytes = cut.clone();
            place.is_whole(name);
            assert!(place.read(name).unwrap() == bytes, "{name}");
            place.write(name, &mut bytes, &mut prng, 30);
            collect(place.bucket(name)).unwrap();
            place.is_whole(name);
            assert!(place.read(name).unwrap() == bytes, "{name}");
        }
        roll_back(place.bucket("c"), monday, key.as_ref(), false, &quiet()).unwrap();
        assert!(place.read("c").unwrap() == was);
    }
}

#[test]
fn what_a_clone_needs_is_not_removed_by_mistake() {
    let place = Place::new(PageFormat::Checksum);
    let mut prng = Prng::from_seed(7);
    let mut bytes = vec![0; LENGTH as usize];
    place.write("base", &mut bytes, &mut prng, 30);
    place.clone_from("base", "clone", None).unwrap();
    let (_, held) = info(place.bucket("clone")).unwrap().parent.unwrap();
    let refused = remove_snapshot(place.bucket("base"), held, false);
    assert!(matches!(refused, Err(BucketError::HasClone { snapshot }) if snapshot == held));
    let refused = remove(place.bucket("base"), false, &quiet());
    assert!(matches!(refused, Err(BucketError::HasClone { snapshot }) if snapshot == held));
    let refused = place.clone_from("base", "clone", None);
    assert!(matches!(refused, Err(BucketError::Occupied)));
    let refused = place.clone_from("base", "other", Some("tuesday"));
    let tuesday = "tuesday".parse().unwrap();
    let expected = VolumeFault::NoSnapshot { name: tuesday };
    assert!(matches!(refused, Err(BucketError::Volume(fault)) if fault == expected));
    assert_eq!(
        place.path("other").read_dir().unwrap().count(),
        0,
        "nothing is left of it"
    );

    remove(place.bucket("clone"), false, &quiet()).unwrap();
    assert_eq!(
        info(place.bucket("base")).unwrap().snapshots,
        [],
        "its snapshot went with it"
    );
    remove(place.bucket("base"), false, &quiet()).unwrap();
}

#[test]
fn a_parent_that_has_not_what_a_clone_needs_is_named() {
    let place = Place::new(PageFormat::Plain);
    let mut prng = Prng::from_seed(8);
    let mut bytes = vec![0; LENGTH as usize];
    place.write("base", &mut bytes, &mut prng, 30);
    place.clone_from("base", "clone", None).unwrap();
    let base = place.address("base").to_str().unwrap().to_owned();
    let moved = |from: &str, to: &str| std::fs::rename(place.path(from), place.path(to)).unwrap();

    moved("base", "elsewhere");
    let refused = place.read("clone").unwrap_err();
    assert!(
        refused.contains("its parent cannot be reached"),
        "{refused}"
    );
    std::fs::create_dir(place.path("base")).unwrap();
    let refused = place.read("clone").unwrap_err();
    assert!(
        refused.contains(&format!("its parent {base} is not there")),
        "{refused}"
    );
    // Both may be moved together.
    std::fs::remove_dir_all(place.path("base")).unwrap();
    std::fs::create_dir(place.path("inner")).unwrap();
    moved("elsewhere", "inner/base");
    moved("clone", "inner/clone");
    assert!(place.read("inner/clone").unwrap() == bytes);

    let (_, held) = info(place.bucket("inner/clone")).unwrap().parent.unwrap();
    remove_snapshot(place.bucket("inner/base"), held, true).unwrap();
    let refused = place.read("inner/clone").unwrap_err();
    assert!(
        refused.contains(&format!("no longer has the snapshot {held}")),
        "{refused}"
    );
    std::fs::remove_file(place.path("inner/clone/parent")).unwrap();
    let refused = place.read("inner/clone").unwrap_err();
    assert!(refused.contains("parent is missing"), "{refused}");
    let refused = place
        .clone_from("inner/clone", "another", None)
        .unwrap_err();
    assert!(
        refused.to_string().contains("parent is missing"),
        "{refused}"
    );

    // One that leads to itself ends.
    place.write("own", &mut bytes, &mut prng, 1);
    place.clone_from("own", "loop", None).unwrap();
    let (_, snapshot) = info(place.bucket("loop")).unwrap().parent.unwrap();
    let path = b"../loop".to_vec();
    let parent = Parent { path, snapshot };
    std::fs::write(place.path("loop/parent"), parent.encode()).unwrap();
    let refused = place.read("loop").unwrap_err();
    assert!(refused.contains("a clone of a clone"), "{refused}");
}

#[test]
fn whatever_object_is_lost_no_wrong_byte_is_read() {
    for pages in [PageFormat::Plain, PageFormat::Encrypted] {
        let place = Place::new(pages);
        let mut prng = Prng::from_seed(9);
        let mut bytes = vec![0; LENGTH as usize];
        place.write("base", &mut bytes, &mut prng, 25);
        place.clone_from("base", "clone", None).unwrap();
        place.write("clone", &mut bytes, &mut prng, 10);
        let mut objects = Vec::new();
        for name in ["base", "clone"] {
            objects_below(&place.path(name), &mut objects);
        }
        let (mut whole, mut refused) = (0, 0);
        for object in objects {
            let kept = std::fs::read(&object).unwrap();
            std::fs::remove_file(&object).unwrap();
            match place.read("clone") {
                Ok(read) => {
                    assert!(read == bytes, "without {}", object.display());
                    whole += 1;
                }
                Err(_) => refused += 1,
            }
            std::fs::write(&object, kept).unwrap();
        }
        assert!(place.read("clone").unwrap() == bytes);
        assert!(whole > 5 && refused > 5, "{whole} whole, {refused} refused");
    }
}

fn objects_below(folder: &Path, objects: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            objects_below(&path, objects);
        } else {
            objects.push(path);
        }
    }
}

#[test]
fn what_was_interrupted_is_no_clone_or_a_whole_one() {
    let place = Place::new(PageFormat::Encrypted);
    let mut prng = Prng::from_seed(10);
    let mut bytes = vec![0; LENGTH as usize];
    place.write("base", &mut bytes, &mut prng, 20);
    let path = parent_path(&place.address("base"), &place.address("base")).unwrap();
    assert_eq!(path, b"");
    let mut made = 0;
    for left in 0.. {
        let to = full_after(place.bucket("clone"), left);
        let path = b"../base".to_vec();
        let is_done = clone_volume(place.bucket("base"), to, path, None).is_ok();
        match place.read("clone") {
            Ok(read) => {
                assert!(read == bytes, "{left} objects");
                made += 1;
            }
            Err(refused) => {
                let is_none =
                    refused.contains("there is no volume") || refused.contains("volume is missing");
                assert!(is_none, "{refused}");
            }
        }
        let removed = remove(place.bucket("clone"), !is_done, &quiet());
        removed.unwrap();
        assert_eq!(
            info(place.bucket("base")).unwrap().snapshots,
            [],
            "{left} objects"
        );
        if is_done {
            break;
        }
    }
    assert!(made > 1, "some lacked their second map alone");
}

#[test]
fn a_flattening_goes_on_where_it_was() {
    let place = Place::new(PageFormat::Encrypted);
    let mut bytes = vec![0; LENGTH as usize];
    place.write("base", &mut bytes, &mut Prng::from_seed(11), 20);
    place.clone_from("base", "clone", None).unwrap();
    // One that cannot go on leaves the clone as it was.
    let mut objects = Vec::new();
    objects_below(&place.path("base/data"), &mut objects);
    let kept = std::fs::read(&objects[0]).unwrap();
    std::fs::remove_file(&objects[0]).unwrap();
    let failed = flatten(place.bucket("clone"), false, &quiet());
    let expected = VolumeFault::Missing {
        key: format!(
            "data{}",
            objects[0]
                .display()
                .to_string()
                .rsplit_once("/data")
                .unwrap()
                .1
        ),
    };
    assert!(matches!(failed, Err(BucketError::Volume(fault)) if fault == expected));
    assert!(!info(place.bucket("clone")).unwrap().map.is_open());
    std::fs::write(&objects[0], kept).unwrap();

    for left in 0.. {
        let short = full_after(place.bucket("clone"), left);
        // It closes the clone if it fails, unless it cannot do that either.
        let is_done = flatten(short, true, &quiet()).is_ok();
        assert!(place.read("clone").unwrap() == bytes, "{left} objects");
        if is_done {
            break;
        }
    }
    remove(place.bucket("base"), false, &quiet()).unwrap();
    assert!(place.read("clone").unwrap() == bytes);
}
