//! What one of our processes caches no other does, whatever path leads to it.

#[path = "serve_nbd/lifetime.rs"]
mod lifetime;
#[path = "mount_model/mounted.rs"]
mod mounted;

use mounted::{Mounted, is_left_out};
use rustix::fs::{FlockOperation, fcntl_lock};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn forebay(words: &[&str], paths: &[&Path]) -> Command {
    let mut call = Command::new(env!("CARGO_BIN_EXE_forebay"));
    call.args(words).args(paths);
    call
}

/// The reason for which `call` is refused.
fn refusal(mut call: Command) -> String {
    let output = call.output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{call:?} is not refused: {said}");
    said
}

fn mount(source: &Path, at: &Path) -> Command {
    forebay(&["mount", "--foreground", "--memory", "8M"], &[source, at])
}

fn serve(image: &Path, socket: &Path) -> Command {
    let mut call = forebay(
        &["serve", "nbd", "--memory", "128M", "--socket"],
        &[socket, image],
    );
    call.stdout(Stdio::piped()).stderr(Stdio::piped());
    call
}

/// A server, ended with this.
struct Served(Child);

impl Served {
    fn start(mut call: Command) -> Served {
        let mut child = call.spawn().expect("the program starts");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("it is piped");
        let read = BufReader::new(stdout).read_line(&mut line);
        read.expect("it is a pipe");
        assert!(!line.is_empty(), "{call:?} does not serve");
        Served(child)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An image in `folder`, which has the folder `deep` too.
fn image_in(folder: &Path) -> PathBuf {
    fs::create_dir_all(folder.join("deep")).expect("a folder");
    let image = folder.join("deep/image");
    let file = File::create(&image).expect("a file");
    file.set_len(1 << 20).expect("a length");
    image
}

#[test]
fn what_a_mount_shows_is_refused_to_all_others() {
    if is_left_out() {
        return;
    }
    let mut mounted = Mounted::start(8 << 20);
    let source = mounted.behind("");
    let image = image_in(&source);
    let other = tempfile::tempdir().expect("a folder");
    let (at, link) = (other.path().join("at"), other.path().join("link"));
    fs::create_dir(&at).expect("a folder");
    std::os::unix::fs::symlink(&image, &link).expect("a link");
    let socket = other.path().join("nbd.sock");
    let name = format!("process {} (forebay)", mounted.process());
    for call in [
        mount(&source, &at),
        mount(&source.join("deep"), &at),
        serve(&image, &socket),
        serve(&link, &socket),
    ] {
        let said = refusal(call);
        assert!(said.contains(&name), "{said}");
    }
    // Through the mount it is the same cache.
    drop(Served::start(serve(&mounted.path("deep/image"), &socket)));
    mounted.end();
}

#[test]
fn a_folder_with_an_image_that_is_served_is_refused_to_a_mount() {
    if is_left_out() {
        return;
    }
    let folder = Mounted::folders();
    let [source, at] = ["source", "mount"].map(|name| folder.path().join(name));
    let image = image_in(&source);
    let served = Served::start(serve(&image, &folder.path().join("nbd.sock")));
    let said = refusal(mount(&source, &at));
    let name = format!(
        "process {} (forebay), which has {}",
        served.0.id(),
        image.display()
    );
    assert!(said.contains(&name), "{said}");
    let again = refusal(serve(&image, &folder.path().join("other.sock")));
    assert!(
        again.contains(&format!("process {}", served.0.id())),
        "{again}"
    );
    drop(served);
    let mut readers = serve(&image, &folder.path().join("nbd.sock"));
    readers.arg("--read-only");
    let served = Served::start(readers);
    let mut call = mount(&source, &at);
    call.arg("--read-only");
    let mut mounted = Mounted::started(folder, call);
    drop(served);
    mounted.end();
}

/// A bucket in a folder has objects that a mount would show as they were.
#[test]
fn a_bucket_in_a_folder_is_refused_to_a_mount_and_shared_by_servers() {
    if is_left_out() {
        return;
    }
    let folder = Mounted::folders();
    let [source, at] = ["source", "mount"].map(|name| folder.path().join(name));
    let address = |name: &str| PathBuf::from(format!("folder://{}/{name}", source.display()));
    let volume = |name: &str| {
        let mut call = serve(&address(name), &folder.path().join(name));
        call.args(["--create", "1M"]);
        call
    };
    let served = Served::start(volume("one"));
    let said = refusal(mount(&source, &at));
    assert!(
        said.contains(&format!("process {}", served.0.id())),
        "{said}"
    );
    drop((Served::start(volume("two")), served));
}

#[test]
fn an_image_that_another_program_has_locked_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = image_in(folder.path());
    let socket = folder.path().join("nbd.sock");
    let file = OpenOptions::new().read(true).write(true).open(&image);
    let file = file.expect("it opens");
    let own = format!("process {}", std::process::id());
    for operation in [
        FlockOperation::NonBlockingLockShared,
        FlockOperation::NonBlockingLockExclusive,
    ] {
        fcntl_lock(&file, operation).expect("nobody has it");
        let said = refusal(serve(&image, &socket));
        assert!(said.contains(&own), "{said}");
    }
    fcntl_lock(&file, FlockOperation::Unlock).expect("we have it");
    drop(Served::start(serve(&image, &socket)));
}

/// A `qemu-io` that has an image open until this is dropped.
struct QemuIo(Child);

impl QemuIo {
    /// Whether it is there; prints that the test `name` is left out if not.
    fn is_missing(name: &str) -> bool {
        let found = Command::new("qemu-io").arg("--version").output().is_ok();
        if !found {
            let line = format!("test {name} ... ignored, qemu-io is missing\n");
            let told = std::io::stderr().write_all(line.as_bytes());
            told.expect("standard error takes a line");
        }
        !found
    }

    fn command(image: &Path, more: &[&str]) -> Command {
        let mut call = Command::new("qemu-io");
        call.args(["-f", "raw"]).args(more).arg(image);
        call
    }

    fn open(image: &Path, more: &[&str]) -> QemuIo {
        let mut call = QemuIo::command(image, more);
        call.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = call.spawn().expect("it starts");
        let mut input = child.stdin.take().expect("it is piped");
        input.write_all(b"read 0 512\n").expect("it reads");
        let output = child.stdout.as_mut().expect("it is piped");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let is_read = lines.any(|line| line.contains("read 512/512 bytes"));
        assert!(is_read, "it has opened the image");
        child.stdin = Some(input);
        QemuIo(child)
    }
}

impl Drop for QemuIo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn qemu_and_a_server_keep_each_other_off() {
    if QemuIo::is_missing("qemu_and_a_server_keep_each_other_off") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let image = image_in(folder.path());
    let socket = folder.path().join("nbd.sock");
    let served = Served::start(serve(&image, &socket));
    for more in [&["-c", "write 0 512"][..], &["-r", "-c", "read 0 512"]] {
        let said = refusal(QemuIo::command(&image, more));
        assert!(said.contains("lock"), "{said}");
    }
    drop(served);
    let qemu = QemuIo::open(&image, &[]);
    let mut readers = serve(&image, &socket);
    readers.arg("--read-only");
    for call in [serve(&image, &socket), readers] {
        let said = refusal(call);
        assert!(said.contains("as qemu does"), "{said}");
    }
    drop(qemu);
    drop(Served::start(serve(&image, &socket)));
}

/// Neither writes.
#[test]
fn qemu_and_a_server_read_an_image_at_the_same_time() {
    if QemuIo::is_missing("qemu_and_a_server_read_an_image_at_the_same_time") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let image = image_in(folder.path());
    let socket = folder.path().join("nbd.sock");
    let read_only = || {
        let mut call = serve(&image, &socket);
        call.arg("--read-only");
        call
    };
    let served = Served::start(read_only());
    let said = refusal(QemuIo::command(&image, &["-c", "write 0 512"]));
    assert!(said.contains("lock"), "{said}");
    let qemu = QemuIo::open(&image, &["-r"]);
    drop(served);
    drop(Served::start(read_only()));
    drop(qemu);
}
