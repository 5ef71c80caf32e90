//! Any bytes from a client: the handshake and the decoder of requests accept or refuse them, give
//! the same answer however the bytes are cut, and let nothing pass that lies outside the export.
#![no_main]

use forebay_nbd::handshake::{Agreement, ExportFacts, Handshake, HandshakeError, Progress};
use forebay_nbd::session::{Command, Session};
use forebay_nbd::wire::{REQUEST_BYTES, Request};
use libfuzzer_sys::fuzz_target;

const LENGTH_BYTES: u64 = 1 << 30;

/// The result of a handshake: the answers, the bytes taken, and the end.
#[derive(Debug, PartialEq)]
struct Talk {
    output: Vec<u8>,
    taken: usize,
    end: Result<Option<Agreement>, HandshakeError>,
}

/// Lets a server read `input`, of which it sees `step` bytes more each time that it asks.
fn talk(exports: &[ExportFacts], input: &[u8], step: usize) -> Talk {
    let mut handshake = Handshake::new(exports);
    let (mut output, mut taken, mut seen) = (Vec::new(), 0, 0);
    let end = loop {
        match handshake.advance(&input[taken..seen], &mut output) {
            Ok((0, Progress::Options)) if seen == input.len() => break Ok(None),
            Ok((0, Progress::Options)) => seen = input.len().min(seen + step),
            Ok((count, progress)) => {
                taken += count;
                assert!(count > 0 && taken <= seen);
                match progress {
                    Progress::Options => {}
                    Progress::Tls => unreachable!("TLS was not offered"),
                    Progress::Transmission(agreement) => break Ok(Some(agreement)),
                    Progress::Over => break Ok(None),
                }
            }
            Err(error) => break Err(error),
        }
    };
    Talk { output, taken, end }
}

fuzz_target!(|input: &[u8]| {
    let export = |name: &str| ExportFacts {
        name: name.into(),
        length_bytes: LENGTH_BYTES,
        flags: 1,
    };
    let exports = [export("a"), export("disk")];
    let whole = talk(&exports, input, input.len().max(1));
    assert_eq!(whole, talk(&exports, input, 1));
    let agreement = match whole.end {
        Ok(Some(agreement)) => {
            assert!(agreement.export < exports.len());
            assert!(agreement.structured || !agreement.allocation);
            agreement
        }
        _ => return,
    };
    let session = Session {
        length_bytes: LENGTH_BYTES,
        read_only: agreement.export == 0,
        structured: agreement.structured,
        allocation: agreement.allocation,
    };
    for bytes in input[whole.taken..].as_chunks::<REQUEST_BYTES>().0 {
        let Some(request) = Request::decode(bytes) else {
            return;
        };
        assert_eq!(&request.encode(), bytes);
        match session.check(&request) {
            Ok(
                Command::Read(range) | Command::Cache(range) | Command::BlockStatus { range, .. },
            ) => {
                assert!(range.start <= range.end && range.end <= LENGTH_BYTES);
            }
            Ok(
                Command::Write { range, .. }
                | Command::Trim { range, .. }
                | Command::WriteZeroes { range, .. },
            ) => {
                assert!(!session.read_only);
                assert!(range.start <= range.end && range.end <= LENGTH_BYTES);
            }
            Ok(Command::Flush | Command::Disconnect) | Err(_) => {}
        }
    }
});
