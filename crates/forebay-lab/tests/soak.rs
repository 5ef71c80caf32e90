//! Real time compared with virtual time: the same scenes on threads and in simulation.
//!
//! The machine that runs this may be busy, so only figures that depend little on this are asserted.
//! A store takes at most 16 MB/s, which needs a hundredth of a processor. It computes when it is
//! free instead of waiting for a timer, so a late thread does not slow it down. A machine that
//! stands still for a second does, so a scene whose figures are off is played up to three times. A
//! broken oracle fails at once. `forebay-lab soak` measures for longer and compares more closely.

use forebay_base::Span;
use forebay_base::sync::{Mutex, lock};
use forebay_lab::swarm::{Comparison, Figure, FigureKind, Scene};
use forebay_rt::Rt;
use forebay_rt::thread::spawn;
use std::collections::BTreeSet;
use std::sync::Arc;

/// All scenes at once take as long as one.
const WARM_UP: Span = Span::from_secs(3);
const WINDOW: Span = Span::from_secs(6);

/// A real figure must lie between these parts of the virtual one. On an idle machine all figures
/// are within a twentieth. A store that is never idle keeps its rate, and so do its writers
/// together.
const RATES: (f64, f64) = (0.8, 1.2);
/// A level depends on how soon the thread of a writer runs after its pause, and so does which of
/// 100 writers is the slowest.
const LEVELS: (f64, f64) = (0.6, 1.4);
/// A light writer loses the time that its thread waits for a processor after each of its rests.
const LIGHT: (f64, f64) = (0.4, 1.2);
/// Each sync waits for several threads one after the other. On a busy machine this takes most of
/// the time, so only the oracles are asked.
const LATE: &str = "commits";

const ATTEMPTS: u32 = 3;

/// Plays the scenes whose names `wanted` has, side by side.
fn compare(wanted: &BTreeSet<String>) -> Vec<Comparison> {
    let compared = Arc::new(Mutex::new(Vec::new()));
    let mut scenes = Scene::compared(WARM_UP, WINDOW);
    scenes.retain(|scene| wanted.contains(scene.name()));
    let threads: Vec<_> = scenes
        .into_iter()
        .map(|scene| {
            let compared = compared.clone();
            let body = move || {
                let comparison = scene.compare(&Rt::real()).expect("threads can be had");
                lock(&compared).push(comparison);
            };
            spawn("scene", body).expect("a thread can be had")
        })
        .collect();
    for thread in threads {
        thread.join();
    }
    std::mem::take(&mut *lock(&compared))
}

/// Whether a figure is as near to the virtual one as it is on a busy machine.
fn is_near(figure: &Figure) -> bool {
    let (least, most) = match figure.kind {
        FigureKind::Share if figure.name.contains("light") => LIGHT,
        FigureKind::Rate | FigureKind::Share => RATES,
        FigureKind::Level | FigureKind::Extreme => LEVELS,
        FigureKind::Syncs | FigureKind::Idle => return true,
    };
    let ratio = figure.in_real / figure.in_virtual;
    least <= ratio && ratio <= most
}

#[test]
fn real_time_does_what_virtual_time_does() {
    let scenes = Scene::compared(WARM_UP, WINDOW).into_iter();
    let mut left: BTreeSet<String> = scenes.map(|scene| scene.name().to_owned()).collect();
    assert_eq!(left.len(), 5);
    let mut off = Vec::new();
    for _ in 0..ATTEMPTS {
        for comparison in compare(&left) {
            let text = comparison.render();
            assert_eq!(comparison.found, [], "{text}");
            if comparison.scene == LATE || comparison.figures.iter().all(is_near) {
                left.remove(&comparison.scene);
            } else {
                off.push(text);
            }
        }
    }
    assert!(left.is_empty(), "{left:?} each time:\n{}", off.join("\n"));
}
