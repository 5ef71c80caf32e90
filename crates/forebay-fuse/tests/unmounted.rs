//! What happens to the mount point once the mount is gone and a program still has a file open.

mod support;

use forebay_fuse::Mount;
use forebay_rt::block_on;
use rustix::mount::{MountFlags, UnmountFlags};
use std::fs::{self, File};
use std::path::Path;
use support::{TestMount, is_left_out, mounted, until};

/// Something else that is mounted where the mount was.
struct Other(std::path::PathBuf);

impl Other {
    /// None if we may not mount.
    fn mount(place: &Path) -> Option<Other> {
        let flags = MountFlags::empty();
        rustix::mount::mount("tmpfs", place, "tmpfs", flags, None).ok()?;
        Some(Other(place.to_owned()))
    }
}

fn is_mounted(place: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("the system reports");
    let mut places = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    places.any(|found| Path::new(found) == place)
}

impl Drop for Other {
    fn drop(&mut self) {
        rustix::mount::unmount(&self.0, UnmountFlags::DETACH).unwrap_or_default();
    }
}

/// Takes a mount away while a file of it is open, mounts something else there, and then ends the
/// mount.
fn end_below_another(take_away: impl FnOnce(&Mount, &Path)) {
    let Some(mut bench) = mounted() else { return };
    let path = bench.path("file");
    let place = path.parent().expect("the mount point");
    let file = File::create(&path).expect("it is made");
    let mount = bench.mount.take().expect("it is mounted");
    take_away(&mount, place);
    let Some(other) = Other::mount(place) else {
        return println!("needs root to mount something else");
    };
    mount.unmount().expect("it is away already");
    assert!(is_mounted(&other.0), "it was taken away in our place");
    drop(file);
    until("the mount does not end", || mount.has_ended());
    drop(mount);
    assert!(is_mounted(&other.0), "the end took it away (invariant M3)");
    block_on(bench.cache.close()).expect("nothing was written");
}

#[test]
fn who_mounts_where_a_mount_was_keeps_what_is_there() {
    end_below_another(|mount, _| {
        mount.unmount().expect("it is unmounted");
    });
}

#[test]
fn who_mounts_where_others_took_a_mount_away_keeps_what_is_there() {
    end_below_another(|_, place| {
        rustix::mount::unmount(place, UnmountFlags::DETACH).expect("we are root");
    });
}

#[test]
fn a_mount_whose_connection_is_cut_off_leaves_nothing_behind() {
    if is_left_out() || !rustix::process::geteuid().is_root() {
        return;
    }
    let mut bench = TestMount::of_size(16 << 20);
    let path = bench.path("file");
    let place = path.parent().expect("the mount point");
    let file = File::create(&path).expect("it is made");
    let mount = bench.mount.take().expect("it is mounted");
    let refused = rustix::mount::unmount(place, UnmountFlags::FORCE);
    refused.expect_err("a file is open");
    until("the mount does not end", || mount.has_ended());
    assert!(!is_mounted(place), "nobody answers there");
    drop(file);
    drop(mount);
    block_on(bench.cache.close()).expect("nothing was written");
}
