//! The control socket of a real server: each request, the commands that ask it, and clients that
//! behave badly.

#[path = "serve_nbd/client.rs"]
mod client;
#[path = "serve_nbd/lifetime.rs"]
mod lifetime;
#[path = "mount_model/mounted.rs"]
mod mounted;
#[path = "serve_nbd/server.rs"]
mod server;
#[path = "control/watching.rs"]
mod watching;

use client::Client;
use forebay_base::Span;
use forebay_rt::thread::{Stopwatch, pause_current};
use mounted::{Mounted, is_left_out};
use rustix::fs::{AtFlags, Mode};
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;
use serde_json::{Value, json};
use server::Served;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::sync_channel;

/// How long a test waits for what has to happen.
const PATIENCE: Span = Span::from_secs(120);

/// A server of two images with a control socket.
struct Controlled {
    folder: tempfile::TempDir,
    served: Served,
    socket: PathBuf,
}

impl Controlled {
    fn start(more: &[&str]) -> Controlled {
        let folder = tempfile::tempdir().expect("the test set it up");
        let socket = folder.path().join("c");
        let images = [
            folder.path().join("heavy.img"),
            folder.path().join("light.img"),
        ];
        let mut call = server::command(&images[0], &folder.path().join("s"), &["--create", "64M"]);
        call.arg(&images[1])
            .arg("--control")
            .arg(&socket)
            .args(more);
        let served = Served::started(call, folder.path().join("s"));
        Controlled {
            folder,
            served,
            socket,
        }
    }

    fn client(&self, export: &str) -> Client {
        Client::connect(&self.served.socket, export).expect("the test set it up")
    }

    fn ask(&self, request: &str) -> (u16, String) {
        ask(&self.socket, request)
    }

    fn get(&self, target: &str) -> (u16, String) {
        get(&self.socket, target)
    }

    fn json(&self, target: &str) -> Value {
        json_at(&self.socket, target)
    }

    fn set(&self, knobs: &str) -> (u16, Value) {
        let length = knobs.len();
        let request = format!("POST /set HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{knobs}");
        let (status, body) = self.ask(&request);
        (status, serde_json::from_str(&body).unwrap_or_default())
    }

    /// Writes enough to an export that its writer has to wait.
    fn write(&self, export: &str, mib: u64) {
        write(&self.served.socket, export, mib);
    }

    fn forebay(&self, words: &[&str]) -> Output {
        let mut command = forebay(&words[..1]);
        command
            .arg(&self.socket)
            .args(&words[1..])
            .output()
            .expect("the test set it up")
    }
}

fn ask(socket: &Path, request: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(socket).expect("the test set it up");
    stream
        .write_all(request.as_bytes())
        .expect("the test set it up");
    reply(&mut stream)
}

fn get(socket: &Path, target: &str) -> (u16, String) {
    ask(socket, &format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"))
}

fn json_at(socket: &Path, target: &str) -> Value {
    let (status, body) = get(socket, target);
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("the test set it up")
}

fn write(socket: &Path, export: &str, mib: u64) {
    let mut client = Client::connect(socket, export).expect("the server lets a client in");
    let piece = vec![7; 256 << 10];
    for at in 0..mib * 4 {
        let offset = at % 128 * piece.len() as u64;
        let written = client.write(offset, &piece, false);
        assert_eq!(written.expect("the server answers"), 0);
    }
}

fn forebay(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(words).env_remove("XDG_RUNTIME_DIR");
    command
}

/// The status and the body; an answer that was cut off has status 0.
fn reply(stream: &mut impl Read) -> (u16, String) {
    let mut bytes = Vec::new();
    // If a server disconnects before it has read everything, an error follows the answer.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).expect("the test set it up");
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return (0, text);
    };
    (
        head[9..12].parse().expect("the test set it up"),
        body.to_owned(),
    )
}

/// The first state of the server that is as it has to be at last.
fn state_when(socket: &Path, is_as_expected: impl Fn(&Value) -> bool) -> Value {
    let began = Stopwatch::start();
    loop {
        let state = json_at(socket, "/state");
        if is_as_expected(&state) {
            return state;
        }
        assert!(began.elapsed() < PATIENCE, "{state}");
        pause_current(Span::from_millis(5));
    }
}

/// The caller of `state` with this name, once it has waited or what it wrote is noted.
fn find_caller<'s>(state: &'s Value, name: &str) -> Option<&'s Value> {
    let callers = state["callers"].as_array().expect("a list");
    callers.iter().find(|it| it["caller"]["name"] == name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn each_request_is_answered_and_the_socket_is_for_its_user_alone() {
    let server = Controlled::start(&[]);
    let mode = std::fs::metadata(&server.socket)
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    server.write("heavy.img", 40);
    let (status, metrics) = server.get("/metrics");
    assert!(status == 200 && metrics.ends_with("# EOF\n"), "{metrics}");
    // All that the client dirtied is noted once the server has noticed that it has gone.
    let state = state_when(&server.socket, |state| {
        let nr_dirtied = state["counters"]["nr_dirtied"].as_u64().unwrap();
        let heavy = find_caller(state, "heavy.img");
        heavy.is_some_and(|it| it["dirtied_bytes"].as_u64() == Some(nr_dirtied * 4096))
    });
    assert_eq!(state["settings"]["dirty_ratio"], 20);
    assert_eq!(state["stores"].as_array().unwrap().len(), 1);
    let waits = state["waits"].as_array().unwrap();
    assert!(
        waits
            .iter()
            .any(|wait| wait["caller"]["name"] == "heavy.img"),
        "{state}"
    );
    let stalls = server.json("/stalls?last=300");
    assert_eq!(stalls["threshold"], "10ms");
    assert!(server.json("/why?last=300")["waited_us"].as_u64().unwrap() > 0);
    for (target, status) in [
        ("/", 404),
        ("/state/x", 404),
        ("/set", 405),
        ("/stalls?last=soon", 400),
        ("/why?first=1", 400),
        ("/why?last=-1", 400),
    ] {
        assert_eq!(server.get(target).0, status, "{target}");
    }
    assert_eq!(server.ask("DELETE /state HTTP/1.1\r\n\r\n").0, 405);
    assert_eq!(server.ask("nonsense\r\n\r\n").0, 400);
    let socket = server.socket.clone();
    server.served.end(0);
    assert!(!socket.exists());
}

#[test]
fn the_first_line_of_why_names_the_heavy_writer() {
    let server = Controlled::start(&[]);
    let mut light = server.client("light.img");
    let socket = server.served.socket.clone();
    let heavy = forebay_rt::thread::spawn("heavy", move || write(&socket, "heavy.img", 200));
    let heavy = heavy.unwrap();
    while !heavy.is_finished() {
        assert_eq!(light.write(0, &[1; 4096], false).unwrap(), 0);
    }
    heavy.join();
    let why = server.forebay(&["why", "--json"]);
    let answer: Value = serde_json::from_slice(&why.stdout).unwrap();
    let first = &answer["lines"][0];
    assert_eq!(first["caller"]["name"], "heavy.img", "{answer}");
    assert_eq!(first["culprit"], Value::Null, "{answer}");
    let why = text(&server.forebay(&["why"]).stdout);
    assert!(why.lines().nth(1).unwrap().contains("(heavy.img)"), "{why}");
}

#[test]
fn a_trace_has_the_stalls_and_names_their_callers() {
    let server = Controlled::start(&[]);
    assert_eq!(server.set(r#"{"stall_threshold": "1us"}"#).0, 200);
    server.write("heavy.img", 40);
    let file = server.folder.path().join("t.json");
    let why = server.forebay(&["why", "--trace", file.to_str().unwrap()]);
    assert!(why.status.success(), "{}", text(&why.stderr));
    let trace: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert!(
        events
            .iter()
            .any(|event| event["ph"] == "X" && event["cat"] == "write")
    );
    assert!(events.iter().any(|event| event["ph"] == "C"));
    let names: Vec<_> = events
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .collect();
    assert!(text_of(&names).contains("(heavy.img)"), "{names:?}");
    for event in events {
        assert_is_chrome_event(event);
    }
    let marks: Vec<_> = events.iter().filter(|event| event["ph"] == "i").collect();
    assert!(
        text_of(&marks).contains("stall_threshold: 10ms -> 1us"),
        "{marks:?}"
    );
}

/// The fields that Perfetto and chrome://tracing need of an event of each kind.
fn assert_is_chrome_event(event: &Value) {
    let phase = event["ph"].as_str().expect("it has a phase");
    let numbers: &[&str] = match phase {
        "M" => &["pid", "tid"],
        "X" => &["pid", "tid", "ts", "dur"],
        "C" | "i" => &["pid", "tid", "ts"],
        other => panic!("{other} is no phase of ours: {event}"),
    };
    assert!(event["name"].is_string(), "{event}");
    assert!(numbers.iter().all(|name| event[name].is_u64()), "{event}");
    match phase {
        "i" => assert!(event["s"] == "g" || event["s"] == "p", "{event}"),
        "C" => {
            let values = event["args"].as_object().expect("a counter has values");
            assert!(values.values().all(Value::is_u64), "{event}");
        }
        _ => assert!(phase == "X" || event["args"]["name"].is_string(), "{event}"),
    }
}

fn text_of(values: &[&Value]) -> String {
    values.iter().map(ToString::to_string).collect()
}

#[test]
fn knobs_are_set_at_once_all_or_none_and_refused_with_what_is_allowed() {
    let server = Controlled::start(&[]);
    let (status, answer) = server.set(r#"{"dirty_ratio": 10, "store.0.max_ratio": 50}"#);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(
        answer["changed"]["dirty_ratio"],
        json!({ "old": 20, "new": 10 })
    );
    for (knobs, status) in [
        (r#"{"dirty_ratio": 20, "store.0.max_ratio": 101}"#, 422),
        (r#"{"dirty_ratio": 101}"#, 422),
        (r#"{"dirty_ratio": 18446744073709551616}"#, 422),
        (r#"{"dirty_ratio": 20, "speed": 1}"#, 422),
        (r#"{"store.7.max_ratio": 1}"#, 422),
        (r#"{"store.99999999999999999999.max_ratio": 1}"#, 422),
        (r#"{"memory": "1T"}"#, 422),
        // The servers have no anonymous pages, so it would turn nothing.
        (r#"{"swappiness": 10}"#, 422),
        (r#"["dirty_ratio"]"#, 400),
        ("", 400),
    ] {
        let (found, answer) = server.set(knobs);
        assert_eq!(found, status, "{knobs}: {answer}");
        assert!(answer["error"].is_string(), "{answer}");
    }
    assert_eq!(server.json("/state")["settings"]["dirty_ratio"], 10);
    assert_eq!(server.json("/state")["times_tuned"], 1);
    let set = server.forebay(&["set", "dirty_ratio=15", "dirty_expire=5s"]);
    assert_eq!(
        text(&set.stdout),
        "dirty_expire: 30s -> 5s\ndirty_ratio: 10 -> 15\n"
    );
    let refused = server.forebay(&["set", "dirty_ratio=101"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("a percentage from 0 to 100"),
        "{}",
        text(&refused.stderr)
    );
    let log = server.served.end(0);
    assert!(log.contains("dirty_ratio is set from 20 to 10"), "{log}");
}

#[test]
fn a_knob_that_is_set_while_the_server_ends_is_refused_or_changed() {
    let server = Controlled::start(&[]);
    server.write("heavy.img", 8);
    server.served.signal(rustix::process::Signal::TERM);
    let mut seen = 0;
    while let Ok(mut stream) = UnixStream::connect(&server.socket) {
        let request = "POST /set HTTP/1.1\r\nContent-Length: 17\r\n\r\n{\"dirty_ratio\":1}";
        if stream.write_all(request.as_bytes()).is_err() {
            break;
        }
        let (status, body) = reply(&mut stream);
        assert!(matches!(status, 0 | 200 | 409), "{status} {body}");
        seen += 1;
    }
    assert_eq!(
        server.served.wait().status.code(),
        Some(0),
        "after {seen} requests"
    );
}

#[test]
fn events_are_sent_until_the_client_goes_and_a_set_is_one() {
    let server = Controlled::start(&[]);
    let mut stream = UnixStream::connect(&server.socket).unwrap();
    stream.write_all(b"GET /events HTTP/1.1\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "HTTP/1.1 200 OK");
    let mut lines = lines.skip_while(|line| !line.is_empty()).skip(1);
    assert_eq!(server.set(r#"{"dirty_ratio": 1}"#).0, 200);
    let mut events = || -> Value { serde_json::from_str(&lines.next().unwrap()).unwrap() };
    let set = std::iter::repeat_with(&mut events).find(|event| event["event"] == "set");
    assert_eq!(set.unwrap()["changed"]["dirty_ratio"]["new"], 1);
    server.write("heavy.img", 40);
    let waited = std::iter::repeat_with(&mut events).find(|event| event["event"] == "call_waited");
    assert_eq!(waited.unwrap()["caller"]["name"], "heavy.img");
}

#[test]
fn clients_that_never_read_do_not_keep_others_out() {
    let server = Controlled::start(&[]);
    let connect = |request: &str| {
        let mut stream = UnixStream::connect(&server.socket).unwrap();
        // It is as good if the server has disconnected it meanwhile.
        let _ = stream.write_all(request.as_bytes());
        stream
    };
    let requests = [
        "",
        "GET /",
        "GET /state HTTP/1.1\r\n\r\n",
        "GET /events HTTP/1.1\r\n\r\n",
    ];
    let deaf: Vec<_> = (0..100).map(|at| connect(requests[at % 4])).collect();
    server.write("heavy.img", 40);
    assert_eq!(server.get("/state").0, 200);
    drop(deaf);
    assert_eq!(server.get("/state").0, 200);
    server.served.end(0);
}

#[test]
fn a_listener_that_is_too_slow_learns_how_many_events_it_lost() {
    let server = Controlled::start(&[]);
    let mut stream = UnixStream::connect(&server.socket).unwrap();
    stream.write_all(b"GET /events HTTP/1.1\r\n\r\n").unwrap();
    // The head of the answer shows that it listens now.
    stream.read_exact(&mut [0; 1]).unwrap();
    server.write("heavy.img", 400);
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let lost = lines
        .find(|line| line.contains("\"event\":\"lost\""))
        .unwrap();
    let lost: Value = serde_json::from_str(&lost).unwrap();
    assert!(lost["events"].as_u64().unwrap() > 0);
}

/// What a user who is neither the server's nor root finds at `socket`.
fn ask_as_stranger(socket: &Path) -> std::io::Result<(u16, String)> {
    let (socket, (answer, answers)) = (socket.to_owned(), sync_channel(1));
    let stranger = forebay_rt::thread::spawn("stranger", move || {
        let user = Uid::from_raw(65_534);
        // Of this thread alone: the process stays what it is.
        set_thread_res_uid(user, user, user).expect("the test set it up");
        let answered = UnixStream::connect(&socket).map(|mut stream| {
            // The server may have disconnected it meanwhile.
            let _ = stream.write_all(b"GET /state HTTP/1.1\r\n\r\n");
            reply(&mut stream)
        });
        answer.send(answered).expect("the test set it up");
    });
    stranger.expect("the test set it up").join();
    answers.recv().expect("the test set it up")
}

#[test]
fn a_stranger_is_not_let_in_even_if_the_socket_is_open_to_all() {
    if !geteuid().is_root() {
        let line = "test a_stranger_is_not_let_in ... ignored, only root can be somebody else\n";
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    }
    let server = Controlled::start(&[]);
    let open = |path: &Path| {
        let mode = Mode::from_raw_mode(0o777);
        rustix::fs::chmodat(rustix::fs::CWD, path, mode, AtFlags::empty()).unwrap();
    };
    open(server.folder.path());
    let refused = ask_as_stranger(&server.socket).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    open(&server.socket);
    assert_eq!(ask_as_stranger(&server.socket).unwrap(), (0, String::new()));
    assert_eq!(server.get("/state").0, 200);
}

#[test]
fn requests_over_64_kib_are_refused_without_being_read_to_their_end() {
    let server = Controlled::start(&[]);
    let head = "POST /set HTTP/1.1\r\nContent-Length: 70000\r\n\r\n";
    assert_eq!(server.ask(head).0, 413);
    let mut stream = UnixStream::connect(&server.socket).unwrap();
    let endless = vec![b'a'; 1 << 20];
    let _ = stream
        .write_all(b"GET /")
        .and_then(|()| stream.write_all(&endless));
    assert!(matches!(reply(&mut stream).0, 0 | 413));
    assert_eq!(server.get("/state").0, 200);
}

#[test]
fn tcp_tells_metrics_and_sets_nothing() {
    let mut server = Controlled::start(&["--metrics", "127.0.0.1:0"]);
    let address = server.served.metrics_address();
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        reply(&mut stream)
    };
    assert_eq!(ask("GET /metrics HTTP/1.1\r\n\r\n").0, 200);
    let body = r#"{"dirty_ratio": 1}"#;
    let length = body.len();
    let set = format!("POST /set HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}");
    let (status, answer) = ask(&set);
    assert!(
        status == 403 && answer.contains("control socket"),
        "{status} {answer}"
    );
    assert_eq!(server.json("/state")["settings"]["dirty_ratio"], 20);
}

/// What a start says that ends with `status`.
fn refused(control: &Path, status: i32) -> String {
    let folder = tempfile::tempdir().expect("the test set it up");
    let image = folder.path().join("disk.img");
    let mut call = server::command(&image, &folder.path().join("s"), &["--create", "1M"]);
    let output = call
        .arg("--control")
        .arg(control)
        .stdin(Stdio::null())
        .output()
        .expect("the test set it up");
    let code = output.status.code();
    assert_eq!(code, Some(status), "{}", text(&output.stderr));
    text(&output.stderr)
}

#[test]
fn a_path_that_is_taken_or_too_long_ends_the_start_and_a_dead_socket_is_replaced() {
    let server = Controlled::start(&[]);
    let answer = refused(&server.socket, 1);
    assert!(answer.contains("another server answers"), "{answer}");
    let long = server.folder.path().join("a".repeat(150));
    let answer = refused(&long, 2);
    assert!(answer.contains("cannot listen on"), "{answer}");
    let file = server.folder.path().join("heavy.img");
    assert!(refused(&file, 1).contains("not a socket"));
    let dead = server.folder.path().join("dead");
    drop(UnixListener::bind(&dead).unwrap());
    let control = dead.to_str().unwrap();
    let again = tempfile::tempdir().unwrap();
    let more = ["--create", "1M", "--control", control];
    let second = Served::start(again.path(), &more);
    UnixStream::connect(&dead).unwrap();
    second.end(0);
}

#[test]
fn commands_find_the_only_server_by_themselves_and_list_several() {
    let runtime = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let start = |name: &str| {
        let (image, socket) = (
            folder.path().join(name),
            folder.path().join(name.to_owned() + ".s"),
        );
        let mut call = server::command(&image, &socket, &["--create", "1M"]);
        call.env("XDG_RUNTIME_DIR", runtime.path());
        Served::started(call, socket)
    };
    let ask = || {
        let mut command = forebay(&["top", "--json"]);
        command
            .env("XDG_RUNTIME_DIR", runtime.path())
            .output()
            .unwrap()
    };
    assert_eq!(ask().status.code(), Some(2));
    let first = start("a");
    let state: Value = serde_json::from_slice(&ask().stdout).unwrap();
    assert!(state["served"].as_str().unwrap().contains("a.s"), "{state}");
    let second = start("b");
    let answer = ask();
    assert_eq!(answer.status.code(), Some(2));
    assert!(
        text(&answer.stderr).contains("2 servers answer"),
        "{}",
        text(&answer.stderr)
    );
    first.end(0);
    second.end(0);
}

#[test]
fn top_prints_a_screen_and_needs_a_terminal_for_more() {
    let server = Controlled::start(&[]);
    server.write("heavy.img", 20);
    let once = text(&server.forebay(&["top", "--once"]).stdout);
    assert!(
        once.contains("(heavy.img)") && once.lines().count() == 24,
        "{once}"
    );
    let bare = server.forebay(&["top"]);
    assert_eq!(bare.status.code(), Some(2));
    assert!(
        text(&bare.stderr).contains("--once"),
        "{}",
        text(&bare.stderr)
    );
}

#[test]
fn metrics_have_the_sums_of_the_ledger() {
    let server = Controlled::start(&[]);
    server.write("heavy.img", 40);
    // They were taken one after the other, and a wait may have ended in between.
    state_when(&server.socket, |state| {
        let (_, metrics) = server.get("/metrics");
        let lines = lines_of_waits(state);
        !lines.is_empty() && lines.iter().all(|line| metrics.contains(line))
    });
}

/// The lines of metrics that say how long all waits of `state` took, a line for each cause.
fn lines_of_waits(state: &Value) -> Vec<String> {
    let mut sums = BTreeMap::<&str, u64>::new();
    for wait in state["waits"].as_array().expect("a state has it") {
        let sum = sums
            .entry(wait["cause"].as_str().expect("a state has it"))
            .or_default();
        *sum += wait["waited_us"].as_u64().expect("a state has it");
    }
    let line = |(cause, us)| {
        let seconds = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
        format!("forebay_wait_seconds_sum{{cause=\"{cause}\"}} {seconds}\n")
    };
    sums.into_iter().map(line).collect()
}

#[test]
fn a_mount_takes_its_settings_from_a_file() {
    if is_left_out() {
        return;
    }
    let folder = Mounted::folders();
    let path = |name: &str| folder.path().join(name);
    // The section of the block server is checked, and changes nothing here.
    let settings = format!(
        "memory = '32M'\ncontrol = '{}'\ndirty_ratio = 10\nread_only = true\n\
         [store.0]\nmax_ratio = 50\n\
         [mount]\nsource = '{}'\nmount_point = '{}'\nforeground = true\n\
         [nbd]\nsocket = 's'\n",
        path("c").display(),
        path("source").display(),
        path("mount").display(),
    );
    let (control, file) = (path("c"), path("f.toml"));
    std::fs::write(&file, settings).unwrap();
    let mut call = forebay(&["mount", "--config"]);
    call.arg(&file).arg("--read-only=false");
    let mut mounted = Mounted::started(folder, call);
    let state = json_at(&control, "/state");
    assert_eq!(state["settings"]["dirty_ratio"], 10);
    assert_eq!(state["settings"]["store.0.max_ratio"], 50);
    assert_eq!(state["times_tuned"], 0);
    assert!(state["memory"]["memory_bytes"].as_u64().unwrap() < 32 << 20);
    // The flag wins over the file.
    std::fs::write(mounted.path("log"), [7; 8192]).unwrap();
    // The kernel reports that the file was closed some time after it was.
    let state = state_when(&control, |state| {
        let log = find_caller(state, "log");
        log.is_some_and(|it| it["dirtied_bytes"].as_u64() >= Some(8192))
    });
    let log = find_caller(&state, "log").expect("it was there");
    assert_eq!(log["caller"]["kind"], "process");
    mounted.end();
    assert_eq!(std::fs::read(mounted.behind("log")).unwrap(), [7; 8192]);
    std::fs::write(&file, "\n[mount]\nsource = '/a'\nforegruond = true\n").unwrap();
    let refused = forebay(&["mount", "--memory", "32M", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let told = text(&refused.stderr);
    assert!(told.contains("f.toml:4: unknown key"), "{told}");
    assert!(told.contains("mount.foreground"), "{told}");
}

#[test]
fn a_server_takes_its_settings_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let settings = format!(
        "memory = '64M'\ncontrol = '{}'\ndirty_ratio = 10\n[store.0]\nmax_ratio = 50\n\
         [nbd]\nsocket = '{}'\ncreate = '8M'\n[[nbd.export]]\npath = '{}'\nname = 'one'\n",
        path("c").display(),
        path("s").display(),
        path("one.img").display()
    );
    std::fs::write(path("f.toml"), settings).unwrap();
    let mut call = forebay(&["serve", "nbd", "--config"]);
    call.arg(path("f.toml")).stdout(Stdio::piped());
    let served = Served::started(call, path("s"));
    let server = Controlled {
        socket: path("c"),
        folder,
        served,
    };
    let settings = &server.json("/state")["settings"];
    assert_eq!(settings["dirty_ratio"], 10);
    assert_eq!(settings["store.0.max_ratio"], 50);
    assert_eq!(server.json("/state")["times_tuned"], 0);
    assert_eq!(server.client("one").write(0, &[1; 4096], true).unwrap(), 0);
    let file = server.folder.path().join("f.toml");
    let check = forebay(&["config", "check"]).arg(&file).output().unwrap();
    assert!(check.status.success() && check.stderr.is_empty());
    std::fs::write(&file, "\nstore.3.max_ratio = 5\n").unwrap();
    let image = server.folder.path().join("two.img");
    let mut call = server::command(&image, &server.folder.path().join("t"), &["--create", "8M"]);
    let refused = call.arg("--config").arg(&file).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let told = text(&refused.stderr);
    assert!(told.contains("f.toml:2: there is no store 3"), "{told}");
}
