//! The machine on which figures were measured.

/// The machine on which the figures were measured.
pub(crate) fn machine() -> String {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let model = std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            line.split_once(':').map(|(_, name)| name.trim().to_owned())
        });
    format!(
        "forebay-lab bench {} ({}) on {processors} processors ({}), Linux {}",
        env!("CARGO_PKG_VERSION"),
        built_with(env!("FOREBAY_PROFILE")),
        model.unwrap_or_else(|| "unknown model".to_owned()),
        kernel.trim()
    )
}

/// The profile with which this program was built, and whether its figures may stand in the pages of
/// results: those are of the profile that people build from a clone.
fn built_with(profile: &str) -> String {
    match profile {
        "release" => "built with profile release".to_owned(),
        other => format!("built with profile {other}, NOT for README.md and docs/numbers"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_any_other_profile_are_kept_out_of_the_pages() {
        assert_eq!(built_with("release"), "built with profile release");
        for profile in ["debug", "dist"] {
            assert!(built_with(profile).contains(&format!("{profile}, NOT for README.md")));
        }
        // Tests are built by one of these.
        let known = ["debug", "release", "dist"];
        assert!(known.contains(&env!("FOREBAY_PROFILE")));
    }
}
