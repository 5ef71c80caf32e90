//! Servers of a volume in a bucket are killed under load, and taken over by others while they still
//! run: what was flushed is there, and nothing of a writer that another has replaced.
//!
//! A few rounds each here; `FOREBAY_KILLS` is another number, and `FOREBAY_KILLS_VOLUME` a new
//! volume elsewhere, with its keys in the environment.

#![allow(clippy::unwrap_used)]

#[path = "serve_nbd/client.rs"]
mod client;
#[path = "serve_nbd/lifetime.rs"]
mod lifetime;
#[path = "serve_nbd/server.rs"]
mod server;

use client::Client;
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Prng, Span};
use forebay_rt::thread::{Joiner, pause_current, spawn};
use rustix::process::Signal;
use server::Served;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const BLOCK: usize = 4096;
/// Blocks of each client: two of them share a volume of 8 MiB.
const BLOCKS: u64 = 1024;
const CLIENTS: u64 = 2;
/// Rounds after which nobody needs most of the objects.
const ROUNDS_BETWEEN_GC: u64 = 25;
const ROUNDS_BETWEEN_SNAPSHOTS: u64 = 4;

/// What each block of a client may hold: its value as of the last flush, and those written since.
#[derive(Clone)]
struct Region {
    first: u64,
    values: Vec<Vec<u64>>,
}

impl Region {
    fn flushed(&mut self) {
        for values in &mut self.values {
            values.drain(..values.len() - 1);
        }
    }

    /// What is on the disk of `client`, in whole blocks of one value each.
    fn read(&self, client: &mut Client) -> Vec<u64> {
        let mut bytes = Vec::new();
        for block in (self.first..self.first + BLOCKS).step_by(64) {
            let read = client.read(block * BLOCK as u64, 64 * BLOCK);
            bytes.extend(read.expect("the server runs"));
        }
        bytes
            .chunks(BLOCK)
            .map(|block| {
                let value = u64::from_le_bytes(block[..8].try_into().unwrap());
                let is_whole = block.chunks(8).all(|eight| eight == value.to_le_bytes());
                assert!(is_whole, "a block that is torn");
                value
            })
            .collect()
    }

    fn assert_may_hold(&self, found: &[u64], round: u64) {
        for (index, (value, values)) in found.iter().zip(&self.values).enumerate() {
            assert!(
                values.contains(value),
                "round {round}: block {} holds {value:#x} and should hold one of {values:x?}",
                self.first + index as u64,
            );
        }
    }
}

/// A server of the volume, with clients that write and flush.
struct Busy {
    server: Served,
    loads: Vec<(Arc<Mutex<Load>>, Joiner)>,
}

struct Load {
    region: Region,
    /// The error that ended it; none if the server did not answer.
    end: Option<u32>,
    flushes: u64,
}

struct Volume {
    folder: tempfile::TempDir,
    address: String,
    /// The key file, if it is encrypted, and how often the key was changed.
    key: Option<PathBuf>,
    keys: u8,
    next_socket: u64,
    prng: Prng,
    regions: Vec<Region>,
    /// Each with what was read of it at once.
    snapshots: Vec<(String, Vec<Vec<u64>>)>,
    flushes: u64,
}

impl Volume {
    fn new(name: &str) -> Volume {
        let folder = tempfile::tempdir().expect("there is room");
        let address = match std::env::var("FOREBAY_KILLS_VOLUME") {
            Ok(address) => format!("{address}-{name}"),
            Err(_) => format!("folder://{}/volume", folder.path().display()),
        };
        let region = |client| Region {
            first: client * BLOCKS,
            values: vec![vec![0]; BLOCKS as usize],
        };
        Volume {
            folder,
            address,
            key: None,
            keys: 0,
            next_socket: 0,
            prng: Prng::from_seed(name.len() as u64),
            regions: (0..CLIENTS).map(region).collect(),
            snapshots: Vec::new(),
            flushes: 0,
        }
    }

    /// The same, encrypted.
    fn encrypted(name: &str) -> Volume {
        let mut volume = Volume::new(name);
        volume.key = Some(volume.next_key());
        volume
    }

    /// A file with another key.
    fn next_key(&mut self) -> PathBuf {
        self.keys += 1;
        let path = self.folder.path().join(format!("{}.key", self.keys));
        let digits = format!("{:02x}", self.keys).repeat(32);
        std::fs::write(&path, digits).expect("the folder is ours");
        path
    }

    /// Changes the key, while a server goes on.
    fn change_key(&mut self) {
        let Some(old) = self.key.take() else {
            panic!("it is not encrypted")
        };
        let new = self.next_key();
        let output = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(["volume", "key", &self.address, "--key-file"])
            .arg(old)
            .arg("--new-key-file")
            .arg(&new)
            .output()
            .expect("the program starts");
        assert!(output.status.success(), "{output:?}");
        self.key = Some(new);
    }

    fn serve(&mut self) -> Served {
        let more = [
            "--create",
            "8M",
            "--chunk",
            "64K",
            "--take-over",
            "--garbage",
            "20%",
        ];
        self.serve_with(&more)
    }

    fn serve_with(&mut self, more: &[&str]) -> Served {
        let socket = self
            .folder
            .path()
            .join(format!("{}.sock", self.next_socket));
        self.next_socket += 1;
        let mut command = server::command(Path::new(&self.address), &socket, more);
        if let Some(key) = &self.key {
            command.arg("--key-file").arg(key);
        }
        Served::started(command, socket)
    }

    /// Serves the volume, which holds what it may. Clients go on from what is there.
    fn serve_clients(&mut self, round: u64) -> (Busy, Vec<Vec<u64>>) {
        let server = self.serve();
        let mut loads = Vec::new();
        let mut found = Vec::new();
        for index in 0..self.regions.len() {
            let mut client = server.client();
            let values = self.regions[index].read(&mut client);
            let region = Region {
                first: self.regions[index].first,
                values: values.iter().map(|&value| vec![value]).collect(),
            };
            found.push(values);
            let load = Arc::new(Mutex::new(Load {
                region,
                end: None,
                flushes: 0,
            }));
            let (shared, mut prng) = (load.clone(), Prng::from_seed(self.prng.next_u64()));
            let first_value = (round + 1) << 32 | (index as u64) << 24;
            let write = move || keep_busy(&shared, &mut client, &mut prng, first_value);
            loads.push((load, spawn("load", write).unwrap()));
        }
        (Busy { server, loads }, found)
    }

    /// Waits for the clients of `busy`, and takes over what they know.
    fn end_clients(&mut self, busy: Busy) -> (Served, Vec<Option<u32>>) {
        let mut ends = Vec::new();
        self.regions.clear();
        for (load, joiner) in busy.loads {
            joiner.join();
            let load = lock(&load);
            ends.push(load.end);
            self.flushes += load.flushes;
            self.regions.push(load.region.clone());
        }
        (busy.server, ends)
    }

    fn assert_may_hold(&self, found: &[Vec<u64>], round: u64) {
        for (region, values) in self.regions.iter().zip(found) {
            region.assert_may_hold(values, round);
        }
    }

    fn run(&self, task: &str) {
        self.run_with(task, &[]);
    }

    fn run_with(&self, task: &str, more: &[&str]) {
        let output = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(["volume", task, &self.address])
            .args(more)
            .output()
            .expect("the program starts");
        assert!(output.status.success(), "{task}: {output:?}");
    }

    /// Takes a snapshot, while a server goes on.
    fn take_snapshot(&mut self) {
        let name = format!("s{}", self.snapshots.len());
        self.run_with("snapshot", &[&name]);
        let values = self.read_snapshot(&name);
        self.snapshots.push((name, values));
    }

    fn read_snapshot(&mut self, name: &str) -> Vec<Vec<u64>> {
        let server = self.serve_with(&["--snapshot", name]);
        let mut client = server.client();
        let regions = self.regions.iter();
        let values = regions.map(|it| it.read(&mut client)).collect();
        drop(client);
        server.end(0);
        values
    }

    /// Whatever has happened since, each snapshot is what it was.
    fn assert_snapshots_stay(&mut self) {
        for (name, values) in std::mem::take(&mut self.snapshots) {
            assert!(self.read_snapshot(&name) == values, "snapshot {name}");
        }
    }

    fn pause(&mut self) {
        pause_current(Span::from_millis(1 + self.prng.below(80)));
    }
}

/// Writes and flushes until an answer is an error, or does not come.
fn keep_busy(load: &Mutex<Load>, client: &mut Client, prng: &mut Prng, first_value: u64) {
    let mut value = first_value;
    loop {
        let is_flush = prng.below(6) == 0;
        let answer = if is_flush {
            client.flush()
        } else {
            value += 1;
            let count = 1 + if prng.below(4) == 0 {
                prng.below(40)
            } else {
                prng.below(3)
            };
            let at = prng.below(BLOCKS - count);
            let mut load = lock(load);
            for block in at..at + count {
                load.region.values[block as usize].push(value);
            }
            let offset_bytes = (load.region.first + at) * BLOCK as u64;
            drop(load);
            let bytes = value.to_le_bytes().repeat(count as usize * BLOCK / 8);
            client.write(offset_bytes, &bytes, false)
        };
        let mut load = lock(load);
        match answer {
            Ok(0) if is_flush => {
                load.region.flushed();
                load.flushes += 1;
            }
            Ok(0) => {}
            Ok(error) => {
                load.end = Some(error);
                return;
            }
            Err(_) => return,
        }
    }
}

fn rounds() -> u64 {
    let typed = std::env::var("FOREBAY_KILLS").ok();
    typed.map_or(8, |typed| typed.parse().expect("FOREBAY_KILLS is a number"))
}

#[test]
fn a_server_that_is_killed_loses_nothing_that_was_flushed() {
    let mut volume = Volume::encrypted("killed");
    for round in 0..=rounds() {
        let (busy, found) = volume.serve_clients(round);
        volume.assert_may_hold(&found, round);
        volume.pause();
        if round % ROUNDS_BETWEEN_GC == 1 {
            volume.run("gc");
            volume.change_key();
        }
        if round % ROUNDS_BETWEEN_SNAPSHOTS == 2 {
            volume.take_snapshot();
        }
        busy.server.signal(Signal::KILL);
        let (server, ends) = volume.end_clients(busy);
        assert_eq!(ends, [None, None], "no request fails before");
        drop(server.wait());
    }
    volume.run("gc");
    volume.assert_snapshots_stay();
    volume.run("check");
    assert!(volume.flushes > rounds(), "{} flushes", volume.flushes);
    println!("{} kills, {} flushes", rounds(), volume.flushes);
}

#[test]
fn a_server_that_was_taken_over_commits_nothing() {
    let mut volume = Volume::new("over");
    let (mut busy, _) = volume.serve_clients(0);
    let mut rounds_stopped = 0;
    for round in 1..=rounds() {
        volume.pause();
        // Every other one stands still meanwhile and comes back after the new one has written.
        let is_stopped = round % 2 == 0;
        if is_stopped {
            busy.server.signal(Signal::STOP);
            rounds_stopped += 1;
        }
        let (next, found) = volume.serve_clients(round);
        if round % ROUNDS_BETWEEN_GC == 1 {
            volume.run("gc");
        }
        if is_stopped {
            volume.pause();
            busy.server.signal(Signal::CONT);
        }
        let (server, ends) = volume.end_clients(busy);
        assert!(
            ends.iter().all(|end| *end == Some(5)),
            "EIO for each: {ends:?}"
        );
        // What it took for flushed is what the new one found: a flush that ended well and is not
        // there was lost, or made after the new one had come.
        volume.assert_may_hold(&found, round);
        if round % 3 == 0 {
            let text = server.end(1);
            assert!(text.contains("has taken the volume over"), "{text}");
        }
        busy = next;
    }
    busy.server.signal(Signal::KILL);
    let (server, _) = volume.end_clients(busy);
    drop(server.wait());
    let (busy, found) = volume.serve_clients(rounds() + 1);
    volume.assert_may_hold(&found, rounds() + 1);
    busy.server.signal(Signal::KILL);
    let (server, _) = volume.end_clients(busy);
    drop(server.wait());
    volume.run("check");
    println!(
        "{} take-overs, {rounds_stopped} of them of a server that stood still, {} flushes",
        rounds(),
        volume.flushes
    );
}
