//! Events as lines of JSON, by the names and fields of the kernel's tracepoints.

use super::feed::News;
use forebay::elastic::MemoryStep;
use forebay::event::{Event, PauseRecord, WritebackReason};
use forebay::{Caller, CallerKey};
use forebay_base::Instant;
use forebay_control::waits::CallWords;
use serde_json::{Value, json};

/// A line for `news`, with its end.
pub(super) fn line(at: Instant, news: &News, name_of: &dyn Fn(CallerKey) -> Caller) -> String {
    let (name, mut fields) = match news {
        News::Set(text) => ("set", serde_json::from_str(text).unwrap_or_default()),
        News::Event(event) => match &**event {
            Event::CallWaited { call } => {
                let words = serde_json::to_value(CallWords::of(call, name_of));
                ("call_waited", words.expect("our own words are JSON"))
            }
            event => writeback(event).or_else(|| reclaim(event)).unwrap_or((
                // The engine may have an event that is newer than this list.
                "other",
                json!({ "text": format!("{event:?}") }),
            )),
        },
    };
    fields["event"] = name.into();
    fields["at_us"] = at.as_micros().into();
    format!("{fields}\n")
}

/// The line for a listener that was too slow.
pub(super) fn lost(count: u64) -> String {
    format!("{}\n", json!({ "event": "lost", "events": count }))
}

fn writeback(event: &Event) -> Option<(&'static str, Value)> {
    Some(match *event {
        Event::BalanceDirtyPages {
            bdi, ref record, ..
        } => ("balance_dirty_pages", balance(bdi, record)),
        Event::BalanceForeground {
            bdi,
            pages_written,
            nap_us,
            ..
        } => (
            "balance_foreground",
            json!({ "bdi": bdi, "pages_written": pages_written, "nap_us": nap_us }),
        ),
        Event::BdiDirtyRatelimit {
            bdi,
            write_bw,
            avg_write_bw,
            dirty_ratelimit,
            ..
        } => (
            "bdi_dirty_ratelimit",
            json!({
                "bdi": bdi, "write_bw": write_bw, "avg_write_bw": avg_write_bw,
                "dirty_ratelimit": dirty_ratelimit,
            }),
        ),
        Event::GlobalDirtyState {
            nr_dirty,
            nr_writeback,
            background_thresh,
            dirty_thresh,
            dirty_limit,
        } => (
            "global_dirty_state",
            json!({
                "nr_dirty": nr_dirty, "nr_writeback": nr_writeback,
                "background_thresh": background_thresh, "dirty_thresh": dirty_thresh,
                "dirty_limit": dirty_limit,
            }),
        ),
        Event::WritebackStart { bdi, reason } => (
            "writeback_start",
            json!({ "bdi": bdi, "reason": reason_name(reason) }),
        ),
        Event::WritebackWritten { bdi, reason, pages } => (
            "writeback_written",
            json!({ "bdi": bdi, "reason": reason_name(reason), "nr_pages": pages }),
        ),
        Event::WritebackFailed {
            bdi,
            ino,
            pages,
            errno,
        } => (
            "writeback_failed",
            json!({ "bdi": bdi, "ino": ino, "nr_pages": pages, "errno": errno }),
        ),
        Event::MemoryTarget { step } => ("memory_target", budget(&step)),
        Event::WaitOverdue { what, bound } => (
            "wait_overdue",
            json!({ "what": what, "bound_us": bound.as_micros() }),
        ),
        _ => return None,
    })
}

fn budget(step: &MemoryStep) -> Value {
    json!({
        "from_bytes": step.from_bytes, "to_bytes": step.to_bytes, "cause": step.cause.name(),
        "headroom_bytes": step.headroom_bytes, "scarce": step.scarce.name(),
    })
}

fn balance(bdi: usize, record: &PauseRecord) -> Value {
    json!({
        "bdi": bdi,
        "limit": record.position.hard_limit,
        "setpoint": record.setpoint,
        "dirty": record.position.dirty,
        "bdi_dirty": record.position.store_dirty,
        "bdi_thresh": record.position.store_thresh,
        "pos_ratio": record.pos_ratio,
        "dirty_ratelimit": record.dirty_ratelimit,
        "task_ratelimit": record.task_ratelimit,
        "dirtied": record.dirtied,
        "pause_us": record.pause_us,
    })
}

fn reclaim(event: &Event) -> Option<(&'static str, Value)> {
    Some(match *event {
        Event::MmVmscanKswapdSleep { nid } => ("mm_vmscan_kswapd_sleep", json!({ "nid": nid })),
        Event::MmVmscanKswapdWake {
            nid,
            highest_zoneidx,
        } => (
            "mm_vmscan_kswapd_wake",
            json!({ "nid": nid, "highest_zoneidx": highest_zoneidx }),
        ),
        Event::MmVmscanDirectReclaimBegin { nid } => {
            ("mm_vmscan_direct_reclaim_begin", json!({ "nid": nid }))
        }
        Event::MmVmscanDirectReclaimEnd { nr_reclaimed } => (
            "mm_vmscan_direct_reclaim_end",
            json!({ "nr_reclaimed": nr_reclaimed }),
        ),
        Event::MmVmscanLruShrinkInactive {
            nid,
            nr_scanned,
            nr_reclaimed,
            nr_dirty,
            nr_writeback,
            priority,
            is_file,
            ..
        } => (
            "mm_vmscan_lru_shrink_inactive",
            json!({
                "nid": nid, "nr_scanned": nr_scanned, "nr_reclaimed": nr_reclaimed,
                "nr_dirty": nr_dirty, "nr_writeback": nr_writeback, "priority": priority,
                "is_file": is_file,
            }),
        ),
        Event::MmVmscanLruShrinkActive {
            nid,
            nr_taken,
            nr_deactivated,
            priority,
        } => (
            "mm_vmscan_lru_shrink_active",
            json!({
                "nid": nid, "nr_taken": nr_taken, "nr_deactivated": nr_deactivated,
                "priority": priority,
            }),
        ),
        Event::MmVmscanThrottled {
            nid,
            usec_timeout,
            usec_delayed,
            reason,
            is_kswapd,
        } => (
            "mm_vmscan_throttled",
            json!({
                "nid": nid, "usec_timeout": usec_timeout, "usec_delayed": usec_delayed,
                "reason": format!("VMSCAN_THROTTLE_{reason:?}").to_uppercase(),
                "is_kswapd": is_kswapd,
            }),
        ),
        _ => return None,
    })
}

fn reason_name(reason: WritebackReason) -> &'static str {
    match reason {
        WritebackReason::Background => "background",
        WritebackReason::Periodic => "periodic",
        WritebackReason::Sync => "sync",
        WritebackReason::Vmscan => "vmscan",
        WritebackReason::Foreground => "foreground",
        _ => "other",
    }
}
