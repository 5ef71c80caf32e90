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
        "forebay-lab bench {} on {processors} processors ({}), Linux {}",
        env!("CARGO_PKG_VERSION"),
        model.unwrap_or_else(|| "unknown model".to_owned()),
        kernel.trim()
    )
}
