use super::*;
use crate::probe::FIGURES;

/// Every figure that a table may show: its name, its unit, and which way it is good.
const KNOWN: &str = "\
direct_pages_scanned,pages,lower
direct_pages_reclaimed,pages,
direct_efficiency,%,higher
direct_efficiency_pct,%,higher
direct_velocity,pages/s,
kswapd_pages_scanned,pages,
kswapd_pages_reclaimed,pages,
kswapd_efficiency,%,higher
kswapd_efficiency_pct,%,higher
kswapd_velocity,pages/s,
pages_reclaimed_total,pages,
percentage_direct_scans,%,lower
page_reclaim_immediate,,lower
slabs_scanned,,
direct_inode_steals,,
kswapd_inode_steals,,
page_writes_by_reclaim,pages,lower
page_writes_anon,pages,lower
page_writes_file,pages,lower
swap_ins,,
swap_outs,,
direct_file_writes,pages,lower
page_ins,pages,
page_outs,pages,
elapsed,s,lower
duration_elapsed,s,lower
duration_user,s,lower
duration_system,s,lower
user_cpu,s,lower
system_cpu,s,lower
user_plus_system_cpu,s,lower
cpu_system_share,%,lower
cpu_percent,%,lower
context_switches,,
lock_spinning,s,lower
task_clock_msecs,ms,
iostat_await_mean,ms,lower
seek_count,,lower
write_ios,,
write_throughput,bytes/s,higher
write_io_bytes,bytes,
throttle_start,%,
longest_pause_s,s,lower
pause_median_ms,ms,lower
pause_max_ms,ms,lower
pause_mean_ms,ms,lower
pauses_below_4ms_percent,%,
store_pos_ratio,,
store_task_ratelimit,bytes/s,
dirty_of_inactive,,
dirty_and_writeback_of_inactive,,
dirty_of_file,,
stall_events_total,,lower
stall_share_at_timeout,%,lower
stall_share_zero,%,
dirty_balance_point,%,
dirty_highest_point,%,
final_sync,s,lower
files_per_elapsed_second,files/s,higher
elapsed_alone,s,lower
elapsed@simple-wb,s,lower
launch_p50_s@browser,s,lower
mmap_latency_amean@7,ms,lower
mmap_latency_p99@7,ms,lower
write_latency_p99,us,lower
allocation_latency_p50,us,lower
per_dd_bytes_per_s_mean,bytes/s,higher
per_dd_bytes_per_s_mean@disk,bytes/s,higher
per_dd_bytes_per_s_coeffvar,,lower
per_dd_bytes_per_s_coeffvar@disk,,lower
rsync_throughput,bytes/s,higher
time_to_kill_writer,s,lower
writer_longest_pause_s,s,lower
usb_writer_longest_pause_s,s,lower
stood_still_s@disk,s,lower
bytes_per_s@log,bytes/s,higher
bytes_per_s_coeffvar@log,,lower
time_to_kill@log,s,lower
pos_ratio@log,,
task_ratelimit@log,bytes/s,
turns_lost@log,,lower";

fn known() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    KNOWN.lines().map(|line| {
        let mut fields = line.split(',');
        let mut field = || fields.next().expect("a line has three fields");
        (field(), field(), field())
    })
}

#[test]
fn every_figure_has_its_unit_and_its_direction() {
    let wrong: Vec<String> = known()
        .filter(|(name, unit, better)| {
            unit_of(name) != *unit || Better::of_metric(name).word() != *better
        })
        .map(|(name, ..)| {
            let better = Better::of_metric(name).word();
            format!("{name}: {} {better}", unit_of(name))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_figure_of_a_run_is_left_out_here() {
    let unknown: Vec<&str> = FIGURES
        .into_iter()
        .filter(|figure| known().all(|(name, ..)| name != *figure))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn what_stands_behind_a_name_is_no_part_of_it() {
    assert_eq!(unit_of("write_ios@elapsed"), "");
    assert_eq!(Better::of_metric("write_ios@stall"), Better::Neither);
}
