//! A dd that never ends, until it is killed.

use crate::world::{Process, ProcessHandle, World, WorldError};
use forebay_base::sync::Arc;
use forebay_base::sync::atomic::{AtomicU64, Ordering};

/// How an endless dd writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    /// Bytes of one write.
    pub(super) block_bytes: u64,
    /// Writes whose processor time is charged together.
    pub(super) calls_at_once: u64,
}

/// A dd that writes to a file of its own for ever.
pub(super) struct EndlessWriter {
    process: ProcessHandle,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    written_bytes: AtomicU64,
    longest_call_ns: AtomicU64,
}

impl EndlessWriter {
    /// Starts the dd numbered `number` on the file system numbered `file_system`.
    pub(super) fn start(
        world: &World,
        file_system: usize,
        number: u64,
        pattern: Pattern,
    ) -> EndlessWriter {
        let seen = Arc::new(Seen::default());
        let noted = seen.clone();
        let process = world.spawn("dd", move |process| async move {
            write(
                process,
                Place {
                    file_system,
                    number,
                },
                pattern,
                &noted,
            )
            .await
        });
        EndlessWriter { process, seen }
    }

    /// Bytes written so far.
    pub(super) fn written_bytes(&self) -> u64 {
        self.seen.written_bytes.load(Ordering::Relaxed)
    }

    /// The longest time that it spent in calls that are charged together, seconds.
    pub(super) fn longest_call_s(&self) -> f64 {
        self.seen.longest_call_ns.load(Ordering::Relaxed) as f64 * 1e-9
    }

    /// The process, for a caller that ends it in its own way.
    pub(super) fn into_process(self) -> ProcessHandle {
        self.process
    }

    /// Ends it.
    ///
    /// # Errors
    /// What kept it from writing.
    pub(super) async fn end(self) -> Result<(), WorldError> {
        self.process.kill();
        self.process.wait().await.map(|_| ())
    }
}

/// The file of a writer.
struct Place {
    file_system: usize,
    number: u64,
}

async fn write(
    process: Process,
    place: Place,
    pattern: Pattern,
    seen: &Seen,
) -> Result<(), WorldError> {
    let file_system = &process.world().file_systems()[place.file_system];
    let name = format!("dd-{}", place.number);
    let mut file = process.create(file_system, &name).await?;
    let room = file_system.room_bytes() / 2;
    let bytes = pattern.block_bytes * pattern.calls_at_once;
    loop {
        let began = process.now();
        file.append_calls(pattern.calls_at_once, bytes).await?;
        let spent_ns = (process.now() - began).as_nanos();
        seen.longest_call_ns.fetch_max(spent_ns, Ordering::Relaxed);
        seen.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        if file.end_bytes() > room {
            return Err(WorldError::Impossible(format!(
                "dd {} has filled half of file system '{}'; let it run for a shorter time",
                place.number,
                file_system.name()
            )));
        }
    }
}
