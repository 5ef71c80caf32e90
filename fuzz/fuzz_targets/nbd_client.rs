//! Any bytes from a server: the client's handshake and its reader of replies accept or refuse them.
//! They give the same result however the bytes are cut, and pass on nothing that lies outside of
//! the request that it is for.
#![no_main]

use forebay_nbd::client::conversation::{Conversation, ConversationError, Event};
use forebay_nbd::client::greeting::{Facts, Greeting, GreetingError};
use forebay_nbd::wire::command;
use libfuzzer_sys::fuzz_target;

/// Requests under way: kind, offset, length.
const ASKED: [(u16, u64, u32); 4] = [
    (command::READ, 4096, 64),
    (command::WRITE, 0, 64),
    (command::BLOCK_STATUS, 0, 4096),
    (command::FLUSH, 0, 0),
];

/// The result of a handshake: what was sent, the bytes taken, and the end.
type Talk = (Vec<u8>, usize, Result<Option<Facts>, GreetingError>);

/// Lets a client read `input`, of which it sees `step` bytes more each time that it asks.
fn talk(input: &[u8], step: usize) -> Talk {
    let mut greeting = Greeting::new("disk");
    let (mut output, mut taken, mut seen) = (Vec::new(), 0, 0);
    let end = loop {
        match greeting.advance(&input[taken..seen], &mut output) {
            Ok((0, None)) if seen == input.len() => break Ok(None),
            Ok((0, None)) => seen = input.len().min(seen + step),
            Ok((count, facts)) => {
                taken += count;
                assert!(taken <= seen);
                if facts.is_some() {
                    break Ok(facts);
                }
            }
            Err(error) => break Err(error),
        }
    };
    (output, taken, end)
}

/// The result of replies: bytes of the read, requests that ended, and the error that ended all.
type Heard = (Vec<u8>, Vec<(usize, Option<u32>)>, Result<(), ConversationError>);

fn hear(is_structured: bool, input: &[u8], step: usize) -> Heard {
    let mut conversation = Conversation::new(is_structured, ASKED.len());
    for (kind, offset, length) in ASKED {
        conversation.ask(kind, 0, offset, length).expect("there is room");
    }
    let mut data = vec![0xee; ASKED[0].2 as usize];
    let (mut ended, mut taken, mut seen) = (Vec::new(), 0, 0);
    let end = loop {
        match conversation.advance(&input[taken..seen]) {
            Err(error) => break Err(error),
            Ok((count, event)) => {
                taken += count;
                assert!(taken <= seen);
                match event {
                    Event::More if seen == input.len() => break Ok(()),
                    Event::More => seen = input.len().min(seen + step),
                    Event::Noted => {}
                    Event::Data { slot, at, bytes } => {
                        assert_eq!(slot, 0, "only one reads");
                        data[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
                    }
                    Event::Zeros { slot, range } => {
                        assert_eq!(slot, 0, "only one reads");
                        data[range.start as usize..range.end as usize].fill(0);
                    }
                    Event::Extents { slot, bytes } => {
                        assert_eq!(slot, 2, "only one asks for extents");
                        assert!(!bytes.is_empty() && bytes.len() % 8 == 0);
                    }
                    Event::Ended { slot, error } => {
                        assert!(ended.iter().all(|&(known, _)| known != slot));
                        assert_ne!(error, Some(0));
                        ended.push((slot, error));
                    }
                }
            }
        }
    };
    (data, ended, end)
}

fuzz_target!(|input: &[u8]| {
    let whole = talk(input, input.len().max(1));
    assert_eq!(whole, talk(input, 1));
    if let Ok(Some(facts)) = &whole.2 {
        assert!(facts.least_block_bytes.is_power_of_two() && facts.least_block_bytes <= 4096);
        assert!(facts.payload_limit_bytes >= 4096);
    }
    // Replies, too: the rest after a handshake, or all of it.
    let is_structured = input.len() % 2 == 0;
    let rest = if matches!(whole.2, Ok(Some(_))) {
        &input[whole.1..]
    } else {
        input
    };
    let heard = hear(is_structured, rest, rest.len().max(1));
    assert_eq!(heard, hear(is_structured, rest, 1));
});
