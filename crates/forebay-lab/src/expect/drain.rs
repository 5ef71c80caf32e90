//! How long it took to write what was dirty at each moment.
//!
//! Nothing is estimated: of each sample the time is looked up at which as much had been written as
//! was dirty then. The last samples, of which that is not known, do not count.

/// Whether in `percent` of `rows` what was dirty was written within `at_most_s`. A row is a time in
/// seconds, the dirty pages then, and the pages written up to then.
pub(super) fn verdict(rows: &[(f64, f64, f64)], at_most_s: f64, percent: f64) -> (bool, String) {
    let Some(&(end_s, ..)) = rows.last() else {
        return (false, "nothing was sampled in that time".into());
    };
    let judged = rows.iter().filter(|row| row.0 + at_most_s <= end_s);
    let mut took: Vec<f64> = judged.map(|row| took_s(rows, row)).collect();
    if took.is_empty() {
        return (false, "the time is too short to see it".into());
    }
    took.sort_by(f64::total_cmp);
    let kept = took.partition_point(|took| *took <= at_most_s);
    let (kept, all) = (kept as f64, took.len() as f64);
    let at = ((all * percent / 100.0).ceil() as usize).clamp(1, took.len());
    let (found, longest) = (took[at - 1], took[took.len() - 1]);
    (
        kept * 100.0 >= percent * all,
        format!("{found:.2} s, at most {longest:.2} s"),
    )
}

/// How long it took from the time of `row` until its dirty pages were written; without end if they
/// were not.
fn took_s(rows: &[(f64, f64, f64)], &(at_s, dirty, written): &(f64, f64, f64)) -> f64 {
    let goal = written + dirty;
    let after = rows.partition_point(|row| row.2 < goal);
    let Some(&(after_s, _, after_written)) = rows.get(after) else {
        return f64::INFINITY;
    };
    let Some(&(before_s, _, before_written)) = after.checked_sub(1).and_then(|it| rows.get(it))
    else {
        return 0.0;
    };
    let part = (goal - before_written) / (after_written - before_written).max(1e-9);
    (before_s + (after_s - before_s) * part - at_s).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that writes 100 pages a second, with 150 dirty pages up to 5 s and 250 after that.
    fn rows() -> Vec<(f64, f64, f64)> {
        (0..=10)
            .map(|at| {
                let at = f64::from(at);
                (at, if at <= 5.0 { 150.0 } else { 250.0 }, at * 100.0)
            })
            .collect()
    }

    #[test]
    fn it_is_the_time_in_which_as_much_was_written() {
        assert!((took_s(&rows(), &rows()[0]) - 1.5).abs() < 1e-9);
        assert!((took_s(&rows(), &rows()[6]) - 2.5).abs() < 1e-9);
        assert!(took_s(&rows(), &rows()[9]).is_infinite());
        assert!(verdict(&rows()[..6], 1.6, 100.0).0);
        assert!(!verdict(&rows()[..6], 1.4, 100.0).0);
    }

    #[test]
    fn a_part_of_the_samples_may_take_longer() {
        // With 2 s, nine samples are judged, of which three take longer.
        assert!(verdict(&rows(), 2.0, 66.0).0);
        let (kept, found) = verdict(&rows(), 2.0, 67.0);
        assert!(!kept, "{found}");
        assert!(!verdict(&rows(), 20.0, 1.0).0, "no sample can be judged");
        assert!(!verdict(&[], 1.0, 1.0).0);
    }

    #[test]
    fn a_store_that_writes_nothing_takes_without_end() {
        let silent: Vec<_> = (0..5).map(|at| (f64::from(at), 10.0, 50.0)).collect();
        assert!(!verdict(&silent, 2.0, 1.0).0);
        let clean: Vec<_> = (0..5).map(|at| (f64::from(at), 0.0, 50.0)).collect();
        assert!(verdict(&clean, 2.0, 100.0).0);
    }
}
