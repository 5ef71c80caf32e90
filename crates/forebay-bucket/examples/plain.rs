//! A plain program at a bucket, to compare a volume with: it makes objects, or reads ranges of one,
//! many at a time, and prints how long that took. `proxy` is a slow line to a server.
//!
//! ```text
//! plain put s3://BUCKET/PREFIX BYTES COUNT DEPTH
//! plain get s3://BUCKET/PREFIX BYTES COUNT DEPTH
//! plain proxy SERVER_PORT BYTES_PER_SECOND
//! ```
//!
//! `docs/demos/elsewhere-numbers.sh` runs it.

#[path = "../tests/servers/proxy.rs"]
mod proxy;

use forebay_base::Span;
use forebay_base::sync::{Mutex, lock};
use forebay_bucket::{Bucket, bucket_at};
use forebay_rt::thread::{Stopwatch, pause_current, spawn};
use forebay_volume::{Call, Reply};
use std::error::Error;
use std::ffi::OsStr;
use std::sync::Arc;

/// The object of which ranges are read.
const READ_KEY: &str = "read";
const READ_BYTES: u64 = 8 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["proxy", port, rate] => {
            let proxy = proxy::Proxy::paced(port.parse()?, rate.parse()?);
            println!("{}", proxy.port);
            loop {
                pause_current(Span::from_secs(3_600));
            }
        }
        [verb @ ("put" | "get"), address, bytes, count, depth] => {
            let bucket = bucket_at(OsStr::new(address), true)?;
            let bytes = bytes.parse()?;
            let makes = verb == "put";
            if !makes {
                let made = bucket.ask(&Call::Make {
                    key: READ_KEY.into(),
                    bytes: Arc::new(vec![7; READ_BYTES as usize]),
                });
                made?;
            }
            let ask = move |number| call(makes, bytes, number);
            measure(&bucket, ask, count.parse()?, depth.parse()?)
        }
        _ => Err("see the first lines of this file".into()),
    }
}

/// Call `number` of the program.
fn call(makes: bool, bytes: u64, number: u64) -> Call {
    if makes {
        return Call::Make {
            key: format!("plain/{number:08}"),
            bytes: Arc::new(vec![number as u8; bytes as usize]),
        };
    }
    let at = number * 7_919 % (READ_BYTES / bytes) * bytes;
    Call::Get {
        key: READ_KEY.into(),
        range: Some(at..at + bytes),
    }
}

/// Makes `count` calls, `depth` at a time.
fn measure(
    bucket: &Arc<dyn Bucket>,
    ask: impl Fn(u64) -> Call + Copy + Send + 'static,
    count: u64,
    depth: u64,
) -> Result<(), Box<dyn Error>> {
    let took: Arc<Mutex<Vec<u64>>> = Arc::default();
    let all = Stopwatch::start();
    let mut joiners = Vec::new();
    for first in 0..depth {
        let (bucket, took) = (bucket.clone(), took.clone());
        joiners.push(spawn("plain", move || {
            for number in (first..count).step_by(depth as usize) {
                let call = ask(number);
                let clock = Stopwatch::start();
                let reply = bucket.ask(&call);
                let took_us = clock.elapsed().as_micros();
                assert!(
                    matches!(reply, Ok(Reply::Done | Reply::Bytes(_))),
                    "{reply:?}"
                );
                lock(&took).push(took_us);
            }
        })?);
    }
    for joiner in joiners {
        joiner.join();
    }
    let seconds = all.elapsed().as_secs_f64();
    let mut took = std::mem::take(&mut *lock(&took));
    took.sort_unstable();
    println!(
        "{count} calls in {seconds:.2} s, p50 {} us, p99 {} us",
        took[took.len() / 2],
        took[took.len() * 99 / 100]
    );
    Ok(())
}
