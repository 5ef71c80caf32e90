//! Stalls as a trace that Perfetto and chrome://tracing show: a process for each store, a thread
//! for each caller, the levels that its pauses saw, and marks for knobs that were turned and
//! requests that failed.

use super::incidents::IncidentWords;
use super::waits::{CallWords, OTHER_CAUSES, PauseWords, Stalls};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A caller whose calls overlap has more than one thread, because the slices of one thread nest.
#[derive(Default)]
struct Lanes {
    /// When each thread of the caller is free.
    free_from_us: Vec<u64>,
}

impl Lanes {
    /// The first thread that is free for a call.
    fn place(&mut self, call: &CallWords) -> usize {
        let free = self
            .free_from_us
            .iter()
            .position(|&from| from <= call.began_us);
        let at = free.unwrap_or(self.free_from_us.len());
        if free.is_none() {
            self.free_from_us.push(0);
        }
        self.free_from_us[at] = call.began_us + call.took_us;
        at
    }
}

/// The trace of `stalls`.
pub fn trace(stalls: &Stalls) -> Value {
    let mut calls: Vec<&CallWords> = stalls.stalls.iter().collect();
    calls.sort_by_key(|call| (call.began_us, call.took_us));
    let mut lanes: BTreeMap<(usize, &str), Lanes> = BTreeMap::new();
    let mut threads: BTreeMap<(usize, &str, usize), usize> = BTreeMap::new();
    let mut events = Vec::new();
    for call in calls {
        let (process, name) = (process_of(call), &*call.caller.text);
        let lane = lanes.entry((process, name)).or_default().place(call);
        let next = threads.len() + 1;
        let thread = *threads.entry((process, name, lane)).or_insert(next);
        events.push(wait(call, process, thread));
        let pause = call.pause.iter();
        events.extend(pause.flat_map(|pause| levels(call, pause, process)));
    }
    let names = threads
        .iter()
        .flat_map(|(&(process, name, lane), &thread)| {
            let name = match lane {
                0 => name.to_owned(),
                lane => format!("{name} +{lane}"),
            };
            let of_process = match process {
                0 => "no store".to_owned(),
                process => format!("store {}", process - 1),
            };
            [
                json!({ "ph": "M", "name": "process_name", "pid": process, "tid": 0,
                    "args": { "name": of_process } }),
                json!({ "ph": "M", "name": "thread_name", "pid": process, "tid": thread,
                    "args": { "name": name } }),
            ]
        });
    let marks = stalls.incidents.iter().map(mark);
    let mut events: Vec<Value> = names.chain(events.into_iter().chain(marks)).collect();
    // Names have no time, and stay before everything.
    events.sort_by_key(|event| event["ts"].as_u64());
    json!({ "displayTimeUnit": "ms", "traceEvents": events })
}

/// The process of a call's store; 0 if it waited for none.
fn process_of(call: &CallWords) -> usize {
    call.store.map_or(0, process_of_store)
}

fn process_of_store(number: usize) -> usize {
    number + 1
}

fn wait(call: &CallWords, process: usize, thread: usize) -> Value {
    let named = call
        .causes
        .iter()
        .filter(|(cause, _)| *cause != OTHER_CAUSES);
    let longest = named.max_by_key(|(_, us)| **us);
    let cause = longest.map_or("no cause", |(cause, _)| cause);
    json!({
        "ph": "X",
        "name": format!("{}: {cause}", call.kind),
        "cat": call.kind,
        "pid": process,
        "tid": thread,
        "ts": call.began_us,
        "dur": call.took_us,
        "args": {
            "caller": call.caller.text,
            "offset_bytes": call.offset_bytes,
            "bytes": call.bytes,
            "causes_us": call.causes,
            "pause": call.pause,
        },
    })
}

/// A line through the whole trace, or through that of its store.
fn mark(incident: &IncidentWords) -> Value {
    let process = incident.store.map_or(0, process_of_store);
    let scope = if incident.store.is_some() { "p" } else { "g" };
    json!({
        "ph": "i",
        "s": scope,
        "name": incident.text,
        "cat": incident.kind,
        "pid": process,
        "tid": 0,
        "ts": incident.at_us,
        "args": { "requests": incident.requests, "last_us": incident.last_us },
    })
}

/// What its last pause saw: how much was dirty, and the rate that the writer was allowed.
fn levels(call: &CallWords, pause: &PauseWords, process: usize) -> [Value; 2] {
    let counter = |name: &str, args: Value| {
        json!({ "ph": "C", "name": name, "pid": process, "tid": 0, "ts": call.began_us,
            "args": args })
    };
    let dirty = json!({
        "dirty": pause.dirty_bytes,
        "setpoint": pause.setpoint_bytes,
        "limit": pause.limit_bytes,
    });
    let rate = json!({ "bytes_per_s": pause.rate_bytes_per_s });
    [counter("dirty bytes", dirty), counter("rate limit", rate)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waits::CallerWords;

    fn call(began_us: u64, took_us: u64, store: Option<usize>) -> CallWords {
        CallWords {
            began_us,
            took_us,
            caller: CallerWords {
                text: "client 1".into(),
                ..CallerWords::default()
            },
            store,
            kind: "write".into(),
            offset_bytes: 0,
            bytes: 4096,
            causes: BTreeMap::from([("sync".into(), 1), ("own rate".into(), took_us)]),
            pause: None,
        }
    }

    fn pause() -> PauseWords {
        PauseWords {
            limit: "global".into(),
            dirty_bytes: 3,
            setpoint_bytes: 4,
            limit_bytes: 5,
            pos_ratio: 1_024,
            rate_bytes_per_s: 6,
            dirtied_bytes: 0,
            own_dirty_bytes: 0,
            heaviest_other: None,
        }
    }

    fn incident(at_us: u64, kind: &str, store: Option<usize>) -> IncidentWords {
        IncidentWords {
            at_us,
            kind: kind.into(),
            store,
            text: kind.into(),
            ..IncidentWords::default()
        }
    }

    #[test]
    fn calls_of_a_thread_do_not_overlap_and_time_goes_on() {
        let stalls = Stalls {
            threshold: "10ms".into(),
            left_out: 0,
            incidents: vec![incident(7, "set", None), incident(31, "failed", Some(0))],
            stalls: vec![
                call(30, 10, Some(0)),
                call(5, 20, Some(0)),
                call(0, 10, Some(0)),
                CallWords {
                    pause: Some(pause()),
                    ..call(2, 3, None)
                },
            ],
        };
        let trace = trace(&stalls);
        let events = trace["traceEvents"].as_array().unwrap();
        let waits = events.iter().filter(|event| event["ph"] == "X");
        let of = |event: &Value, name: &str| event[name].as_u64().unwrap();
        let mut ends: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        let mut last = 0;
        let mut count = 0;
        for event in waits {
            let (began, thread) = (of(event, "ts"), (of(event, "pid"), of(event, "tid")));
            assert!(
                began >= last && began >= *ends.entry(thread).or_default(),
                "{event}"
            );
            ends.insert(thread, began + of(event, "dur"));
            last = began;
            count += 1;
            assert_eq!(event["name"], "write: own rate");
        }
        assert_eq!((count, ends.len()), (4, 3));
        let named = events.iter().filter(|event| event["name"] == "thread_name");
        assert_eq!(named.count(), 3);
        let counters = events.iter().filter(|event| event["ph"] == "C");
        let shown: Vec<_> = counters.map(|it| (&it["name"], &it["args"])).collect();
        let dirty = json!({ "dirty": 3, "setpoint": 4, "limit": 5 });
        let rate = json!({ "bytes_per_s": 6 });
        let expected = [
            (&json!("dirty bytes"), &dirty),
            (&json!("rate limit"), &rate),
        ];
        assert_eq!(shown, expected);
        let marks = events.iter().filter(|event| event["ph"] == "i");
        let shown: Vec<_> = marks
            .map(|it| (of(it, "ts"), of(it, "pid"), it["s"].as_str().unwrap()))
            .collect();
        assert_eq!(shown, [(7, 0, "g"), (31, 1, "p")]);
        let times: Vec<_> = events.iter().map(|event| event["ts"].as_u64()).collect();
        assert!(times.is_sorted(), "{times:?}");
    }
}
