use super::*;

fn moment(at_ms: u64, written_mb: [u64; 2], dirty_pages: u64) -> Moment {
    Moment {
        at_ns: at_ms * 1_000_000,
        written_bytes: written_mb.iter().map(|mb| mb * 1_000_000).collect(),
        level: DirtyLevel {
            dirty_pages,
            ..DirtyLevel::default()
        },
    }
}

#[test]
fn what_stayed_dirty_did_not_reach_the_disk() {
    let found = throughput(
        &moment(0, [0, 0], 1_000),
        &moment(1_000, [20, 20], 1_000 + 2_441),
    );
    assert!((found[0].value - 30.0).abs() < 0.01, "{found:?}");
}

#[test]
fn the_farthest_writer_is_reported() {
    let found = throughput(&moment(0, [5, 5], 0), &moment(1_000, [5 + 11, 5 + 9], 0));
    assert!((found[1].value - 10.0).abs() < 1e-9, "{found:?}");
}

#[test]
fn levels_are_means_and_the_limit_is_watched() {
    let at = |dirty_pages| DirtyLevel {
        dirty_pages,
        setpoint_pages: Some(512),
        allowed_pages: Some(700),
    };
    let found = level_samples(&[at(256), at(768)]);
    assert!((found[0].value - 2.0).abs() < 1e-9);
    assert!((found[1].value - 2.0).abs() < 1e-9);
    let mut highest = Highest::default();
    assert!(highest.sample().is_none());
    highest.note(at(256));
    highest.note(at(768));
    assert!((highest.sample().unwrap().value - 68.0).abs() < 1e-9);
}
