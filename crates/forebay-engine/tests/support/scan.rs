//! Reading large parts of an endless file.

use super::void::Void;
use super::{Bench, PAGE, Setup};
use forebay_base::Span;
use forebay_engine::{Advice, File};
use forebay_rt::Rt;
use forebay_store::{DelayStore, Delays, MemoryStore, Store};
use std::ops::Range;
use std::sync::Arc;

/// A file without end, without readahead unless the test asks for it.
pub(crate) async fn endless(bench: &Bench) -> File {
    let file = bench.open(1 << 40);
    let advised = file.advise(Advice::Random, 0..1 << 40).await;
    assert_eq!(advised, Ok(()));
    file
}

/// A cache in front of it.
pub(crate) fn void(rt: Rt, settings: impl Into<Setup>) -> Bench {
    Bench::with(rt, settings, |_, _| Arc::new(Void))
}

/// A store of zeros whose reads take 80 us.
pub(crate) fn slow_reads(rt: Rt, _memory: Arc<MemoryStore>) -> Arc<dyn Store> {
    let delays = Delays {
        read: Span::from_micros(80),
        ..Delays::default()
    };
    Arc::new(DelayStore::new(rt, Arc::new(Void), delays))
}

/// Reads a byte of each page.
pub(crate) async fn touch(file: &File, numbers: Range<u64>) {
    let mut byte = [0; 1];
    for number in numbers {
        let read = file.read_at(&mut byte, number * PAGE as u64).await;
        assert_eq!(read, Ok(1), "page {number}");
    }
}
