//! The names of stages, steps and their numbers in the table and in the progress line.

use crate::contender::{Load, Phase, Sample, Step};
use crate::layout::Layout;
use crate::plan::Stage;
use forebay_base::units::show_bytes;

impl Stage {
    /// The heading of the stage in the table, without the number of rounds that were really run.
    pub(crate) fn title(&self, layout: &Layout) -> String {
        let set = format!(
            "{} cached pages ({} MiB)",
            layout.set_pages(),
            layout.set_bytes() >> 20
        );
        let first = &self.steps[0];
        let seconds = |ms: u64| format!("{} s", ms as f64 / 1e3);
        match self.phase {
            Phase::Hit => format!("hit: 4 KiB random reads of {set}"),
            Phase::Dirty => format!(
                "dirty: 4 KiB random overwrites of {} cached pages ({} MiB)",
                layout.dirtied_pages(),
                layout.dirtied_pages() >> 8
            ),
            Phase::Miss => format!(
                "miss: 4 KiB uniformly random reads of {} MiB, no page twice in a pass",
                layout.data_bytes() >> 20
            ),
            Phase::Stream => format!(
                "stream: {} MiB in writes of 64 KiB, sync counted in",
                first.bytes >> 20
            ),
            Phase::Order => format!(
                "order: {} MiB read from front to back, cold, by 4 KiB, 64 KiB and 1 MiB a call, a \
                 part for each reader, for {} at most; the floor reads by 1 MiB at depth 8",
                first.bytes >> 20,
                seconds(first.span_ms)
            ),
            Phase::Mixed => {
                let measured = self.steps.last().unwrap_or(first);
                format!(
                    "mixed: 4 KiB at random places of {} MiB, reads, overwrites and 70 reads to 30 \
                     overwrites, for {}; sync is what was then left to write",
                    layout.data_bytes() >> 20,
                    seconds(measured.span_ms)
                )
            }
            Phase::Commit => format!(
                "commit: overwrites of 4 KiB and appends of 200 bytes, each made durable before \
                 the next of its thread, for {}; sleeps are voluntary context switches",
                seconds(first.span_ms)
            ),
            Phase::Growth => "growth: 4 KiB at random over half of a cache, on a store that \
                 takes no time; tasks: processor time"
                .to_owned(),
            Phase::Slow => format!(
                "slow disk: writers of 64 KiB on a disk of 30 MB/s; levels and shares over {}, \
                 after {}",
                seconds(first.span_ms),
                seconds(first.settle_ms)
            ),
            Phase::Mix => format!(
                "mix: a reader of 4 KiB, zipf 0.99 over {} MiB, alone and beside a writer to a \
                 disk of 30 MB/s",
                layout.data_bytes() >> 20
            ),
            Phase::Memory => format!("memory: after {} MiB were read in order", first.bytes >> 20),
            Phase::Nbd | Phase::Mount | Phase::Files => self.phase.of_front().to_owned(),
        }
    }
}

impl Phase {
    /// The heading of a front in the table; empty for a phase of the library.
    pub(crate) fn of_front(self) -> &'static str {
        match self {
            Phase::Nbd => "nbd: forebay serve nbd over a unix socket, fio's nbd engine",
            Phase::Mount => "mount: forebay mount, fio by ordinary calls on a file",
            Phase::Files => "files: forebay mount, files of 4 KiB in folders of 100",
            _ => "",
        }
    }
}

impl Step {
    /// `samples` of this step, each with the metric that distinguishes it.
    pub(crate) fn named(&self, mut samples: Vec<Sample>) -> Vec<Sample> {
        for sample in &mut samples {
            sample.metric = self.metric(&sample.metric);
        }
        samples
    }

    /// What the step does, for the progress line.
    pub(crate) fn describe(&self) -> String {
        let what = match self.load {
            Load::ReadByCopy => "read by copy",
            Load::ReadVectored => "vectored read",
            Load::ReadBatch => "batch of reads",
            Load::ReadByGuard => "read by guard",
            Load::Overwrite => "overwrite",
            Load::ReadMissing => "random read",
            Load::ReadMissingByTasks => "random read by tasks",
            Load::ReadInOrder => "read in order",
            Load::ReadRandom => "read at random",
            Load::OverwriteRandom => "overwrite at random",
            Load::ReadAndOverwriteRandom => "read and overwrite at random",
            Load::WriteStream => "stream",
            Load::CommitOverwrites => "durable overwrite",
            Load::CommitAppends => "durable append",
            Load::WriteSlowly => "write",
            Load::WarmZipf | Load::WarmRandom => "warm up",
            Load::OverwriteByTasks => "overwrite by tasks",
            Load::Account => "account",
            Load::ReadZipf => "zipf reader alone",
            Load::ReadZipfBesideWriter => "zipf reader beside a writer",
        };
        match (self.threads, self.depth) {
            (1, 1) => format!("{what}, 1 thread"),
            (1, depth) => format!("{what}, depth {depth}"),
            (threads, _) => format!("{what}, {threads} threads"),
        }
    }

    /// What distinguishes this step's numbers from others with the same name in its phase.
    pub(crate) fn metric(&self, name: &str) -> String {
        if self.phase == Phase::Growth {
            let size = show_bytes(self.bytes);
            return match self.files {
                1 => format!("{name}, {size}"),
                files => format!("{name}, {size}, {files} files"),
            };
        }
        match self.load {
            Load::Overwrite | Load::CommitOverwrites | Load::CommitAppends if self.files > 1 => {
                format!("{name}, own files")
            }
            Load::ReadMissingByTasks => format!("{name}, by tasks"),
            Load::ReadInOrder => format!("{name}, {} a call", show_bytes(self.call_bytes)),
            Load::ReadZipfBesideWriter => format!("{name}, beside a writer"),
            Load::ReadZipf if name != "hit ratio" => format!("{name}, alone"),
            _ => name.to_owned(),
        }
    }
}
