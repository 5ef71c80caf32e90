//! `forebay serve nbd` under clients that behave badly, disks that fill up, and kills.

#[path = "serve_nbd/client.rs"]
mod client;
#[path = "serve_nbd/lifetime.rs"]
mod lifetime;
#[path = "serve_nbd/server.rs"]
mod server;
#[path = "serve_nbd/small_disk.rs"]
mod small_disk;

use client::Client;
use forebay_base::Prng;
use forebay_nbd::wire::{Errno, command};
use rustix::process::Signal;
use server::Served;
use small_disk::SmallDisk;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

const LENGTH_BYTES: u64 = 64 << 20;
const CREATE: [&str; 2] = ["--create", "64M"];

fn end(served: Served) -> String {
    served.end(0)
}

#[test]
fn what_was_written_is_in_the_image_after_a_term() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), &CREATE);
    let mode = std::fs::metadata(&served.socket)
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut client = served.client();
    assert_eq!(client.length_bytes, LENGTH_BYTES);
    for at in 0..64 {
        assert_eq!(
            client
                .write(at << 20, &vec![at as u8 + 1; 1 << 20], false)
                .unwrap(),
            0
        );
    }
    assert_eq!(client.read(5 << 20, 3).unwrap(), [6, 6, 6]);
    let text = end(served);
    assert!(text.contains("everything is written"), "{text}");
    let image = std::fs::read(folder.path().join("disk.img")).unwrap();
    assert!(
        image
            .iter()
            .enumerate()
            .all(|(at, &byte)| usize::from(byte) == (at >> 20) + 1)
    );
    assert!(!folder.path().join("nbd.sock").exists());
}

/// A server with a megabyte of dirty sevens; nobody reads its messages any more.
fn unheard(folder: &Path, more: &[&str]) -> (Served, Client) {
    let mut served = Served::start(folder, &[&CREATE, more].concat());
    let mut client = served.client();
    let written = client.write(0, &vec![7; 1 << 20], false);
    assert_eq!(written.expect("the server answers"), 0);
    served.close_stderr();
    (served, client)
}

fn assert_all_written(folder: &Path) {
    let image = std::fs::read(folder.join("disk.img")).expect("it was made");
    assert!(image[..1 << 20].iter().all(|&byte| byte == 7));
}

#[test]
fn everything_is_written_where_nobody_reads_the_messages() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let folder = tempfile::tempdir().unwrap();
        let (served, client) = unheard(folder.path(), &[]);
        served.signal(signal);
        assert_eq!(served.wait_unheard().code(), Some(0), "{signal:?}");
        assert_all_written(folder.path());
        drop(client);
    }
}

#[test]
fn clients_are_turned_away_and_let_in_where_nobody_reads_the_messages() {
    let folder = tempfile::tempdir().unwrap();
    let (served, mut first) = unheard(folder.path(), &["--clients", "1"]);
    assert!(Client::connect(&served.socket, "").is_err());
    let leave = Client::request(command::DISC, 0, 0, 0);
    first.send(leave, &[]).unwrap();
    assert_eq!(first.stream.read(&mut [0; 1]).unwrap(), 0);
    // Its place becomes free shortly after its stream has ended.
    let mut tries = (0..100_000).map(|_| Client::connect(&served.socket, ""));
    let mut third = tries.find_map(Result::ok).expect("the server listens on");
    assert_eq!(third.read(0, 3).unwrap(), [7; 3]);
    served.signal(Signal::TERM);
    assert_eq!(served.wait_unheard().code(), Some(0));
    assert_all_written(folder.path());
}

#[test]
fn a_hangup_that_was_ignored_at_the_start_stays_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("nbd.sock");
    let call = server::command(&folder.path().join("disk.img"), &socket, &CREATE);
    let shell = server::through("sh", &["-c", "trap '' HUP; exec \"$0\" \"$@\""], &call);
    let served = Served::started(shell, socket);
    served.signal(Signal::HUP);
    let mut client = served.client();
    assert_eq!(client.write(0, &vec![7; 1 << 20], true).unwrap(), 0);
    end(served);
}

#[test]
fn a_status_is_printed_on_demand_and_the_server_goes_on() {
    let folder = tempfile::tempdir().expect("the test set it up");
    let mut served = Served::start(folder.path(), &["--create", "4M"]);
    let mut client = served.client();
    assert_eq!(
        client.write(0, &[7; 8_192], false).expect("it is served"),
        0
    );
    served.signal(Signal::USR1);
    served.read_until("status: store 0: 8 KiB to write");
    assert_eq!(client.flush().expect("it is served"), 0);
    end(served);
}

#[test]
fn bad_clients_do_not_disturb_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), &CREATE);
    let mut good = served.client();
    // Garbage, half a handshake, half a request, half a payload.
    for garbage in [
        &[0xff; 64][..],
        b"\0\0\0\x03IHAVEOPT\0\0\0\x07\xff\xff\xff\xff",
        b"\0\0",
    ] {
        let mut stream = UnixStream::connect(&served.socket).unwrap();
        stream.write_all(garbage).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert!(rest.starts_with(b"NBDMAGICIHAVEOPT"));
    }
    // The part of a write that has come may be written, so it goes beside the compared range.
    let head = Client::request(command::WRITE, 0, 1 << 20, 100_000);
    for length in [0, 10, 28, 5_000, 80_000] {
        let mut client = served.client();
        let bytes = [&head[..], &vec![1; 100_000]].concat();
        client.stream.write_all(&bytes[..length]).unwrap();
        drop(client);
    }
    let mut lost = served.client();
    lost.stream.write_all(&[7; 28]).unwrap();
    assert_eq!(
        lost.stream.read(&mut [0; 1]).unwrap(),
        0,
        "a request without magic ends it"
    );
    assert_eq!(good.write(0, &[9; 4096], true).unwrap(), 0);
    assert_eq!(good.read(0, 4096).unwrap(), [9; 4096]);
    end(served);
}

#[test]
fn requests_that_make_no_sense_are_answered_and_the_session_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), &CREATE);
    let mut client = served.client();
    let past = Client::request(command::READ, 0, LENGTH_BYTES - 1, 2);
    assert_eq!(client.ask(past, &[]).unwrap(), Errno::Invalid as u32);
    let huge = Client::request(command::READ, 0, 0, u32::MAX);
    assert_eq!(client.ask(huge, &[]).unwrap(), Errno::Overflow as u32);
    let full = client.write(LENGTH_BYTES, &[1; 512], false).unwrap();
    assert_eq!(full, Errno::NoSpace as u32);
    let unknown = Client::request(77, 0, 0, 0);
    assert_eq!(client.ask(unknown, &[]).unwrap(), Errno::Invalid as u32);
    assert_eq!(client.read(0, 1).unwrap(), [0]);
    end(served);
    let served = Served::start(folder.path(), &["--read-only"]);
    let mut client = served.client();
    assert_eq!(
        client.write(0, &[1], false).unwrap(),
        Errno::NotPermitted as u32
    );
    assert_eq!(client.read(LENGTH_BYTES - 2, 2).unwrap(), [0, 0]);
    end(served);
}

#[test]
fn a_client_that_reads_no_replies_costs_no_memory_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), &CREATE);
    let mut other = served.client();
    let mut deaf = served.client();
    other.read(0, 4096).unwrap();
    let before = served.resident_bytes();
    deaf.stream.set_nonblocking(true).unwrap();
    let requests: Vec<u8> = (0..1_000_u64)
        .flat_map(|at| Client::request(command::READ, 0, (at % 32) << 20, 1 << 20))
        .collect();
    let mut asked_bytes = 0;
    // As many requests as fit on the way to the server: a thousand megabytes of replies.
    while let Ok(count) = deaf.stream.write(&requests[asked_bytes % 28..]) {
        asked_bytes += count;
        assert!(
            asked_bytes < 64 << 20,
            "the server reads on without being read"
        );
    }
    for at in 0..64 {
        assert_eq!(other.write(at * 4096, &[3; 4096], false).unwrap(), 0);
        assert_eq!(other.read(at * 4096, 4096).unwrap(), [3; 4096]);
    }
    let grown = served.resident_bytes().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes more");
    drop(deaf);
    end(served);
}

#[test]
fn two_clients_on_one_range_leave_whole_writes() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), &CREATE);
    let (mut one, mut two) = (served.client(), served.client());
    for round in 0..200_u64 {
        let at = (round % 16) * 4096;
        let head = Client::request(command::WRITE, 0, at, 4096);
        one.send(head, &[1; 4096]).unwrap();
        two.send(head, &[2; 4096]).unwrap();
        assert_eq!((one.answer().unwrap(), two.answer().unwrap()), (0, 0));
        let found = one.read(at, 4096).unwrap();
        assert!(
            found == [1; 4096] || found == [2; 4096],
            "torn at round {round}"
        );
        assert_eq!(two.read(at, 4096).unwrap(), found);
    }
    end(served);
}

/// After a kill at any moment, all data for which a FLUSH or a FUA write was answered is in the
/// image, and the next server takes the same socket.
#[test]
fn what_was_acknowledged_survives_200_kills() {
    let folder = tempfile::tempdir().unwrap();
    let mut chance = Prng::from_seed(0x6b69_6c6c);
    // For each block: the least number that is durable, and the last one sent.
    let mut blocks = [(0_u64, 0_u64); 256];
    let mut next = 1;
    for round in 0..200 {
        let served = Served::start(folder.path(), &CREATE);
        let mut client = served.client();
        for (at, block) in blocks.iter_mut().enumerate() {
            let (oldest, newest) = stamps_of(&client.read(at as u64 * 8192, 8192).unwrap());
            let (durable, sent) = *block;
            assert!(
                durable <= oldest && newest <= sent,
                "block {at} in round {round} holds {oldest} and {newest}, not {durable} to {sent}"
            );
            // Data lost in the kill is gone; the present data stays.
            *block = (oldest, newest);
        }
        for _ in 0..chance.below(60) {
            let at = chance.below(256) as usize;
            let durable = chance.below(8) == 0;
            blocks[at].1 = next;
            let bytes: Vec<u8> = next.to_le_bytes().repeat(1024);
            assert_eq!(client.write(at as u64 * 8192, &bytes, durable).unwrap(), 0);
            if durable {
                blocks[at].0 = next;
            }
            next += 1;
            if chance.below(16) == 0 {
                assert_eq!(client.flush().unwrap(), 0);
                for block in &mut blocks {
                    block.0 = block.1;
                }
            }
        }
        // One more write, in the middle of which the server dies.
        let at = chance.below(256) as usize;
        blocks[at].1 = next;
        let head = Client::request(command::WRITE, 0, at as u64 * 8192, 8192);
        client.send(head, &next.to_le_bytes().repeat(1024)).unwrap();
        next += 1;
        served.signal(Signal::KILL);
        served.wait();
    }
}

/// The older and the newer stamp of a block: a kill may come between its two pages.
fn stamps_of(block: &[u8]) -> (u64, u64) {
    let stamps: Vec<u64> = block
        .chunks_exact(8)
        .map(|stamp| u64::from_le_bytes(stamp.try_into().expect("eight bytes")))
        .collect();
    let (first, second) = stamps.split_at(512);
    assert!(first.iter().all(|stamp| *stamp == first[0]), "a torn page");
    assert!(
        second.iter().all(|stamp| *stamp == second[0]),
        "a torn page"
    );
    (first[0].min(second[0]), first[0].max(second[0]))
}

#[test]
fn a_full_disk_is_reported_at_flush_and_the_data_kept() {
    let folder = tempfile::tempdir().unwrap();
    let test = "a_full_disk_is_reported_at_flush_and_the_data_kept";
    let Some(disk) = SmallDisk::mount(folder.path(), test) else {
        return;
    };
    let served = Served::start(folder.path(), &CREATE);
    let mut client = served.client();
    for at in 0..2 {
        // Half a megabyte more than there is room for.
        assert_eq!(client.write(at << 22, &vec![5; 9 << 18], false).unwrap(), 0);
    }
    assert_eq!(client.flush().unwrap(), Errno::NoSpace as u32);
    assert_eq!(client.read(1 << 22, 8).unwrap(), [5; 8]);
    disk.grow();
    // If a retry after the first flush failed, it is reported here; nothing fails after that.
    let between = client.flush().unwrap();
    assert!([0, Errno::NoSpace as u32].contains(&between), "{between}");
    assert_eq!(client.flush().unwrap(), 0);
    assert_eq!(client.write(0, &[6; 4096], true).unwrap(), 0);
    end(served);
    let image = std::fs::read(folder.path().join("disk.img")).unwrap();
    assert_eq!(
        (image[0], image[4096], image[(4 << 20) + (9 << 18) - 1]),
        (6, 5, 5)
    );
}

#[test]
fn two_interrupts_give_up_and_say_what_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let test = "two_interrupts_give_up_and_say_what_is_lost";
    let Some(_disk) = SmallDisk::mount(folder.path(), test) else {
        return;
    };
    let mut served = Served::start(folder.path(), &CREATE);
    let mut client = served.client();
    for at in 0..2 {
        assert_eq!(client.write(at << 22, &vec![5; 9 << 18], false).unwrap(), 0);
    }
    served.signal(Signal::INT);
    served.read_until("trying again");
    served.signal(Signal::INT);
    let output = served.wait();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("were not written and are lost"), "{text}");
}

#[test]
fn what_cannot_be_served_is_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk.img");
    let socket = folder.path().join("nbd.sock");
    let failure = |more: &[&str]| {
        let output = server::command(&image, &socket, more).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        text
    };
    let missing = failure(&[]);
    assert!(missing.contains("disk.img"), "{missing}");
    assert!(missing.contains("--create"), "{missing}");
    assert!(!missing.contains("--dir"), "{missing}");
    std::fs::write(&image, []).unwrap();
    assert!(failure(&[]).contains("it has no bytes"));
    std::fs::write(&image, [0; 4096]).unwrap();
    assert!(failure(&CREATE).contains("4096 bytes, not 67108864"));
    let first = Served::start(folder.path(), &[]);
    assert!(failure(&[]).contains("another server answers"));
    let elsewhere = folder.path().join("other.sock");
    let output = server::command(&image, &elsewhere, &[]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("it is in use by process"), "{text}");
    end(first);
}

#[test]
fn an_address_that_others_can_reach_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk.img");
    std::fs::write(&image, [0; 4096]).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["serve", "nbd", "--memory", "16M", "--listen", "0.0.0.0:0"])
        .arg(&image)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("--tls-certificates"), "{text}");
}

#[test]
fn an_image_that_is_removed_is_served_to_the_end_which_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), &CREATE);
    let mut client = served.client();
    assert_eq!(client.write(0, &[4; 8192], false).unwrap(), 0);
    std::fs::remove_file(folder.path().join("disk.img")).unwrap();
    // More than the memory of the cache, so that it is read from the image that has no name.
    for at in 0..48 {
        assert_eq!(client.write(at << 20, &vec![7; 1 << 20], false).unwrap(), 0);
    }
    assert_eq!(client.flush().unwrap(), 0);
    for at in 0..48 {
        assert_eq!(client.read((at << 20) + 9, 4096).unwrap(), [7; 4096]);
    }
    let text = served.end(1);
    assert!(
        text.contains("disk.img: was removed while it was served"),
        "{text}"
    );
    assert!(!folder.path().join("disk.img").exists());
}

#[test]
fn an_image_that_is_cut_is_told_at_the_end_which_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), &CREATE);
    let mut client = served.client();
    assert_eq!(client.write(0, &[4; 8192], true).unwrap(), 0);
    let path = folder.path().join("disk.img");
    let image = std::fs::File::options().write(true).open(path).unwrap();
    image.set_len(1 << 20).unwrap();
    let text = served.end(1);
    assert!(
        text.contains("disk.img: was truncated by another program"),
        "{text}"
    );
    assert!(
        text.contains("disk.img: was truncated while it was served"),
        "{text}"
    );
}

#[test]
fn a_flush_on_one_connection_is_good_for_what_was_answered_on_another() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), &CREATE);
    let (mut writer, mut flusher) = (served.client(), served.client());
    for at in 0..100_u64 {
        assert_eq!(writer.write(at * 8192, &[6; 8192], false).unwrap(), 0);
    }
    assert_eq!(flusher.flush().unwrap(), 0);
    served.signal(Signal::KILL);
    served.wait();
    let image = std::fs::read(folder.path().join("disk.img")).unwrap();
    assert!(image[..100 * 8192].iter().all(|&byte| byte == 6));
}

#[test]
fn each_export_is_a_disk_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let second = folder.path().join("second.img");
    std::fs::write(&second, [8; 4096]).unwrap();
    std::fs::write(folder.path().join("disk.img"), [1; 8192]).unwrap();
    let second = second.to_str().unwrap();
    let names = ["--export", "two", "--export", "one", second];
    let served = Served::start(folder.path(), &names);
    let mut one = Client::connect(&served.socket, "one").unwrap();
    let mut two = Client::connect(&served.socket, "two").unwrap();
    assert_eq!((one.length_bytes, two.length_bytes), (8192, 4096));
    assert_eq!(one.write(0, &[3; 512], false).unwrap(), 0);
    assert_eq!(two.read(0, 512).unwrap(), [8; 512]);
    assert_eq!(one.read(0, 512).unwrap(), [3; 512]);
    assert!(Client::connect(&served.socket, "three").is_err());
    end(served);
}

#[test]
fn requests_before_a_disconnect_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), &CREATE);
    let mut client = served.client();
    for at in 0..20 {
        let head = Client::request(command::WRITE, 0, at << 16, 1 << 16);
        client.send(head, &vec![9; 1 << 16]).unwrap();
    }
    // After the request to disconnect, the server reads nothing any more.
    let unheard = [&Client::request(command::WRITE, 0, 0, 512)[..], &[1; 512]].concat();
    let leave = Client::request(command::DISC, 0, 0, 0);
    client.send(leave, &unheard).unwrap();
    for _ in 0..20 {
        assert_eq!(client.answer().unwrap(), 0);
    }
    // The end of the stream, or a reset because of the unread bytes.
    assert!(!matches!(client.stream.read(&mut [0; 1]), Ok(1)));
    assert_eq!(served.client().read(0, 512).unwrap(), [9; 512]);
    end(served);
}

#[test]
fn an_aborted_handshake_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), &CREATE);
    let mut stream = UnixStream::connect(&served.socket).unwrap();
    stream
        .write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x02\0\0\0\0")
        .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    // The greeting, then one answer of the kind ACK, then the end.
    assert_eq!(answer.len(), 18 + 20);
    assert_eq!(answer[18 + 12..18 + 16], [0, 0, 0, 1]);
    end(served);
}
