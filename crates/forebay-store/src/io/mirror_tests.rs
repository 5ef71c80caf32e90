use super::super::leaked_pages;
use super::*;
use crate::error::Failure;
use crate::io::{Finish, FinishedIo};
use crate::request::{ObjectId, Request};
use forebay_base::sync::{Mutex, lock};
use std::sync::Arc;

/// Where the pages lie that came back, the result, and whether it is durable.
type End = (Vec<usize>, Result<(), Failure>, bool);

#[derive(Default)]
struct Heard(Mutex<Vec<End>>);

impl Finish for Heard {
    fn finished(&self, io: FinishedIo) {
        let places = io.pages.iter().map(|page| page.address().addr().get());
        let result = io.result.map_err(|error| error.failure);
        assert_eq!(io.token, 9);
        lock(&self.0).push((places.collect(), result, io.is_durable));
    }
}

fn write(heard: &Arc<Heard>) -> (Io, Vec<usize>) {
    let pages = leaked_pages(2);
    let places = pages.iter().map(|page| page.address().addr().get());
    let places = places.collect();
    let request = Request {
        kind: IoKind::Write,
        object: ObjectId(1),
        offset_bytes: 0,
        length_bytes: 8_192,
    };
    (Io::new(request, pages, heard.clone(), 9).durable(), places)
}

#[test]
fn both_copies_read_the_pages_and_they_come_back_once_both_have_ended() {
    let heard = Arc::new(Heard::default());
    let (io, places) = write(&heard);
    let (one, other) = io.mirror();
    assert!(one.asks_durable() && other.asks_durable());
    one.succeed_durably();
    assert!(lock(&heard.0).is_empty(), "the other still reads them");
    let mut bytes = [0; 4_096];
    other.copy_page(1, 0, &mut bytes);
    assert_eq!(bytes, [0xEE; 4_096]);
    other.succeed_durably();
    assert_eq!(*lock(&heard.0), [(places, Ok(()), true)]);
}

#[test]
fn it_fails_if_one_copy_does_and_is_durable_if_both_are() {
    for (first, second, result, is_durable) in [
        (Ok(()), Err(Failure::NoSpace), Err(Failure::NoSpace), false),
        (
            Err(Failure::Gone),
            Err(Failure::NoSpace),
            Err(Failure::Gone),
            false,
        ),
        (Ok(()), Ok(()), Ok(()), false),
    ] {
        let heard = Arc::new(Heard::default());
        let (io, places) = write(&heard);
        let (one, other) = io.mirror();
        for (copy, ends) in [(one, first), (other, second)] {
            match ends {
                Ok(()) => copy.succeed(),
                Err(failure) => copy.fail(failure),
            }
        }
        assert_eq!(*lock(&heard.0), [(places, result, is_durable)]);
    }
}

#[test]
fn a_copy_that_is_dropped_fails_the_write_and_may_be_mirrored_again() {
    let heard = Arc::new(Heard::default());
    let (io, places) = write(&heard);
    let (one, rest) = io.mirror();
    let (two, three) = rest.mirror();
    two.succeed();
    one.succeed();
    assert!(lock(&heard.0).is_empty(), "one is left");
    drop(three);
    let dropped = (places, Err(Failure::Dropped), false);
    assert_eq!(*lock(&heard.0), [dropped]);
}

#[test]
#[should_panic(expected = "a write is mirrored")]
fn a_read_is_not_mirrored() {
    let request = Request {
        kind: IoKind::Read,
        object: ObjectId(1),
        offset_bytes: 0,
        length_bytes: 4_096,
    };
    drop(Io::phantom(request, Arc::new(Heard::default()), 9).mirror());
}
