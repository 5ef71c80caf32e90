//! The client's handshake against the server's, and against servers that make no sense.

use super::*;
use crate::handshake::{ExportFacts, Handshake, Progress, greeting};
use crate::wire::{OPTION_HEAD_BYTES, PAYLOAD_LIMIT_BYTES};

fn exports() -> Vec<ExportFacts> {
    vec![ExportFacts {
        name: "disk".into(),
        length_bytes: 12_345_678,
        flags: transmission_flag::HAS_FLAGS | transmission_flag::SEND_FLUSH,
    }]
}

/// Lets the two come to terms, with at most `step` bytes at a time on their way to the client.
fn meet(export: &str, step: usize) -> Result<Facts, GreetingError> {
    let exports = exports();
    let mut server = Handshake::new(&exports);
    let mut client = Greeting::new(export);
    let (mut to_client, mut to_server) = (greeting().to_vec(), Vec::new());
    let mut seen = 0;
    loop {
        let (taken, facts) = client.advance(&to_client[..seen], &mut to_server)?;
        to_client.drain(..taken);
        seen -= taken;
        if let Some(facts) = facts {
            assert!(to_client.is_empty(), "nothing comes unasked");
            return Ok(facts);
        }
        if taken > 0 {
            continue;
        }
        loop {
            let (taken, progress) = server.advance(&to_server, &mut to_client).unwrap();
            to_server.drain(..taken);
            assert_ne!(progress, Progress::Over);
            if taken == 0 || matches!(progress, Progress::Transmission(_)) {
                break;
            }
        }
        assert!(seen < to_client.len(), "one of them has something to say");
        seen = to_client.len().min(seen + step);
    }
}

#[test]
fn client_and_server_of_this_crate_come_to_terms_however_their_bytes_are_cut() {
    for step in [1, 2, 7, 1_000] {
        let facts = meet("disk", step).unwrap();
        let expected = Facts {
            length_bytes: 12_345_678,
            flags: transmission_flag::HAS_FLAGS | transmission_flag::SEND_FLUSH,
            least_block_bytes: 1,
            payload_limit_bytes: PAYLOAD_LIMIT_BYTES,
            is_structured: true,
            allocation: Some(1),
        };
        assert_eq!(facts, expected, "{step} bytes at a time");
    }
    assert_eq!(meet("", 1_000), meet("disk", 1_000), "the default export");
    assert_eq!(meet("other", 1_000), Err(GreetingError::UnknownExport));
}

fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    for number in [option, kind, data.len() as u32] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.extend(data);
    bytes
}

/// The result for a server that says `said` after its greeting.
fn hear(said: &[Vec<u8>]) -> Result<Option<Facts>, GreetingError> {
    let mut client = Greeting::new("disk");
    let input = [greeting().to_vec(), said.concat()].concat();
    let (mut at, mut output) = (0, Vec::new());
    loop {
        let (taken, facts) = client.advance(&input[at..], &mut output)?;
        at += taken;
        if taken == 0 || facts.is_some() {
            return Ok(facts);
        }
    }
}

const UNSUP: u32 = option_reply::ERR_UNSUP;

fn export_info(length_bytes: u64, flags: u16) -> Vec<u8> {
    let info = [
        &[0, 0][..],
        &length_bytes.to_be_bytes(),
        &flags.to_be_bytes(),
    ]
    .concat();
    reply(option::GO, option_reply::INFO, &info)
}

fn blocks(least: u32, most: u32) -> Vec<u8> {
    let mut info = info::BLOCK_SIZE.to_be_bytes().to_vec();
    for number in [least, 4096, most] {
        info.extend(number.to_be_bytes());
    }
    reply(option::GO, option_reply::INFO, &info)
}

#[test]
fn a_server_that_knows_neither_chunks_nor_holes_can_be_used() {
    let said = [
        reply(option::STRUCTURED_REPLY, UNSUP, b"no"),
        export_info(1 << 20, 1),
        reply(option::GO, option_reply::ACK, &[]),
    ];
    let facts = hear(&said).unwrap().unwrap();
    assert!(!facts.is_structured && facts.allocation.is_none());
    assert_eq!(facts.least_block_bytes, 512);
    let said = [
        reply(option::STRUCTURED_REPLY, option_reply::ACK, &[]),
        reply(option::SET_META_CONTEXT, UNSUP, b"no"),
        export_info(1 << 20, 1),
        blocks(4096, u32::MAX),
        reply(option::GO, option_reply::ACK, &[]),
    ];
    let facts = hear(&said).unwrap().unwrap();
    assert!(facts.is_structured && facts.allocation.is_none());
    assert_eq!(facts.payload_limit_bytes, PAYLOAD_LIMIT_BYTES);
}

#[test]
fn what_makes_no_sense_or_cannot_be_used_is_refused_by_name() {
    let no = || reply(option::STRUCTURED_REPLY, UNSUP, b"no");
    let ack = || reply(option::GO, option_reply::ACK, &[]);
    let long = vec![0; REPLY_LIMIT_BYTES + 1];
    let many: Vec<Vec<u8>> = (0..=REPLIES_LIMIT).map(|_| export_info(1, 1)).collect();
    let wants_tls = reply(option::STRUCTURED_REPLY, option_reply::ERR_TLS_REQD, b"");
    let policy = reply(option::GO, (1 << 31) + 2, b"not for you");
    let answer = GreetingError::Answer;
    for (said, error) in [
        (vec![no(), ack()], answer(option::GO)),
        (
            vec![reply(option::GO, UNSUP, b"")],
            answer(option::STRUCTURED_REPLY),
        ),
        (vec![vec![0; 20]], answer(option::STRUCTURED_REPLY)),
        (
            vec![reply(option::STRUCTURED_REPLY, UNSUP, &long)],
            answer(option::STRUCTURED_REPLY),
        ),
        (
            vec![reply(option::STRUCTURED_REPLY, 77, &[])],
            answer(option::STRUCTURED_REPLY),
        ),
        ([vec![no()], many].concat(), answer(option::GO)),
        (
            vec![no(), reply(option::GO, option_reply::INFO, &[0; 11])],
            answer(option::GO),
        ),
        (
            vec![no(), reply(option::GO, option_reply::INFO, &[0])],
            answer(option::GO),
        ),
        (vec![wants_tls], GreetingError::WantsTls),
        (
            vec![no(), reply(option::GO, UNSUP, b"")],
            GreetingError::Oldstyle,
        ),
        (
            vec![no(), export_info(9, 1), blocks(3, 1 << 20), ack()],
            GreetingError::Block(3),
        ),
        (
            vec![no(), export_info(9, 1), blocks(8192, 1 << 20), ack()],
            GreetingError::Block(8192),
        ),
        (
            vec![no(), export_info(9, 1), blocks(0, 1 << 20), ack()],
            GreetingError::Block(0),
        ),
        (
            vec![no(), export_info(9, 1), blocks(1, 512), ack()],
            GreetingError::Payload(512),
        ),
        (
            vec![no(), policy],
            GreetingError::Refused {
                error: (1 << 31) + 2,
                text: "not for you".to_owned(),
            },
        ),
    ] {
        assert_eq!(hear(&said), Err(error));
    }
}

#[test]
fn a_server_of_another_kind_is_refused_at_once() {
    let mut output = Vec::new();
    let mut hear = |bytes: &[u8; 18]| Greeting::new("").advance(bytes, &mut output);
    assert_eq!(hear(b"SSH-2.0-OpenSSH_9."), Err(GreetingError::Magic));
    let mut old = greeting();
    old[8..16].copy_from_slice(&0x0000_4202_8186_1253_u64.to_be_bytes());
    assert_eq!(hear(&old), Err(GreetingError::Oldstyle));
    let mut newstyle = greeting();
    newstyle[17] = 0;
    assert_eq!(hear(&newstyle), Err(GreetingError::Oldstyle));
}

#[test]
fn the_options_are_what_the_protocol_says() {
    let (mut client, mut output) = (Greeting::new("disk"), Vec::new());
    client.advance(&greeting(), &mut output).unwrap();
    assert_eq!(output[..4], [0, 0, 0, 3]);
    assert_eq!(output.len(), 4 + OPTION_HEAD_BYTES);
    output.clear();
    let no = reply(option::STRUCTURED_REPLY, UNSUP, b"no");
    client.advance(&no, &mut output).unwrap();
    assert_eq!(output[..16], *b"IHAVEOPT\0\0\0\x07\0\0\0\x0c");
    assert_eq!(output[16..], *b"\0\0\0\x04disk\0\x01\0\x03");
}

#[test]
fn tls_begins_before_anything_else_is_asked_and_nothing_may_come_in_the_clear_with_it() {
    let mut client = Greeting::with_tls("disk");
    let mut output = Vec::new();
    client.advance(&greeting(), &mut output).unwrap();
    // The client's flags, and one option.
    assert_eq!(output[12..16], option::STARTTLS.to_be_bytes());
    assert_eq!(output.len(), 20, "no other option goes in the clear");
    assert!(!client.begins_tls());
    let agreed = reply(option::STARTTLS, option_reply::ACK, &[]);
    output.clear();
    let (taken, facts) = client.advance(&agreed, &mut output).unwrap();
    assert_eq!((taken, facts, output.len()), (agreed.len(), None, 0));
    assert!(client.begins_tls());
    let injected = reply(option::STRUCTURED_REPLY, option_reply::ACK, &[]);
    assert_eq!(client.advance(&injected, &mut output), Ok((0, None)));
    assert_eq!(
        client.secured(&injected, &mut output),
        Err(GreetingError::Clear)
    );
    assert_eq!(client.secured(&[], &mut output), Ok(()));
    assert_eq!(output[8..12], option::STRUCTURED_REPLY.to_be_bytes());
    assert!(!client.begins_tls());
}

#[test]
fn a_server_without_tls_is_not_asked_in_the_clear() {
    for error in [option_reply::ERR_UNSUP, option_reply::ERR_INVALID] {
        let mut client = Greeting::with_tls("disk");
        let mut output = Vec::new();
        client.advance(&greeting(), &mut output).unwrap();
        let refused = client.advance(&reply(option::STARTTLS, error, &[]), &mut output);
        assert_eq!(refused, Err(GreetingError::NoTls));
    }
}
