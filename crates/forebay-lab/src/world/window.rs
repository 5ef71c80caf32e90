//! The time over which a run is measured: what was before it and what is after it.

use super::World;
use crate::device::Statistics as DeviceStatistics;
use crate::outcome::{DeviceRecord, Outcome, SimulationCost, Waited};
use crate::probe::{Gathered, INTERVAL, Sampler, WatchedPauses, derive};
use forebay_base::sync::lock;
use forebay_base::{Instant, Span};
use forebay_engine::{Counter, Statistics};
use forebay_rt::virt::ProcessorTimes;
use std::collections::BTreeMap;

/// Everything that is counted, at one moment.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub(crate) at: Instant,
    pub(crate) statistics: Statistics,
    pub(crate) times: ProcessorTimes,
    pub(crate) devices: Vec<DeviceStatistics>,
}

/// The bounds of what is measured.
#[derive(Default)]
pub(super) struct Window {
    opened: Option<Snapshot>,
    closed: Option<Snapshot>,
    /// Who had waited when it was closed, since the machine was switched on.
    waited: Vec<Waited>,
    sampler: Option<Sampler>,
}

impl World {
    fn snapshot(&self) -> Snapshot {
        Snapshot {
            at: self.now(),
            statistics: self.cache().statistics(),
            times: self.rt().processor_times(),
            devices: self.device_statistics(),
        }
    }

    /// Measuring begins now: everything counted and sampled before is forgotten. A run begins this
    /// way by itself; a workload that prepares something first calls it again.
    pub fn open_window(&self) {
        let snapshot = self.snapshot();
        let at = snapshot.at;
        self.inner.watcher.restart(at);
        let mut window = lock(&self.inner.window);
        let devices = &snapshot.devices;
        let sampler = window
            .sampler
            .get_or_insert_with(|| Sampler::new(at, devices.clone()));
        sampler.open(at, devices);
        window.opened = Some(snapshot);
        window.closed = None;
    }

    /// Latencies and pauses count from now on; counters go on.
    pub(crate) fn begin_latencies(&self) {
        self.inner.watcher.restart_pauses(self.now());
        self.measures().forget_latencies();
    }

    /// The series of samples begins now: its times are counted from here.
    pub(crate) fn begin_series(&self) {
        let sampler = Sampler::new(self.now(), self.device_statistics());
        lock(&self.inner.window).sampler = Some(sampler);
    }

    /// Measuring ends now; the first call counts. A run ends this way by itself.
    pub fn close_window(&self) {
        let (snapshot, waited) = (self.snapshot(), self.waited());
        let mut window = lock(&self.inner.window);
        if window.closed.is_none() {
            window.waited = waited;
            if let Some(sampler) = &mut window.sampler {
                sampler.close(&snapshot.devices);
            }
            window.closed = Some(snapshot);
        }
    }

    /// Who has waited since the machine was switched on, the longest wait first.
    fn waited(&self) -> Vec<Waited> {
        let stores = self.store_names();
        let why = self.cache().why(None);
        why.lines
            .iter()
            .map(|line| Waited {
                caller: line.caller.to_string(),
                store: line.bdi.and_then(|bdi| stores.get(bdi).cloned()),
                waited_ms: line.waited.as_secs_f64() * 1e3,
                cause: line.verdict.first.name().into(),
                is_clear: line.verdict.is_clear(),
                culprit: line.culprit.as_ref().map(ToString::to_string),
            })
            .collect()
    }

    /// How long has been measured.
    pub fn measured(&self) -> Span {
        let now = self.now();
        lock(&self.inner.window)
            .opened
            .as_ref()
            .map_or(Span::ZERO, |opened| now - opened.at)
    }

    /// Samples all levels once a second until the run is over.
    pub(crate) async fn watch(self) {
        while self.rt().timeout(INTERVAL, self.over()).await.is_err() {
            self.sample();
        }
    }

    /// Samples all levels once, while anything is measured: afterwards, when what is left dirty is
    /// written, levels fall without a workload.
    pub(crate) fn sample(&self) {
        let taken = {
            let mut window = lock(&self.inner.window);
            if window.closed.is_some() {
                return;
            }
            window.sampler.take()
        };
        if let Some(mut sampler) = taken {
            sampler.look(self);
            lock(&self.inner.window).sampler = Some(sampler);
        }
    }

    /// What was measured.
    pub(crate) fn outcome(&self) -> Outcome {
        let window = lock(&self.inner.window);
        let (Some(before), Some(after), Some(sampler)) =
            (&window.opened, &window.closed, &window.sampler)
        else {
            return Outcome::default();
        };
        let counted = |&counter: &Counter| {
            let count = after.statistics.get(counter) - before.statistics.get(counter);
            (counter.name().to_owned(), count)
        };
        let counters: BTreeMap<String, u64> = Counter::ALL.iter().map(counted).collect();
        let watched = self.inner.watcher.watched();
        let of_process = watched.of_process.iter();
        let processes: BTreeMap<String, WatchedPauses> = of_process
            .map(|(&key, pauses)| (self.cache().caller(key).to_string(), pauses.clone()))
            .collect();
        let devices = self.device_records(before, after, sampler);
        let measures = self.inner.measures.take();
        let gathered = Gathered {
            machine: self.machine(),
            is_simulated: self.rt().is_virtual(),
            before,
            after,
            counters: &counters,
            watched: &watched,
            processes: &processes,
            devices: &devices,
            stores: self.store_names(),
            series: sampler.series(),
        };
        let mut figures = derive(&gathered);
        let (series, stores) = (gathered.series, gathered.stores);
        figures.extend(measures.figures);
        let mut distributions = measures.distributions;
        distributions.insert("pause".into(), watched.pauses.clone());
        for (name, of_process) in &processes {
            distributions.insert(format!("pause@{name}"), of_process.pauses.clone());
        }
        for (store, of_store) in &watched.of_store {
            let name = stores.get(*store).map_or("", String::as_str);
            distributions.insert(format!("store_pause@{name}"), of_store.pauses.clone());
        }
        Outcome {
            elapsed_s: (after.at - before.at).as_secs_f64(),
            user_s: after
                .times
                .user
                .saturating_sub(before.times.user)
                .as_secs_f64(),
            system_s: after
                .times
                .system
                .saturating_sub(before.times.system)
                .as_secs_f64(),
            cost: SimulationCost {
                page_events: page_events(&after.statistics),
                real_s: 0.0,
            },
            figures,
            samples: measures.samples,
            distributions,
            stalls: watched.stalls,
            waited: window.waited.clone(),
            series,
            counters,
            devices,
            ..Outcome::default()
        }
    }

    fn device_records(
        &self,
        before: &Snapshot,
        after: &Snapshot,
        sampler: &Sampler,
    ) -> Vec<DeviceRecord> {
        let passed = after
            .devices
            .iter()
            .zip(&before.devices)
            .map(|(now, then)| now.since(then));
        let named = self.device_names().into_iter().zip(passed).enumerate();
        named
            .map(|(at, (name, passed))| DeviceRecord {
                name,
                read_ios: passed.reads.requests,
                write_ios: passed.writes.requests,
                read_bytes: passed.reads.bytes,
                write_bytes: passed.writes.bytes,
                merged: passed.both().merged,
                seeks: passed.seeks,
                await_ms: sampler.await_ms(at).unwrap_or(0.0),
                queue_size: passed.mean_queued(),
                busy_percent: passed.utilised_percent(),
            })
            .collect()
    }
}

/// Pages allocated, dirtied, scanned, written, freed since the machine was switched on.
fn page_events(statistics: &Statistics) -> u64 {
    const EVENTS: [Counter; 8] = [
        Counter::Pgalloc,
        Counter::Pgfree,
        Counter::NrDirtied,
        Counter::NrWritten,
        Counter::Pgpgin,
        Counter::PgscanKswapd,
        Counter::PgscanDirect,
        Counter::Pgrefill,
    ];
    EVENTS.iter().map(|&counter| statistics.get(counter)).sum()
}
