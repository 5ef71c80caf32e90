//! Images in memory and in files, as the command opens them.

use super::*;
use crate::daemon::flags::ServerFlags;
use crate::serve::arguments::ListenAddress;
use crate::serve::losses::Losses;
use forebay::Settings;
use forebay_store::MemoryStore;
use std::path::{Path, PathBuf};

const LENGTH_BYTES: u64 = 1 << 20;

fn cache() -> Cache {
    let settings = Settings {
        memory_bytes: 8 << 20,
        ..Settings::default()
    };
    Cache::new(settings).unwrap()
}

fn arguments(paths: &[&Path], create_bytes: Option<u64>) -> ServeArguments {
    let image = |path: &&Path| ImageArguments {
        path: path.to_path_buf(),
        name: path.display().to_string(),
    };
    ServeArguments {
        images: paths.iter().map(image).collect(),
        listen: ListenAddress::Unix(PathBuf::from("s")),
        memory_bytes: 64 << 20,
        floor_bytes: None,
        read_only: false,
        create_bytes,
        chunk_bytes: 64 << 10,
        commit_interval: None,
        key_file: None,
        snapshot: None,
        follow_interval: None,
        take_over: false,
        dead_percent: Some(50),
        flags: ServerFlags::default(),
        clients: None,
        tuning: Tuning::default(),
    }
}

fn refusal(paths: &[&Path], create_bytes: Option<u64>) -> String {
    let opened = open(&arguments(paths, create_bytes), &cache());
    opened.map(drop).unwrap_err().to_string()
}

#[test]
fn a_store_of_several_images_is_attached_once() {
    let stores = [(); 2].map(|()| -> Arc<dyn Store> { Arc::new(MemoryStore::new()) });
    let cache = cache();
    let mut attached = Attached {
        cache: &cache,
        tuning: &Tuning::default(),
        settings: BackingSettings::default(),
        stores: Vec::new(),
    };
    for store in [&stores[0], &stores[1], &stores[0], &stores[1]] {
        attached.store(store).unwrap();
    }
    assert_eq!(attached.stores.len(), 2);
}

#[test]
fn each_image_is_written_to_the_store_that_its_address_names() {
    let (here, there) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
    let openers = Openers::new(Arc::new(here.clone())).with("memory", Arc::new(there.clone()));
    let paths = ["1", "2", "memory://1"].map(Path::new);
    let cache = cache();
    let arguments = arguments(&paths, Some(LENGTH_BYTES));
    let (exports, images) = open_by(&openers, &arguments, &cache).unwrap();
    assert!(
        exports
            .iter()
            .all(|export| export.length_bytes() == LENGTH_BYTES)
    );
    for (image, byte) in images.iter().zip(1..) {
        forebay_rt::block_on(image.file.write_at(&[byte], 5)).unwrap();
        forebay_rt::block_on(image.file.sync()).unwrap();
    }
    let found = [(&here, 1), (&here, 2), (&there, 1)];
    let found = found.map(|(store, object)| store.snapshot(forebay_store::ObjectId(object))[5]);
    assert_eq!(found, [1, 2, 3]);
    // A store in memory loses nothing and keeps its names.
    Losses::new(images).report().unwrap();
}

#[test]
fn advice_names_what_serve_has() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none/disk.img");
    let refused = refusal(&[&missing], None);
    let advice = "--create SIZE, or give another PATH";
    assert!(refused.ends_with(advice), "{refused}");
    assert!(!refused.contains("--dir"), "{refused}");
    let refused = refusal(&[&missing], Some(4096));
    assert!(refused.ends_with("make its directory first"), "{refused}");
    let path = folder.path().join("disk.img");
    let refused = refusal(&[&path], Some(u64::MAX));
    assert!(refused.contains("give a smaller --create"), "{refused}");
    assert!(!path.exists());
    std::fs::write(&path, vec![7; LENGTH_BYTES as usize]).unwrap();
    let refused = refusal(&[&path], Some(2 * LENGTH_BYTES));
    assert!(refused.contains("1048576 bytes, not 2097152"), "{refused}");
    assert!(std::fs::read(&path).unwrap() == vec![7; LENGTH_BYTES as usize]);
    let twice = refusal(&[&path, &path], None);
    assert!(twice.contains("another server has it open"), "{twice}");
}

#[test]
fn a_key_for_something_that_is_not_encrypted_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (key, path) = (folder.path().join("key"), folder.path().join("disk.img"));
    std::fs::write(&key, [5; 32]).unwrap();
    let volume = PathBuf::from(format!("folder://{}/volume", folder.path().display()));
    let with_key = |paths: &[&Path]| {
        let arguments = ServeArguments {
            key_file: Some(key.clone()),
            ..arguments(paths, Some(LENGTH_BYTES))
        };
        open(&arguments, &cache()).map(drop)
    };
    for paths in [&[&*path][..], &[&volume, &path]] {
        let refused = with_key(paths).unwrap_err().to_string();
        assert!(refused.contains("--key-file is for volumes"), "{refused}");
        assert!(!path.exists());
    }
    with_key(&[&volume]).unwrap();
}

#[test]
fn an_unknown_address_is_refused_with_a_list_of_the_known_ones() {
    let refused = refusal(&[Path::new("ftp://host/disk")], None);
    assert!(refused.contains("ftp://"), "{refused}");
    assert!(refused.contains("known are paths, file://"), "{refused}");
}

#[test]
fn a_volume_in_a_folder_is_left_to_the_next_server_or_taken_from_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let address = PathBuf::from(format!("folder://{}/volume", folder.path().display()));
    let refused = refusal(&[&address], None);
    assert!(refused.contains("cannot open folder://"), "{refused}");
    let opened = |arguments: &ServeArguments| {
        let cache = cache();
        let (exports, images) = open(arguments, &cache)?;
        assert_eq!(exports[0].length_bytes(), LENGTH_BYTES);
        Ok::<_, CommandError>((Losses::new(images), exports, cache))
    };
    let mut arguments = arguments(&[&address], Some(LENGTH_BYTES));
    let (first, _, _) = &opened(&arguments).unwrap();
    first.close();
    let (second, _, _) = &opened(&arguments).unwrap();
    let refused = refusal(&[&address], None);
    assert!(refused.contains("give --take-over"), "{refused}");
    second.report().unwrap();
    arguments.take_over = true;
    let third = opened(&arguments).unwrap();
    third.0.report().unwrap();
    for scheme in ["s3", "az", "gs"] {
        let refused = refusal(&[Path::new(&format!("{scheme}://bucket"))], None);
        let form = format!("{scheme}://BUCKET/PREFIX");
        assert!(refused.contains(&form), "{refused}");
    }
}
