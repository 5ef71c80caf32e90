//! Replies as servers send them, cut at every byte, and replies that no server should send.

use super::*;
use crate::wire::{chunk_head, simple_reply};

/// What a server answers to the read with this cookie.
type Reply<'r> = &'r dyn Fn(u64) -> Vec<u8>;

/// What one request came to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    data: Vec<u8>,
    extents: Vec<u8>,
    ended: Vec<Option<u32>>,
}

/// Feeds `input`, of which `first` bytes come alone.
fn hear(
    conversation: &mut Conversation,
    input: &[u8],
    first: usize,
) -> Result<Heard, ConversationError> {
    let mut heard = Heard::default();
    let (mut at, mut seen) = (0, first);
    loop {
        let (taken, event) = conversation.advance(&input[at..seen])?;
        at += taken;
        match event {
            Event::More if seen == input.len() => return Ok(heard),
            Event::More => seen = input.len(),
            Event::Noted => {}
            Event::Data { at, bytes, .. } => {
                let end = at as usize + bytes.len();
                heard.data.resize(heard.data.len().max(end), 0xee);
                heard.data[at as usize..end].copy_from_slice(bytes);
            }
            Event::Zeros { range, .. } => {
                let (start, end) = (range.start as usize, range.end as usize);
                heard.data.resize(heard.data.len().max(end), 0xee);
                heard.data[start..end].fill(0);
            }
            Event::Extents { bytes, .. } => heard.extents.extend(bytes),
            Event::Ended { error, .. } => heard.ended.push(error),
        }
    }
}

/// A read of 16 bytes at 4096, in chunks or not, and its cookie.
fn read(is_structured: bool) -> (Conversation, u64) {
    let mut conversation = Conversation::new(is_structured, 4);
    let (slot, bytes) = conversation.ask(command::READ, 0, 4096, 16).unwrap();
    let cookie = conversation.cookie(slot);
    let request = Request::decode(&bytes).unwrap();
    assert_eq!((request.cookie, request.offset_bytes), (cookie, 4096));
    (conversation, cookie)
}

fn data_chunk(flags: u16, cookie: u64, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let head = chunk_head(flags, chunk::OFFSET_DATA, cookie, 8 + bytes.len() as u32);
    [&head[..], &offset.to_be_bytes(), bytes].concat()
}

fn short_chunk(flags: u16, kind: u16, cookie: u64, data: &[u8]) -> Vec<u8> {
    [
        &chunk_head(flags, kind, cookie, data.len() as u32)[..],
        data,
    ]
    .concat()
}

fn error_chunk(flags: u16, cookie: u64, error: u32) -> Vec<u8> {
    let data = [&error.to_be_bytes()[..], &3_u16.to_be_bytes(), b"why"].concat();
    short_chunk(flags, chunk::ERROR, cookie, &data)
}

fn hole_chunk(flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let data = [&offset.to_be_bytes()[..], &length.to_be_bytes()].concat();
    short_chunk(flags, chunk::OFFSET_HOLE, cookie, &data)
}

fn cut_at_every_byte(is_structured: bool, reply: impl Fn(u64) -> Vec<u8>, expected: &Heard) {
    let (_, cookie) = read(is_structured);
    for first in 0..=reply(cookie).len() {
        let (mut conversation, cookie) = read(is_structured);
        let heard = hear(&mut conversation, &reply(cookie), first);
        assert_eq!(heard.as_ref(), Ok(expected), "cut at {first}");
        assert_eq!(conversation.room(), 4, "its slot is free");
    }
}

#[test]
fn a_simple_read_is_heard_however_it_is_cut() {
    let reply = |cookie| [&simple_reply(cookie, None)[..], &[7; 16]].concat();
    let expected = Heard {
        data: vec![7; 16],
        ended: vec![None],
        ..Heard::default()
    };
    cut_at_every_byte(false, reply, &expected);
}

#[test]
fn a_read_in_chunks_is_heard_however_it_is_cut_and_ordered() {
    let reply = |cookie| {
        [
            data_chunk(0, cookie, 4096 + 12, &[3; 4]),
            hole_chunk(0, cookie, 4096 + 5, 7),
            data_chunk(0, cookie, 4096, &[1; 5]),
            short_chunk(chunk::DONE, chunk::NONE, cookie, &[]),
        ]
        .concat()
    };
    let expected = Heard {
        data: [&[1; 5][..], &[0; 7], &[3; 4]].concat(),
        ended: vec![None],
        ..Heard::default()
    };
    cut_at_every_byte(true, reply, &expected);
    let in_one = |cookie| data_chunk(chunk::DONE, cookie, 4096, &[9; 16]);
    let expected = Heard {
        data: vec![9; 16],
        ended: vec![None],
        ..Heard::default()
    };
    cut_at_every_byte(true, in_one, &expected);
    let zeros = |cookie| hole_chunk(chunk::DONE, cookie, 4096, 16);
    let expected = Heard {
        data: vec![0; 16],
        ended: vec![None],
        ..Heard::default()
    };
    cut_at_every_byte(true, zeros, &expected);
}

#[test]
fn a_failed_read_ends_with_its_first_error_however_much_of_it_came() {
    let expected = Heard {
        data: vec![1; 5],
        ended: vec![Some(5)],
        ..Heard::default()
    };
    let reply = |cookie| {
        [
            data_chunk(0, cookie, 4096, &[1; 5]),
            error_chunk(0, cookie, 5),
            error_chunk(chunk::DONE, cookie, 28),
        ]
        .concat()
    };
    cut_at_every_byte(true, reply, &expected);
    let expected = Heard {
        ended: vec![Some(28)],
        ..Heard::default()
    };
    let simple = |cookie| simple_reply(cookie, Some(crate::wire::Errno::NoSpace)).to_vec();
    cut_at_every_byte(false, simple, &expected);
    cut_at_every_byte(true, simple, &expected);
}

#[test]
fn extents_are_passed_on() {
    let mut conversation = Conversation::new(true, 1);
    let (slot, _) = conversation.ask(command::BLOCK_STATUS, 0, 0, 8192).unwrap();
    let cookie = conversation.cookie(slot);
    let data = [&[0, 0, 0, 1][..], &[0, 0, 32, 0, 0, 0, 0, 3]].concat();
    let reply = short_chunk(chunk::DONE, chunk::BLOCK_STATUS, cookie, &data);
    let heard = hear(&mut conversation, &reply, 10).unwrap();
    assert_eq!(heard.extents, data[4..]);
    assert_eq!(heard.ended, [None]);
}

#[test]
fn a_cookie_counts_once_and_only_in_its_time() {
    let (mut conversation, cookie) = read(false);
    for wrong in [0, cookie + 1, cookie ^ (1 << 40), u64::MAX] {
        let heard = hear(&mut conversation, &simple_reply(wrong, None), 16);
        assert_eq!(heard, Err(ConversationError::Cookie(wrong)));
    }
    let reply = [&simple_reply(cookie, None)[..], &[7; 16]].concat();
    hear(&mut conversation, &reply, 16).unwrap();
    let again = hear(&mut conversation, &reply, 16);
    assert_eq!(again, Err(ConversationError::Cookie(cookie)));
    // The slot is used again, under another cookie.
    let (slot, _) = conversation.ask(command::READ, 0, 4096, 16).unwrap();
    assert_ne!(conversation.cookie(slot), cookie);
    let late = hear(&mut conversation, &reply, 16);
    assert_eq!(late, Err(ConversationError::Cookie(cookie)));
}

#[test]
fn there_is_room_for_so_many_requests_and_no_more() {
    let mut conversation = Conversation::new(true, 2);
    let first = conversation.ask(command::FLUSH, 0, 0, 0).unwrap().0;
    conversation.ask(command::READ, 0, 0, 1).unwrap();
    assert_eq!(conversation.ask(command::READ, 0, 0, 1), None);
    let reply = simple_reply(conversation.cookie(first), None);
    hear(&mut conversation, &reply, 16).unwrap();
    assert!(conversation.ask(command::READ, 0, 0, 1).is_some());
}

#[test]
fn claims_that_do_not_fit_their_request_are_refused() {
    let range = ConversationError::Range;
    let misfit = |kind, length_bytes| ConversationError::Chunk { kind, length_bytes };
    let replies: Vec<(Reply<'_>, ConversationError)> = vec![
        (&|c| data_chunk(0, c, 4095, &[1; 4]), range),
        (&|c| data_chunk(0, c, 4096 + 16, &[1; 1]), range),
        (&|c| data_chunk(0, c, 4096, &[1; 17]), range),
        (&|c| data_chunk(0, c, 4096 + 13, &[1; 4]), range),
        (&|c| data_chunk(0, c, u64::MAX, &[1; 4]), range),
        (&|c| hole_chunk(0, c, 4096, u32::MAX), range),
        (
            &|c| {
                [
                    data_chunk(0, c, 4096, &[1; 9]),
                    data_chunk(0, c, 4096, &[1; 9]),
                ]
                .concat()
            },
            range,
        ),
        (
            &|c| data_chunk(0, c, 4096, &[]),
            misfit(chunk::OFFSET_DATA, 8),
        ),
        (
            &|c| chunk_head(0, chunk::ERROR, c, CHUNK_LIMIT_BYTES + 1).to_vec(),
            misfit(chunk::ERROR, CHUNK_LIMIT_BYTES + 1),
        ),
        (
            &|c| short_chunk(chunk::DONE, chunk::BLOCK_STATUS, c, &[0; 12]),
            misfit(chunk::BLOCK_STATUS, 12),
        ),
        (
            &|c| short_chunk(0, chunk::NONE, c, &[]),
            misfit(chunk::NONE, 0),
        ),
        (&|c| short_chunk(chunk::DONE, 99, c, &[]), misfit(99, 0)),
        (&|c| error_chunk(chunk::DONE, c, 0), misfit(chunk::ERROR, 9)),
        (
            &|c| short_chunk(chunk::DONE, chunk::NONE, c, &[]),
            ConversationError::Short(16),
        ),
        (
            &|c| data_chunk(chunk::DONE, c, 4096, &[1; 15]),
            ConversationError::Short(1),
        ),
        (&|c| simple_reply(c, None).to_vec(), ConversationError::Form),
        (&|_| vec![0; 16], ConversationError::Magic(0)),
    ];
    for (number, (reply, error)) in replies.into_iter().enumerate() {
        let (mut conversation, cookie) = read(true);
        let bytes = reply(cookie);
        let heard = hear(&mut conversation, &bytes, bytes.len());
        assert_eq!(heard, Err(error), "reply {number}");
    }
}
