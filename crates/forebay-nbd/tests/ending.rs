//! How connections end: with everything answered that was asked, whoever ends them.

#[path = "ending/served.rs"]
mod served;

use forebay_nbd::wire::command;
use served::{Served, request};
use std::io::{Read, Write};
use std::net::Shutdown;

const READ_BYTES: u32 = 1 << 20;

/// What `stream` still says.
fn rest(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream
        .read_to_end(&mut bytes)
        .expect("the server ends in order");
    bytes
}

#[test]
fn a_long_read_is_answered_in_full_to_who_sends_no_more() {
    let served = Served::start();
    served.fill(READ_BYTES);
    // All of it is there, the end too, before the server looks at the first request.
    let mut client = served.greet();
    let asked = [served::hello(), request(command::READ, 0, READ_BYTES)].concat();
    client.write_all(&asked).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let found = rest(&mut client);
    assert_eq!(found.len(), 10 + 16 + READ_BYTES as usize);
    assert!(found[26..].iter().all(|&byte| byte == 7));
    served.end();
}

#[test]
fn every_request_is_answered_to_who_sends_no_more() {
    let served = Served::start();
    served.fill(READ_BYTES);
    let mut client = served.greet();
    let mut asked = served::hello();
    for piece in 0..8 {
        asked.extend(request(command::READ, piece << 16, 1 << 16));
    }
    asked.extend(request(command::WRITE, 0, 512));
    asked.extend([8; 512]);
    client.write_all(&asked).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let found = rest(&mut client);
    assert_eq!(found.len(), 10 + 8 * (16 + (1 << 16)) + 16);
    assert_eq!(served.read(0, 513), [&[8; 512][..], &[7]].concat());
    served.end();
}

#[test]
fn what_came_before_the_drain_is_answered() {
    let served = Served::start();
    served.fill(READ_BYTES);
    let mut client = served.client();
    for _ in 0..4 {
        client
            .write_all(&request(command::READ, 0, READ_BYTES))
            .unwrap();
    }
    // The first answer says that the requests behind it have come too, or lie in the socket.
    client.read_exact(&mut [0; 16]).unwrap();
    served.server.drain();
    let found = rest(&mut client);
    assert_eq!(found.len(), 4 * (16 + READ_BYTES as usize) - 16);
    served.end();
}
