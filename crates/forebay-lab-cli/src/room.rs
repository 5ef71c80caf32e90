//! Whether this computer has enough memory for the machines of a call.

use forebay_base::units::show_bytes;

/// Refuses a machine whose pages take more than is available: the system would kill the program in
/// the middle of its work, without a message.
pub(super) fn expect_memory(
    machine: &str,
    needed_bytes: u64,
    available_bytes: Option<u64>,
) -> Result<(), String> {
    let Some(available_bytes) = available_bytes.filter(|available| needed_bytes > *available)
    else {
        return Ok(());
    };
    let divisor = needed_bytes.div_ceil(available_bytes.max(1));
    Err(format!(
        "the pages of machine '{machine}' take {} of this computer's memory, which has {} \
         available; divide the machine with --set scale=N, N at least {divisor}",
        show_bytes(needed_bytes),
        show_bytes(available_bytes)
    ))
}

/// How many runs, each taking `needed_bytes`, fit at a time; at least one.
pub(super) fn runs_at_a_time(
    threads: usize,
    needed_bytes: u64,
    available_bytes: Option<u64>,
) -> usize {
    let fit = available_bytes.map_or(u64::MAX, |available| available / needed_bytes.max(1));
    usize::try_from(fit)
        .unwrap_or(usize::MAX)
        .clamp(1, threads.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_is_too_large_is_refused_with_the_scale_that_fits() {
        let reported = expect_memory("huge", 30 << 30, Some(16 << 30)).unwrap_err();
        for part in ["'huge'", "30 GiB", "16 GiB", "scale=N, N at least 2"] {
            assert!(reported.contains(part), "{reported}");
        }
        assert!(expect_memory("large", 16 << 30, Some(16 << 30)).is_ok());
        assert!(expect_memory("huge", 30 << 30, None).is_ok());
    }

    #[test]
    fn runs_that_do_not_fit_together_go_one_after_the_other() {
        assert_eq!(runs_at_a_time(4, 6 << 30, Some(16 << 30)), 2);
        assert_eq!(runs_at_a_time(4, 1 << 20, Some(16 << 30)), 4);
        assert_eq!(runs_at_a_time(4, 30 << 30, Some(16 << 30)), 1);
        assert_eq!(runs_at_a_time(4, 30 << 30, None), 4);
    }
}
