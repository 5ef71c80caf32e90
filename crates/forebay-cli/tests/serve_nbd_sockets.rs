//! How clients reach `forebay serve nbd`: a socket that was handed over, and connections that have
//! nothing to say.

#[path = "serve_nbd/client.rs"]
mod client;
#[path = "serve_nbd/lifetime.rs"]
mod lifetime;
#[path = "serve_nbd/server.rs"]
mod server;

use rustix::fd::OwnedFd;
use rustix::process::{Pid, Signal, kill_process};
use server::Served;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An image of 1 MiB in `folder`.
fn image(folder: &Path) -> PathBuf {
    let image = folder.join("disk.img");
    let file = File::create(&image).expect("the folder is ours");
    file.set_len(1 << 20).expect("it has no blocks");
    image
}

/// The command that serves `image`, and is handed `sockets` from descriptor 3 on.
fn handed(image: &Path, sockets: Vec<OwnedFd>) -> Command {
    let moves = ["exec 3<&0", "exec 3<&0 4<&1 1>&2"][sockets.len() - 1];
    let script = format!(
        "{moves}; LISTEN_FDS={} LISTEN_PID=$$ exec \"$@\" 0</dev/null",
        sockets.len()
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", &script, "sh", env!("CARGO_BIN_EXE_forebay")])
        .args(["serve", "nbd", "--memory", "32M"])
        .arg(image)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut sockets = sockets.into_iter();
    command.stdin(sockets.next().expect("there is one"));
    if let Some(second) = sockets.next() {
        command.stdout(second);
    }
    command
}

fn refusal(mut command: Command) -> String {
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    text
}

#[test]
fn a_socket_that_is_handed_over_is_served_and_left_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("given.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let command = handed(&image(folder.path()), vec![listener.into()]);
    let served = Served::started(command, socket.clone());
    let mut client = served.client();
    assert_eq!(client.write(0, &[5; 4096], true).unwrap(), 0);
    drop(client);
    served.end(0);
    assert!(socket.exists(), "it belongs to whoever made it");
}

#[test]
fn what_cannot_be_served_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path());
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let text = refusal(handed(&image, vec![udp.into()]));
    assert!(
        text.contains("that was handed over cannot be used"),
        "{text}"
    );
    let open = TcpListener::bind("0.0.0.0:0").unwrap();
    let text = refusal(handed(&image, vec![open.into()]));
    assert!(
        text.contains("can be reached from other machines"),
        "{text}"
    );
    let pair = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap().into());
    let text = refusal(handed(&image, pair.into()));
    assert!(text.contains("2 sockets were handed over"), "{text}");
}

#[test]
fn a_host_name_is_looked_up_and_an_unknown_one_refused_by_the_flag() {
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path());
    let call = |address: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command
            .args(["serve", "nbd", "--memory", "32M", "-p", address])
            .arg(&image);
        command
    };
    let text = refusal(call("no.such.host.invalid:1"));
    assert!(text.contains("--listen: cannot look up no.such"), "{text}");
    let mut server = call("localhost:0").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let output = BufReader::new(server.stdout.take().unwrap()).read_line(&mut line);
    output.unwrap();
    let address = line.trim().strip_prefix("nbd://").expect("it is a URI");
    let address: SocketAddr = address.parse().unwrap();
    assert!(address.ip().is_loopback(), "{line}");
    drop(TcpStream::connect(address).unwrap());
    let pid = Pid::from_child(&server);
    kill_process(pid, Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
}

#[test]
fn connections_that_say_nothing_keep_no_client_out_and_are_told_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    image(folder.path());
    let served = Served::start(folder.path(), &["--clients", "2"]);
    let silent: Vec<_> = (0..2)
        .map(|_| UnixStream::connect(&served.socket).unwrap())
        .collect();
    let mut client = served.client();
    assert_eq!(client.write(0, &[5; 4096], true).unwrap(), 0);
    drop(silent);
    for _ in 0..40 {
        use std::io::{Read, Write};
        let mut noise = UnixStream::connect(&served.socket).unwrap();
        // The server may have hung up already.
        let _ = noise.write_all(b"GET / HTTP/1.1\r\n\r\n");
        let _ = noise.read_to_end(&mut Vec::new());
    }
    assert_eq!(client.write(4096, &[6; 4096], true).unwrap(), 0);
    let text = served.end(0);
    let lines = text
        .lines()
        .filter(|line| line.contains("connection ended"));
    assert!(lines.count() <= 2, "{text}");
}
