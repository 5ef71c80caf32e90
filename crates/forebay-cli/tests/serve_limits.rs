//! Servers that the system allows too little: they say so and end, before they promise anything.

#[path = "serve_nbd/client.rs"]
mod client;
#[path = "../../forebay-fuse/tests/support/left_out.rs"]
mod left_out;
#[path = "serve_nbd/lifetime.rs"]
mod lifetime;
#[path = "serve_nbd/server.rs"]
mod server;

use lifetime::end_late;
use server::{Served, through};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A user that has few processes, and no capability to have more.
const OTHER_USER: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

/// A folder that any user may use, with the folders `source` and `mount` and an image.
fn open_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let open = |path: &Path| {
        let all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(path, all).expect("it is ours");
    };
    for name in ["source", "mount"] {
        std::fs::create_dir(folder.path().join(name)).expect("a folder");
        open(&folder.path().join(name));
    }
    let file = std::fs::File::create(image(&folder)).expect("the folder is ours");
    file.set_len(1 << 20).expect("it has no blocks");
    open(&image(&folder));
    open(folder.path());
    folder
}

fn image(folder: &TempDir) -> PathBuf {
    folder.path().join("disk.img")
}

fn serve(folder: &TempDir, more: &[&str]) -> Command {
    let socket = folder.path().join("nbd.sock");
    server::command_without_memory(&image(folder), &socket, more)
}

fn mount(folder: &TempDir) -> Command {
    let mut call = Command::new(env!("CARGO_BIN_EXE_forebay"));
    call.args(["mount", "--foreground", "--memory", "32M"])
        .args(["source", "mount"].map(|name| folder.path().join(name)));
    call
}

/// What `call` says, which ends by itself with `status`.
fn refused(mut call: Command, status: i32) -> String {
    let child = call
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    end_late(&child);
    let output = child.wait_with_output().expect("it is ours");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{call:?}: {said}");
    assert!(!said.contains("panicked"), "{call:?}: {said}");
    assert!(
        output.stdout.is_empty(),
        "{call:?} did not promise to serve"
    );
    said
}

/// Whether this test is left out because `program` does not do what it is for.
fn is_left_out(program: &str, arguments: &[&str]) -> bool {
    let tried = Command::new(program)
        .args(arguments)
        .arg("true")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if tried.is_ok_and(|status| status.success()) {
        return false;
    }
    left_out::report(&format!("no {program} {arguments:?}"));
    true
}

#[test]
fn too_few_descriptors_are_refused_with_what_can_be_had() {
    if is_left_out("prlimit", &["--nofile=90"]) {
        return;
    }
    let folder = open_folder();
    let memory = ["--memory", "64M"];
    // The number of clients is a setting, and is refused as one.
    let said = refused(
        through("prlimit", &["--nofile=90"], &serve(&folder, &memory)),
        2,
    );
    assert!(said.contains("may open 90 (ulimit -n)"), "{said}");
    assert!(said.contains("give --clients 3 or fewer"), "{said}");
    // No client at all can be had.
    let said = refused(
        through("prlimit", &["--nofile=40"], &serve(&folder, &memory)),
        2,
    );
    assert!(
        said.contains("may open 40 (ulimit -n): raise that"),
        "{said}"
    );
    assert!(!said.contains("--clients 0"), "{said}");
    let said = refused(through("prlimit", &["--nofile=90"], &mount(&folder)), 1);
    assert!(
        said.contains("at least 128 descriptors and may open 90"),
        "{said}"
    );
    assert!(said.contains("ulimit -n"), "{said}");
    // What is said can be had is had.
    let fewer = serve(&folder, &["--memory", "64M", "--clients", "3"]);
    let socket = folder.path().join("nbd.sock");
    let served = Served::started(through("prlimit", &["--nofile=90"], &fewer), socket);
    let clients: Vec<_> = (0..3).map(|_| served.client()).collect();
    drop(clients);
    served.end(0);
}

#[test]
fn too_few_threads_are_refused_with_what_can_be_had() {
    let is_root = rustix::process::geteuid().is_root();
    let limit = ["--nproc=3"];
    // The limit does not bind root.
    let is_missing = if is_root {
        let first = [&OTHER_USER[..], &["prlimit"], &limit].concat();
        is_left_out("setpriv", &first)
    } else {
        is_left_out("prlimit", &limit)
    };
    if is_missing {
        return;
    }
    let folder = open_folder();
    // The other user may not reach the folder of the build. This process may not write the copy:
    // what it starts meanwhile would have it open, and nothing that is written can be run.
    let program = folder.path().join("forebay");
    let copied = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_forebay"))
        .arg(&program)
        .status();
    assert!(copied.is_ok_and(|status| status.success()), "there is room");
    let call_of = |call: &Command| {
        let mut copy = Command::new(&program);
        copy.args(call.get_args());
        let limited = through("prlimit", &limit, &copy);
        if is_root {
            through("setpriv", &OTHER_USER, &limited)
        } else {
            limited
        }
    };
    for call in [serve(&folder, &["--memory", "64M"]), mount(&folder)] {
        let said = refused(call_of(&call), 1);
        assert!(said.contains("the system allows "), "{said}");
        assert!(
            said.contains("are needed at least: raise ulimit -u"),
            "{said}"
        );
    }
}

#[test]
fn too_little_address_space_is_refused_and_enough_is_enough() {
    if is_left_out("prlimit", &["--as=50000000"]) {
        return;
    }
    let folder = open_folder();
    let call = serve(&folder, &["--memory", "64M"]);
    let said = refused(through("prlimit", &["--as=50000000"], &call), 1);
    assert!(said.contains("the system refused "), "{said}");
    assert!(said.contains("lower the budget"), "{said}");
    // Threads that reserve address space for themselves would leave too little of this.
    let socket = folder.path().join("nbd.sock");
    let served = Served::started(through("prlimit", &["--as=300000000"], &call), socket);
    assert_eq!(served.client().read(0, 4096).expect("it serves"), [0; 4096]);
    served.end(0);
}

/// A cgroup of this test, which ends with it.
struct Group(PathBuf);

impl Group {
    /// One with at most `limit` processes and threads; an error where none can be made.
    fn with_pids(limit: u32) -> std::io::Result<Group> {
        let name = format!("forebay-test-{}-{limit}", std::process::id());
        // The first is of version 1, where each controller has a tree.
        let tree = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].map(Path::new);
        let tree = tree.into_iter().find(|tree| tree.exists());
        let group = Group(tree.ok_or(std::io::ErrorKind::NotFound)?.join(name));
        std::fs::create_dir(&group.0)?;
        // Without the controller this is no file, and none can be made.
        let file = std::fs::File::options()
            .write(true)
            .open(group.file("pids.max"));
        write!(file?, "{limit}")?;
        let file = std::fs::File::options()
            .write(true)
            .open(group.file("cgroup.procs"));
        file.map(|_file| group)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// `call`, in this group from before its first step.
    fn limited(&self, call: &Command) -> Command {
        let enter = "echo $$ >\"$0\" && exec \"$@\"";
        let procs = self.file("cgroup.procs");
        let procs = procs.to_str().expect("its name is ASCII");
        through("sh", &["-c", enter, procs], call)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_cgroup_of_few_processes_is_refused_with_what_can_be_had() {
    let folder = open_folder();
    for limit in [1, 4] {
        let group = match Group::with_pids(limit) {
            Ok(group) => group,
            Err(error) => return left_out::report(&format!("no cgroup with pids.max: {error}")),
        };
        for call in [serve(&folder, &["--memory", "64M"]), mount(&folder)] {
            let said = refused(group.limited(&call), 1);
            assert!(said.contains("the system allows "), "{limit}: {said}");
            assert!(
                said.contains("or pids.max of the cgroup"),
                "{limit}: {said}"
            );
        }
    }
}
