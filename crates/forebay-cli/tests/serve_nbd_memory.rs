//! `forebay serve nbd` takes the memory that it was given, whatever its clients do.

#[path = "serve_nbd/client.rs"]
mod client;
#[path = "serve_nbd/lifetime.rs"]
mod lifetime;
#[path = "serve_nbd/server.rs"]
mod server;

use client::Client;
use forebay_nbd::wire::command;
use rustix::process::Signal;
use server::Served;
use std::io::Read;

const MEMORY_BYTES: u64 = 64 << 20;
/// Memory in addition to that: the code of the program.
const BESIDE_BYTES: u64 = 16 << 20;

/// Asks for 20 reads of 32 MiB, reads a little of the first and leaves.
fn ask_for_much(mut client: Client) {
    for at in 0..20 {
        let head = Client::request(command::READ, 0, at << 25, 32 << 20);
        if client.send(head, &[]).is_err() {
            return;
        }
    }
    client
        .stream
        .read_exact(&mut vec![0; 100_000])
        .expect("the server answers");
}

#[test]
fn memory_stays_within_its_number_when_clients_ask_for_much_and_leave() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("nbd.sock");
    let image = folder.path().join("disk.img");
    let more = ["--create", "1G", "--clients", "16", "--memory", "64M"];
    let served = Served::started(
        server::command_without_memory(&image, &socket, &more),
        socket,
    );
    for round in 0..5 {
        let mut busy: Vec<Client> = (0..4).map(|_| served.client()).collect();
        let mut clients = Vec::new();
        while clients.len() < 12 {
            // The place of a client that has just left becomes free shortly after.
            clients.extend(Client::connect(&served.socket, ""));
        }
        let joiners: Vec<_> = clients
            .into_iter()
            .map(|client| {
                forebay_rt::thread::spawn("greedy", move || ask_for_much(client)).expect("a thread")
            })
            .collect();
        for at in 0..16 {
            for client in &mut busy {
                let place = (round * 16 + at) << 20;
                assert_eq!(client.write(place, &vec![7; 1 << 20], false).unwrap(), 0);
                assert_eq!(client.read(place, 4096).unwrap(), [7; 4096]);
            }
        }
        joiners
            .into_iter()
            .for_each(forebay_rt::thread::Joiner::join);
    }
    let most = served.most_resident_bytes();
    served.signal(Signal::TERM);
    served.wait();
    assert!(
        most <= MEMORY_BYTES + BESIDE_BYTES,
        "{most} bytes were resident"
    );
}

#[test]
fn more_memory_than_the_machine_has_and_too_little_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk.img");
    let socket = folder.path().join("nbd.sock");
    for (size, clients, reported) in [
        ("15T", "16", "give a smaller one"),
        ("8M", "16", "at least, or fewer --clients"),
    ] {
        let more = ["--create", "1M", "--clients", clients, "--memory", size];
        let mut call = server::command_without_memory(&image, &socket, &more);
        let output = call.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(reported), "{text}");
        assert!(!image.exists(), "it is refused before anything is done");
    }
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["mount", "--memory", "15T", "--foreground"])
        .args([folder.path(), folder.path()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("give a smaller one"), "{text}");
}
