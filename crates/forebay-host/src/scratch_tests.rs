use super::*;

#[test]
fn a_folder_is_removed_with_all_that_is_in_it() {
    let parent = tempfile::tempdir().unwrap();
    let scratch = Scratch::create(parent.path()).unwrap();
    fs::create_dir(scratch.folder().join("deep")).unwrap();
    fs::write(scratch.folder().join("deep/file"), b"bytes").unwrap();
    drop(scratch);
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn a_killed_program_is_swept_and_a_live_one_is_left() {
    let parent = tempfile::tempdir().unwrap();
    let killed = parent.path().join("forebay-scratch-1");
    fs::create_dir(&killed).unwrap();
    fs::write(killed.join(LOCK_NAME), b"").unwrap();
    let live = parent.path().join("forebay-scratch-2");
    fs::create_dir(&live).unwrap();
    let lock = lock_folder(&live).unwrap();
    let foreign = parent.path().join("forebay-scratch-notes");
    fs::create_dir(&foreign).unwrap();

    let scratch = Scratch::create(parent.path()).unwrap();
    assert!(!killed.exists());
    assert!(live.exists());
    assert!(foreign.exists());
    drop((lock, scratch));
}

#[test]
fn a_disk_that_is_too_small_is_refused_before_anything_is_written() {
    let parent = tempfile::tempdir().unwrap();
    let scratch = Scratch::create(parent.path()).unwrap();
    let error = scratch.check_room(1 << 60).unwrap_err();
    assert!(matches!(error, HostError::NoRoom { .. }), "{error}");
    scratch.check_room(4096).unwrap();
}
