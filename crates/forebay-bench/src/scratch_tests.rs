use super::*;
use crate::contender::Who;

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
fn a_killed_bench_is_swept_and_a_live_one_is_left() {
    let parent = tempfile::tempdir().unwrap();
    let killed = parent.path().join("forebay-bench-1");
    fs::create_dir(&killed).unwrap();
    fs::write(killed.join(LOCK_NAME), b"").unwrap();
    let live = parent.path().join("forebay-bench-2");
    fs::create_dir(&live).unwrap();
    let lock = lock_folder(&live).unwrap();
    let foreign = parent.path().join("forebay-bench-notes");
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
    assert!(matches!(error, BenchError::NoRoom { .. }), "{error}");
    scratch.check_room(4096).unwrap();
}

#[test]
fn files_are_as_long_as_the_layout_says_and_stamped() {
    let parent = tempfile::tempdir().unwrap();
    let layout = Layout::new(parent.path(), 4 << 20);
    write_files(&layout, &Interrupts::none()).unwrap();
    let data = fs::read(layout.data_file()).unwrap();
    assert_eq!(data.len(), 16 << 20);
    assert_eq!(data[5 * 4096..5 * 4096 + 8], 5_u64.to_le_bytes());
    assert!(layout.set_file(Who::Kernel, 1, 2).exists());
}

#[test]
fn an_interrupt_stops_the_writing() {
    let parent = tempfile::tempdir().unwrap();
    let layout = Layout::new(parent.path(), 4 << 20);
    let interrupts = Interrupts::none();
    interrupts.simulate(15);
    let error = write_files(&layout, &interrupts).unwrap_err();
    assert!(matches!(error, BenchError::Interrupted { signal: 15 }));
}
