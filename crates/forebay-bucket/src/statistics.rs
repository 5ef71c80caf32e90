//! What a store of a volume has done, for metrics.

use forebay_base::sync::atomic::{AtomicU64, Ordering};
use forebay_store::Figure;
use forebay_volume::{Call, PAGE_BYTES, Reply, Writer};

/// The calls of a bucket, by name.
pub const CALLS: [&str; 4] = ["make", "get", "list", "remove"];

/// What a store has done since it was opened, and what its volume takes.
///
/// ```
/// use forebay_bucket::BucketStatistics;
/// assert_eq!(BucketStatistics::default().requests, [0; 4]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketStatistics {
    /// Requests that were answered, in the order of [`CALLS`].
    pub requests: [u64; 4],
    /// Requests without an answer, or that were refused, in the same order. Most are repeated.
    pub troubles: [u64; 4],
    /// Bytes of objects that were made.
    pub sent_bytes: u64,
    /// Bytes of objects that were read.
    pub received_bytes: u64,
    /// How many writers there were, this one included.
    pub epoch: u64,
    /// The last record of the state that it shows.
    pub record: u64,
    /// Whether another writer has taken the volume over.
    pub is_fenced: bool,
    /// Bytes in memory that are in no object yet.
    pub staged_bytes: u64,
    /// Records since the last map: as many are read at the next start.
    pub log_records: u64,
    /// About the bytes of the objects that are needed.
    pub live_bytes: u64,
    /// About the bytes of those that this writer has made useless and that are still there.
    pub dead_bytes: u64,
}

impl BucketStatistics {
    /// What `writer` knows of its volume; not what was asked for it.
    pub(crate) fn of(writer: &Writer) -> BucketStatistics {
        BucketStatistics {
            epoch: writer.map().epoch(),
            record: writer.map().number(),
            is_fenced: writer.is_fenced(),
            staged_bytes: writer.staged_pages() as u64 * PAGE_BYTES,
            log_records: writer.log_records(),
            live_bytes: writer.live_bytes(),
            dead_bytes: writer.dead_bytes(),
            ..BucketStatistics::default()
        }
    }

    /// The same as figures of a volume.
    pub(crate) fn figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for (results, result) in [(&self.requests, "ok"), (&self.troubles, "trouble")] {
            for (call, &value) in CALLS.into_iter().zip(results) {
                figures.push(Figure {
                    name: "bucket_requests",
                    help: "Requests to a bucket",
                    labels: vec![("call", call), ("result", result)],
                    is_counter: true,
                    value,
                });
            }
        }
        let (sent, received) = (self.sent_bytes, self.received_bytes);
        let sums = [
            ("bucket_sent_bytes", "Bytes of objects that were made", sent),
            (
                "bucket_received_bytes",
                "Bytes of objects that were read",
                received,
            ),
        ];
        figures.extend(sums.map(|(name, help, value)| Figure::new(name, help, true, value)));
        let levels = self.levels();
        figures.extend(levels.map(|(name, help, value)| Figure::new(name, help, false, value)));
        figures
    }

    fn levels(&self) -> [(&'static str, &'static str, u64); 7] {
        [
            ("volume_epoch", "How many writers a volume had", self.epoch),
            (
                "volume_record",
                "The last record of the state that a volume shows",
                self.record,
            ),
            (
                "volume_fenced",
                "Whether another writer has taken the volume over",
                u64::from(self.is_fenced),
            ),
            (
                "volume_staged_bytes",
                "Bytes on their way to the bucket",
                self.staged_bytes,
            ),
            (
                "volume_log_records",
                "Records since the last map, which the next start reads",
                self.log_records,
            ),
            (
                "volume_live_bytes",
                "Bytes of objects that are needed",
                self.live_bytes,
            ),
            (
                "volume_dead_bytes",
                "Bytes of objects that this writer made useless and that are still there",
                self.dead_bytes,
            ),
        ]
    }
}

/// Counts calls.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    requests: [AtomicU64; 4],
    troubles: [AtomicU64; 4],
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
}

impl Traffic {
    pub(crate) fn count(&self, call: &Call, reply: Option<&Reply>) {
        let at = match call {
            Call::Make { .. } => 0,
            Call::Get { .. } => 1,
            Call::List { .. } => 2,
            Call::Remove { .. } => 3,
        };
        let counters = if reply.is_some() {
            &self.requests
        } else {
            &self.troubles
        };
        counters[at].fetch_add(1, Ordering::Relaxed);
        if let Call::Make { bytes, .. } = call {
            self.sent_bytes
                .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        if let Some(Reply::Bytes(bytes)) = reply {
            self.received_bytes
                .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn put_into(&self, statistics: &mut BucketStatistics) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        statistics.requests = self.requests.each_ref().map(read);
        statistics.troubles = self.troubles.each_ref().map(read);
        statistics.sent_bytes = read(&self.sent_bytes);
        statistics.received_bytes = read(&self.received_bytes);
    }
}
