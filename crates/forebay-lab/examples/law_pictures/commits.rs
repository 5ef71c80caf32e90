//! The picture of the law of commits that are shared.

use crate::picture::{Axis, Curve, Picture};
use forebay_law::group_commit::rest_ns;

const NS_PER_S: u64 = 1_000_000_000;

pub(crate) fn group_commit() -> Picture {
    let curve = |name: &str, round_ns: fn(u64) -> u64| {
        let points = (0..10).map(|power| {
            let took_us = 100 << power;
            (took_us, NS_PER_S / round_ns(took_us * 1_000))
        });
        Curve {
            name: name.to_owned(),
            points: points.collect(),
        }
    };
    Picture {
        title: "Commits while the flusher writes",
        x: Axis::log("a commit takes (us)", (100, 51_200)),
        y: Axis::log("commits a second", (1, 10_000)),
        curves: vec![
            curve("one after the other", |took_ns| took_ns),
            curve("with a rest after each", |took_ns| {
                took_ns + rest_ns(took_ns)
            }),
        ],
        marks: vec![],
    }
}
