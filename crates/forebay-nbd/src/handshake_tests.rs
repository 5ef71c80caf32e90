use super::*;
use crate::wire::OPTION_REPLY_MAGIC;
use crate::wire::option_reply::{ACK, ERR_INVALID, ERR_TLS_REQD, ERR_UNKNOWN, ERR_UNSUP, INFO};
use crate::wire::transmission_flag;
use proptest::prelude::*;

/// Kind and data of an answer.
type Reply = (u32, Vec<u8>);

fn exports() -> Vec<ExportFacts> {
    let export = |name: &str, length_bytes| ExportFacts {
        name: name.into(),
        length_bytes,
        flags: transmission_flag::HAS_FLAGS | transmission_flag::SEND_FLUSH,
    };
    vec![export("a", 1 << 20), export("b", 4096)]
}

fn option(kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_text(&mut bytes, text);
    bytes
}

/// A name and the kinds of facts asked for.
fn go(name: &str, kinds: &[u16]) -> Vec<u8> {
    let mut data = text(name);
    data.extend((kinds.len() as u16).to_be_bytes());
    data.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

/// A name and queries.
fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = text(name);
    data.extend((queries.len() as u32).to_be_bytes());
    data.extend(queries.iter().flat_map(|query| text(query)));
    data
}

/// Speaks flags and `options` with a server, and returns its answers as kind and data, and where
/// it ended.
fn speak(options: &[Vec<u8>]) -> (Vec<Reply>, Result<Progress, HandshakeError>) {
    let exports = exports();
    let mut handshake = Handshake::new(&exports);
    let mut input = vec![0, 0, 0, 3];
    input.extend(options.concat());
    let (mut output, mut at) = (Vec::new(), 0);
    let end = loop {
        match handshake.advance(&input[at..], &mut output) {
            Ok((0, progress)) => break Ok(progress),
            Ok((taken, Progress::Options)) => at += taken,
            Ok((_, progress)) => break Ok(progress),
            Err(error) => break Err(error),
        }
    };
    (split_replies(&output), end)
}

fn split_replies(mut output: &[u8]) -> Vec<Reply> {
    let mut replies = Vec::new();
    while output.len() >= 20 {
        assert_eq!(u64_at(output, 0), OPTION_REPLY_MAGIC);
        let length = u32_at(output, 16) as usize;
        replies.push((u32_at(output, 12), output[20..20 + length].to_vec()));
        output = &output[20 + length..];
    }
    replies
}

fn kinds(replies: &[Reply]) -> Vec<u32> {
    replies.iter().map(|(kind, _)| *kind).collect()
}

#[test]
fn what_nbdinfo_says_ends_in_transmission() {
    let (replies, end) = speak(&[
        option(option::STRUCTURED_REPLY, &[]),
        option(
            option::SET_META_CONTEXT,
            &contexts("", &["base:allocation", "qemu:x"]),
        ),
        option(
            option::GO,
            // The server has nothing to say about the second of these.
            &go("", &[info::BLOCK_SIZE, 2, info::NAME]),
        ),
    ]);
    let expected = Agreement {
        export: 0,
        structured: true,
        allocation: true,
    };
    assert_eq!(end, Ok(Progress::Transmission(expected)));
    assert_eq!(kinds(&replies), [1, 4, 1, 3, 3, 3, 1]);
    assert_eq!(replies[1].1, b"\0\0\0\x01base:allocation");
    assert_eq!(replies[3].1, [0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 5]);
    assert_eq!(replies[4].1, [0, 3, 0, 0, 0, 1, 0, 0, 16, 0, 2, 0, 0, 0]);
    assert_eq!(replies[5].1, b"\0\x01a");
}

#[test]
fn the_old_way_in_has_no_head() {
    let exports = exports();
    for (flags, length) in [(3_u8, 10), (1, 134)] {
        let mut handshake = Handshake::new(&exports);
        let mut output = Vec::new();
        let greeted = handshake.advance(&[0, 0, 0, flags], &mut output);
        assert_eq!(greeted, Ok((4, Progress::Options)));
        let asked = option(option::EXPORT_NAME, b"b");
        let (taken, progress) = handshake.advance(&asked, &mut output).unwrap();
        let expected = Agreement {
            export: 1,
            structured: false,
            allocation: false,
        };
        assert_eq!((taken, progress), (17, Progress::Transmission(expected)));
        assert_eq!(output.len(), length);
        assert_eq!(output[..10], [0, 0, 0, 0, 0, 0, 16, 0, 0, 5]);
    }
    let (_, end) = speak(&[option(option::EXPORT_NAME, b"c")]);
    assert_eq!(end, Err(HandshakeError::UnknownExport));
}

#[test]
fn exports_are_listed() {
    let (replies, end) = speak(&[option(option::LIST, &[]), option(option::ABORT, &[])]);
    assert_eq!(end, Ok(Progress::Over));
    assert_eq!(kinds(&replies), [2, 2, 1, 1]);
    assert_eq!(replies[1].1, b"\0\0\0\x01b");
}

#[test]
fn refusals_leave_the_handshake_open() {
    let (replies, end) = speak(&[
        option(option::STARTTLS, &[]),
        option(99, b"whatever"),
        option(option::GO, &go("c", &[])),
        option(option::GO, &[0, 0, 0, 9, b'a']),
        option(
            option::SET_META_CONTEXT,
            &contexts("a", &["base:allocation"]),
        ),
        option(option::STRUCTURED_REPLY, b"x"),
        option(option::LIST, b"x"),
        option(option::INFO, &go("b", &[])),
    ]);
    let invalid = ERR_INVALID;
    assert_eq!(
        kinds(&replies),
        [
            ERR_UNSUP,
            ERR_UNSUP,
            ERR_UNKNOWN,
            invalid,
            invalid,
            invalid,
            invalid,
            INFO,
            ACK
        ]
    );
    assert_eq!(end, Ok(Progress::Options));
}

#[test]
fn a_context_counts_for_its_own_export_alone() {
    let ask = |set: &str, go_to: &str| {
        let (_, end) = speak(&[
            option(option::STRUCTURED_REPLY, &[]),
            option(
                option::SET_META_CONTEXT,
                &contexts(set, &["base:allocation"]),
            ),
            option(option::GO, &go(go_to, &[])),
        ]);
        match end {
            Ok(Progress::Transmission(agreement)) => agreement.allocation,
            other => panic!("{other:?}"),
        }
    };
    assert!(ask("b", "b"));
    assert!(ask("", "a"));
    assert!(!ask("a", "b"));
}

#[test]
fn contexts_are_listed_by_namespace_or_all() {
    for queries in [&[][..], &["base:"], &["base:allocation"]] {
        let asked = option(option::LIST_META_CONTEXT, &contexts("a", queries));
        let (replies, _) = speak(&[asked]);
        assert_eq!(kinds(&replies), [4, 1], "{queries:?}");
    }
    let asked = option(option::LIST_META_CONTEXT, &contexts("a", &["other:"]));
    assert_eq!(kinds(&speak(&[asked]).0), [1]);
}

#[test]
fn what_is_no_nbd_client_is_refused() {
    let exports = exports();
    let mut output = Vec::new();
    let flags = Handshake::new(&exports).advance(b"GET / HTTP/1.1\r\n", &mut output);
    assert_eq!(flags, Err(HandshakeError::Flags(0x4745_5420)));
    let (_, end) = speak(&[b"IHAVENOTHINGTOSAYTOYOU".to_vec()]);
    assert_eq!(end, Err(HandshakeError::Magic(0x4948_4156_454e_4f54)));
    let mut huge = option(option::LIST, &[]);
    huge[12..16].copy_from_slice(&[0xff; 4]);
    let (replies, end) = speak(&[huge]);
    assert_eq!(kinds(&replies), [option_reply::ERR_TOO_BIG]);
    assert!(matches!(
        end,
        Err(HandshakeError::TooLong { option: 3, .. })
    ));
}

/// Flags, then `options` one by one, until one leads elsewhere.
fn speak_behind_tls(
    handshake: &mut Handshake<'_>,
    options: &[Vec<u8>],
) -> (Vec<u32>, Result<Progress, HandshakeError>) {
    let mut output = Vec::new();
    let mut end = Ok(Progress::Options);
    for option in options {
        end = handshake
            .advance(option, &mut output)
            .map(|(_, progress)| progress);
    }
    (kinds(&split_replies(&output)), end)
}

#[test]
fn without_tls_nothing_is_revealed_where_tls_is_demanded() {
    let exports = exports();
    let mut handshake = Handshake::new(&exports).behind_tls();
    let asked = [
        vec![0, 0, 0, 3],
        option(option::LIST, &[]),
        option(option::STRUCTURED_REPLY, &[]),
        option(option::GO, &go("a", &[])),
        option(option::INFO, &go("a", &[])),
        option(
            option::SET_META_CONTEXT,
            &contexts("a", &["base:allocation"]),
        ),
        option(77, &[]),
        option(option::STARTTLS, b"data"),
    ];
    let (replies, end) = speak_behind_tls(&mut handshake, &asked);
    let mut expected = vec![ERR_TLS_REQD; 6];
    expected.push(ERR_INVALID);
    assert_eq!((replies, end), (expected, Ok(Progress::Options)));
    let wish = [option(option::STARTTLS, &[])];
    let (replies, end) = speak_behind_tls(&mut handshake, &wish);
    assert_eq!((replies, end), (vec![ACK], Ok(Progress::Tls)));
    handshake.secured();
    let again = [wish[0].clone(), option(option::GO, &go("a", &[]))];
    let (replies, end) = speak_behind_tls(&mut handshake, &again);
    assert_eq!(replies, [ERR_INVALID, INFO, ACK]);
    // What was asked for in the clear does not count.
    let expected = Agreement {
        export: 0,
        structured: false,
        allocation: false,
    };
    assert_eq!(end, Ok(Progress::Transmission(expected)));
}

#[test]
fn the_old_way_in_ends_where_tls_is_demanded() {
    let exports = exports();
    let mut handshake = Handshake::new(&exports).behind_tls();
    let asked = [vec![0, 0, 0, 3], option(option::EXPORT_NAME, b"a")];
    let (replies, end) = speak_behind_tls(&mut handshake, &asked);
    assert_eq!((replies, end), (vec![], Err(HandshakeError::NotSecured)));
    let mut handshake = Handshake::new(&exports).behind_tls();
    let asked = [vec![0, 0, 0, 3], option(option::ABORT, &[])];
    let (replies, end) = speak_behind_tls(&mut handshake, &asked);
    assert_eq!((replies, end), (vec![ACK], Ok(Progress::Over)));
}

#[test]
fn tls_that_is_not_offered_is_refused_and_the_handshake_goes_on() {
    let (replies, end) = speak(&[option(option::STARTTLS, &[])]);
    assert_eq!(
        (kinds(&replies), end),
        (vec![ERR_UNSUP], Ok(Progress::Options))
    );
}

proptest! {
    #[test]
    fn the_same_comes_out_however_the_bytes_arrive(
        cuts in prop::collection::vec(1_usize..60, 1..30),
    ) {
        let exports = exports();
        let mut input = vec![0, 0, 0, 3];
        input.extend(option(option::LIST, &[]));
        input.extend(option(option::STRUCTURED_REPLY, &[]));
        input.extend(option(option::GO, &go("b", &[info::NAME])));
        let mut expected = Vec::new();
        let mut whole = Handshake::new(&exports);
        let mut at = 0;
        while at < input.len() {
            at += whole.advance(&input[at..], &mut expected).unwrap().0;
        }
        let (mut output, mut start, mut end) = (Vec::new(), 0, 0);
        let mut handshake = Handshake::new(&exports);
        for cut in cuts.into_iter().chain([input.len()]) {
            end = input.len().min(end + cut);
            loop {
                let (taken, _) = handshake.advance(&input[start..end], &mut output).unwrap();
                start += taken;
                if taken == 0 || start == input.len() {
                    break;
                }
            }
        }
        prop_assert_eq!(output, expected);
    }

    #[test]
    fn no_bytes_stop_the_server(
        kind in 0_u32..12, data in prop::collection::vec(any::<u8>(), 0..80), rest: Vec<u8>,
    ) {
        let exports = exports();
        let mut handshake = Handshake::new(&exports);
        let mut input = vec![0, 0, 0, 1];
        input.extend(option(kind, &data));
        input.extend(rest);
        let (mut output, mut at) = (Vec::new(), 0);
        while let Ok((taken, Progress::Options)) = handshake.advance(&input[at..], &mut output) {
            at += taken;
            prop_assert!(at <= input.len());
            if taken == 0 {
                break;
            }
        }
    }
}
