//! Figures that follow from counters, by the formulas of the published reports
//! (spec/workloads.md 2.2).

use super::events::Watched;
use super::pauses::WatchedPauses;
use super::series::place_of;
use crate::machine::Machine;
use crate::outcome::{DeviceRecord, Series, Stall};
use crate::world::Snapshot;
use forebay_base::Span;
use std::collections::BTreeMap;

/// Everything that figures are derived from.
pub(crate) struct Gathered<'a> {
    pub(crate) machine: &'a Machine,
    /// The work of real processors is not measured.
    pub(crate) is_simulated: bool,
    pub(crate) before: &'a Snapshot,
    pub(crate) after: &'a Snapshot,
    pub(crate) counters: &'a BTreeMap<String, u64>,
    pub(crate) watched: &'a Watched,
    /// The pauses of processes by their names.
    pub(crate) processes: &'a BTreeMap<String, WatchedPauses>,
    pub(crate) devices: &'a [DeviceRecord],
    /// Names of the stores by their numbers.
    pub(crate) stores: Vec<String>,
    pub(crate) series: Series,
}

/// The names of the figures of a run, with any workload, without the part after `@` or `;`.
pub(crate) const FIGURES: [&str; 58] = [
    "direct_pages_scanned",
    "direct_pages_reclaimed",
    "direct_efficiency",
    "direct_efficiency_pct",
    "direct_velocity",
    "kswapd_pages_scanned",
    "kswapd_pages_reclaimed",
    "kswapd_efficiency",
    "kswapd_efficiency_pct",
    "kswapd_velocity",
    "pages_reclaimed_total",
    "percentage_direct_scans",
    "page_reclaim_immediate",
    "slabs_scanned",
    "direct_inode_steals",
    "kswapd_inode_steals",
    "page_writes_by_reclaim",
    "page_writes_anon",
    "page_writes_file",
    "swap_ins",
    "swap_outs",
    "direct_file_writes",
    "page_ins",
    "page_outs",
    "elapsed",
    "duration_elapsed",
    "duration_user",
    "duration_system",
    "user_cpu",
    "system_cpu",
    "user_plus_system_cpu",
    "cpu_system_share",
    "cpu_percent",
    "context_switches",
    "lock_spinning",
    "task_clock_msecs",
    "iostat_await_mean",
    "seek_count",
    "write_ios",
    "write_throughput",
    "write_io_bytes",
    "throttle_start",
    "longest_pause_s",
    "pause_median_ms",
    "pause_max_ms",
    "pause_mean_ms",
    "pauses_below_4ms_percent",
    "store_pos_ratio",
    "store_task_ratelimit",
    "dirty_of_inactive",
    "dirty_and_writeback_of_inactive",
    "dirty_of_file",
    "stall_events_total",
    "stall_share_at_timeout",
    "stall_share_zero",
    "dirty_balance_point",
    "dirty_highest_point",
    "final_sync",
];

/// What follows the name of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suffix {
    /// Nothing.
    Nothing,
    /// `@DEVICE`, or nothing for the device of the main file system.
    Device,
    /// `@STORE`: a file system, or swap.
    Store,
    /// `@ZONE`, `@1.ZONE` on nodes other than the first.
    Zone,
    /// `@TASK`: a name under which the simulation ran something.
    Task,
    /// `;REASON`, or `;CONTEXT;REASON`.
    Stall,
}

/// Who waits in reclaim, and why.
pub(crate) const STALL_CONTEXTS: [&str; 2] = ["direct", "kswapd"];
pub(crate) const STALL_REASONS: [&str; 6] = [
    "WRITEBACK",
    "ISOLATED",
    "NOPROGRESS",
    "CONGESTED",
    "congestion_wait",
    "wait_iff_congested",
];

/// The name of a figure without its suffix.
pub(crate) fn family_of(name: &str) -> &str {
    name.split(['@', ';']).next().unwrap_or(name)
}

/// The suffixes of the figures called `family`.
pub(crate) fn suffix_of(family: &str) -> Suffix {
    match family {
        "iostat_await_mean" | "seek_count" | "write_ios" | "write_throughput"
        | "write_io_bytes" => Suffix::Device,
        "longest_pause_s" | "store_pos_ratio" | "store_task_ratelimit" => Suffix::Store,
        "dirty_of_inactive" | "dirty_and_writeback_of_inactive" => Suffix::Zone,
        "task_clock_msecs" => Suffix::Task,
        "stall_events_total" | "stall_share_at_timeout" | "stall_share_zero" => Suffix::Stall,
        _ => Suffix::Nothing,
    }
}

type Figures = BTreeMap<String, f64>;

/// All figures by metric name.
pub(crate) fn derive(gathered: &Gathered<'_>) -> Figures {
    let mut figures = Figures::new();
    let elapsed_s = (gathered.after.at - gathered.before.at).as_secs_f64();
    reclaim(gathered, elapsed_s, &mut figures);
    writes(gathered, &mut figures);
    processors(gathered, elapsed_s, &mut figures);
    devices(gathered, elapsed_s, &mut figures);
    pauses(gathered, &mut figures);
    stalls(&gathered.watched.stalls, &mut figures);
    levels(gathered, &mut figures);
    at_reclaim_writes(gathered, &mut figures);
    figures
}

fn count(gathered: &Gathered<'_>, name: &str) -> f64 {
    gathered.counters.get(name).copied().unwrap_or(0) as f64
}

fn put(figures: &mut Figures, name: &str, value: f64) {
    figures.insert(name.into(), value);
}

/// A part of a whole in percent, or `otherwise` if the whole is 0.
fn percent(part: f64, all: f64, otherwise: f64) -> f64 {
    if all > 0.0 {
        100.0 * part / all
    } else {
        otherwise
    }
}

fn reclaim(gathered: &Gathered<'_>, elapsed_s: f64, figures: &mut Figures) {
    let of = |name: &str| count(gathered, name);
    let (mut scanned_by_all, mut reclaimed_by_all) = (0.0, 0.0);
    for who in ["direct", "kswapd"] {
        let scanned = of(&format!("pgscan_{who}"));
        let reclaimed = of(&format!("pgsteal_{who}"));
        let efficiency = percent(reclaimed, scanned, 100.0);
        put(figures, &format!("{who}_pages_scanned"), scanned);
        put(figures, &format!("{who}_pages_reclaimed"), reclaimed);
        // The reports of 2011 and 2017 cut the decimals off, the one of 2021 shows them.
        put(figures, &format!("{who}_efficiency"), efficiency.trunc());
        put(figures, &format!("{who}_efficiency_pct"), efficiency);
        put(
            figures,
            &format!("{who}_velocity"),
            scanned / elapsed_s.max(1e-9),
        );
        scanned_by_all += scanned;
        reclaimed_by_all += reclaimed;
    }
    put(figures, "pages_reclaimed_total", reclaimed_by_all);
    let direct_percent = percent(of("pgscan_direct"), scanned_by_all, 0.0);
    put(figures, "percentage_direct_scans", direct_percent);
    for (figure, counter) in [
        ("page_reclaim_immediate", "nr_vmscan_immediate_reclaim"),
        ("slabs_scanned", "slabs_scanned"),
        ("direct_inode_steals", "pginodesteal"),
        ("kswapd_inode_steals", "kswapd_inodesteal"),
    ] {
        put(figures, figure, of(counter));
    }
}

fn writes(gathered: &Gathered<'_>, figures: &mut Figures) {
    let of = |name: &str| count(gathered, name);
    let (by_reclaim, anon) = (of("nr_vmscan_write"), of("pswpout"));
    put(figures, "page_writes_by_reclaim", by_reclaim);
    put(figures, "page_writes_anon", anon);
    put(figures, "page_writes_file", by_reclaim - anon);
    put(figures, "swap_ins", of("pswpin"));
    put(figures, "swap_outs", anon);
    put(
        figures,
        "direct_file_writes",
        of("nr_vmscan_write_file_direct"),
    );
    put(figures, "page_ins", of("pgpgin"));
    put(figures, "page_outs", of("pgpgout"));
}

fn processors(gathered: &Gathered<'_>, elapsed_s: f64, figures: &mut Figures) {
    put(figures, "elapsed", elapsed_s);
    put(figures, "duration_elapsed", elapsed_s);
    if !gathered.is_simulated {
        return;
    }
    let (before, after) = (&gathered.before.times, &gathered.after.times);
    let user_s = after.user.saturating_sub(before.user).as_secs_f64();
    let system_s = after.system.saturating_sub(before.system).as_secs_f64();
    let all_s = elapsed_s.max(1e-9) * gathered.machine.processors as f64;
    put(figures, "duration_user", user_s);
    put(figures, "duration_system", system_s);
    put(figures, "user_cpu", user_s);
    put(figures, "system_cpu", system_s);
    put(figures, "user_plus_system_cpu", user_s + system_s);
    put(figures, "cpu_system_share", 100.0 * system_s / all_s);
    put(
        figures,
        "cpu_percent",
        100.0 * (user_s + system_s) / elapsed_s.max(1e-9),
    );
    put(
        figures,
        "context_switches",
        (after.switches - before.switches) as f64,
    );
    let spinning = after.spinning.saturating_sub(before.spinning);
    put(figures, "lock_spinning", spinning.as_secs_f64());
    for (name, &busy) in &after.by_task_name {
        let earlier = before.by_task_name.get(name).copied().unwrap_or(Span::ZERO);
        let busy_ms = busy.saturating_sub(earlier).as_secs_f64() * 1e3;
        put(figures, &format!("task_clock_msecs@{name}"), busy_ms);
    }
}

fn devices(gathered: &Gathered<'_>, elapsed_s: f64, figures: &mut Figures) {
    let Some(main) = gathered.machine.storage.file_systems.first() else {
        return;
    };
    for (at, device) in gathered.devices.iter().enumerate() {
        let of_main = at == main.device;
        let mut add = |name: &str, value: f64| {
            put(figures, &format!("{name}@{}", device.name), value);
            if of_main {
                put(figures, name, value);
            }
        };
        if device.read_ios + device.write_ios > 0 {
            add("iostat_await_mean", device.await_ms);
        }
        add("seek_count", device.seeks as f64);
        add("write_ios", device.write_ios as f64);
        let write_bytes = device.write_bytes as f64;
        add("write_throughput", write_bytes / elapsed_s.max(1e-9));
        add(
            "write_io_bytes",
            write_bytes / (device.write_ios as f64).max(1.0),
        );
    }
}

fn pauses(gathered: &Gathered<'_>, figures: &mut Figures) {
    let watched = gathered.watched;
    if watched.pauses.count == 0 {
        return;
    }
    let ratio_percent = gathered.machine.dirty.dirty_ratio_percent as f64;
    if let Some(percent) = watched.throttle_start_percent {
        put(figures, "throttle_start", percent * ratio_percent / 100.0);
    }
    for (store, longest) in &watched.longest_pause {
        let name = gathered.stores.get(*store).map_or("", String::as_str);
        put(
            figures,
            &format!("longest_pause_s@{name}"),
            longest.as_secs_f64(),
        );
    }
    for (store, of_store) in &watched.of_store {
        let name = gathered.stores.get(*store).map_or("", String::as_str);
        rates(figures, "store_", name, of_store);
    }
    for (name, of_process) in gathered.processes {
        rates(figures, "", name, of_process);
    }
    put(figures, "pause_median_ms", watched.pause_median_ms);
    put(figures, "pause_max_ms", watched.pauses.max);
    put(figures, "pause_mean_ms", watched.pauses.mean);
    put(
        figures,
        "pauses_below_4ms_percent",
        watched.short_pauses_percent,
    );
}

/// Where the writers of `name` stood, and at what rate they were held.
fn rates(figures: &mut Figures, prefix: &str, name: &str, of: &WatchedPauses) {
    let means = [
        ("pos_ratio", of.pos_ratio),
        ("task_ratelimit", of.task_ratelimit),
    ];
    for (figure, mean) in means {
        if let Some(mean) = mean {
            put(figures, &format!("{prefix}{figure}@{name}"), mean);
        }
    }
}

/// How dirty memory was whenever reclaim wrote a file page.
fn at_reclaim_writes(gathered: &Gathered<'_>, figures: &mut Figures) {
    let watched = gathered.watched;
    let by_zone = [
        ("dirty_of_inactive", &watched.dirty_of_inactive),
        (
            "dirty_and_writeback_of_inactive",
            &watched.dirty_and_writeback_of_inactive,
        ),
    ];
    for (figure, shares) in by_zone {
        for (zone, share) in shares {
            if let Some(zone) = gathered.after.statistics.zones.get(*zone) {
                put(figures, &format!("{figure}@{}", place_of(zone)), *share);
            }
        }
    }
    if let Some(share) = watched.dirty_of_file {
        put(figures, "dirty_of_file", share);
    }
}

/// The timeout of every reclaim wait, and how it shows in ticks of 4 ms.
const TIMEOUT_US: u64 = 100_000;

fn stalls(stalls: &[Stall], figures: &mut Figures) {
    let mut of_kind: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    for stall in stalls {
        let keys = [
            format!("{};{}", stall.context, stall.reason),
            stall.reason.clone(),
        ];
        for key in keys {
            let (all, at_timeout, zero) = of_kind.entry(key).or_default();
            *all += stall.count;
            *at_timeout += if stall.delayed_us >= TIMEOUT_US {
                stall.count
            } else {
                0
            };
            *zero += if stall.delayed_us == 0 {
                stall.count
            } else {
                0
            };
        }
    }
    for (kind, (all, at_timeout, zero)) in of_kind {
        let share = |part: u64| percent(part as f64, all as f64, 0.0);
        put(figures, &format!("stall_events_total;{kind}"), all as f64);
        put(
            figures,
            &format!("stall_share_at_timeout;{kind}"),
            share(at_timeout),
        );
        put(figures, &format!("stall_share_zero;{kind}"), share(zero));
    }
}

/// The mean level of dirty pages and pages under writeback, in percent of dirtyable memory.
fn levels(gathered: &Gathered<'_>, figures: &mut Figures) {
    let knobs = &gathered.machine.dirty;
    let series = &gathered.series;
    let (Some(dirty), Some(writeback), Some(thresh)) = (
        series.column("dirty"),
        series.column("writeback"),
        series.column("thresh"),
    ) else {
        return;
    };
    if knobs.dirty_bytes > 0 {
        return;
    }
    let from_s = (gathered.before.at - forebay_base::Instant::ZERO).as_secs_f64();
    let rows = dirty
        .values
        .iter()
        .zip(&writeback.values)
        .zip(&thresh.values)
        .zip(&series.at_s);
    let shares: Vec<f64> = rows
        .filter(|(_, at_s)| **at_s >= from_s)
        .map(|(((dirty, writeback), thresh), _)| {
            let dirtyable = thresh * 100.0 / knobs.dirty_ratio_percent.max(1) as f64;
            100.0 * (dirty + writeback) / dirtyable.max(1.0)
        })
        .collect();
    if let Some(highest) = shares.iter().copied().reduce(f64::max) {
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        put(figures, "dirty_balance_point", mean);
        put(figures, "dirty_highest_point", highest);
    }
}
