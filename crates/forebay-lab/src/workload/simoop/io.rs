//! The directories of data, and the threads that read from them for the workers.

use super::{STAT_WORK, Sizes, THREADS_EACH};
use crate::world::{KnownFile, Process, ProcessHandle, World, WorldError, WorldFile};
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_rt::Work;
use forebay_rt::wait::{Slot, WaitQueue};
use std::collections::VecDeque;

/// Files by directory.
pub(super) struct Directories {
    files: Vec<Mutex<Vec<KnownFile>>>,
    /// The same, if they are to stay open.
    open: Option<Mutex<Vec<WorldFile>>>,
}

impl Directories {
    /// `count` empty directories. Files are opened for each read and closed after it, or stay open.
    pub(super) fn new(count: usize, closes: bool) -> Directories {
        Directories {
            files: (0..count).map(|_| Mutex::default()).collect(),
            open: (!closes).then(Mutex::default),
        }
    }

    /// Writes `count` files in the directory numbered `directory`, one block after
    /// the other.
    pub(super) async fn create(
        &self,
        process: &Process,
        directory: usize,
        count: u64,
        sizes: Sizes,
    ) -> Result<(), WorldError> {
        let file_system = process.world().main_file_system();
        for number in 0..count {
            let name = format!("{directory}-{number}");
            let mut file = process
                .create_in(file_system, directory as u64, &name)
                .await?;
            while file.end_bytes() < sizes.file {
                file.append(sizes.write).await?;
            }
            lock(&self.files[directory]).push(file.known());
            if let Some(open) = &self.open {
                lock(open).push(file);
            }
        }
        Ok(())
    }

    /// A file of a directory, opened by `process`; any number names one.
    async fn file(
        &self,
        process: &Process,
        directory: usize,
        number: u64,
    ) -> Result<WorldFile, WorldError> {
        let known = {
            let files = lock(&self.files[directory]);
            files[(number % files.len() as u64) as usize]
        };
        let file_system = process.world().main_file_system();
        process.reopen(file_system, known).await
    }

    /// Looks at the metadata of every file, as a walk through the directories does.
    pub(super) async fn look_at_all(&self, process: &Process) -> Result<(), WorldError> {
        for directory in 0..self.files.len() {
            let count = lock(&self.files[directory]).len() as u64;
            for number in 0..count {
                process.charge(Work::Spend(STAT_WORK)).await;
                drop(self.file(process, directory, number).await?);
            }
        }
        Ok(())
    }
}

/// A read that a worker waits for.
struct Asked {
    file: u64,
    offset_bytes: u64,
    at: Instant,
    answer: Arc<Slot<Span>>,
}

/// Reads that wait for a thread of one directory.
#[derive(Default)]
struct Queue {
    asked: Mutex<VecDeque<Asked>>,
    is_filled: WaitQueue,
}

/// The I/O threads of all directories.
pub(super) struct IoThreads {
    queues: Vec<Arc<Queue>>,
    threads: Mutex<Vec<ProcessHandle>>,
}

impl IoThreads {
    /// Starts the threads of every directory; a read is of `read_bytes`.
    pub(super) fn start(
        world: &World,
        directories: &Arc<Directories>,
        read_bytes: u64,
    ) -> Arc<IoThreads> {
        let nodes = world.machine().memory.nodes.len();
        let (mut queues, mut threads) = (Vec::new(), Vec::new());
        for directory in 0..directories.files.len() {
            let queue = Arc::new(Queue::default());
            for thread in 0..THREADS_EACH {
                let (queue, directories) = (queue.clone(), Arc::clone(directories));
                let node = (directory + thread as usize) % nodes;
                threads.push(world.spawn_on(node, "io", move |process| async move {
                    serve(process, &directories, directory, read_bytes, &queue).await
                }));
            }
            queues.push(queue);
        }
        Arc::new(IoThreads {
            queues,
            threads: Mutex::new(threads),
        })
    }

    /// Queues a read of the directory numbered `directory`. Returns how long it took from `at` on.
    pub(super) fn ask(
        &self,
        directory: usize,
        file: u64,
        offset_bytes: u64,
        at: Instant,
    ) -> Arc<Slot<Span>> {
        let answer = Arc::new(Slot::new());
        let queue = &self.queues[directory];
        lock(&queue.asked).push_back(Asked {
            file,
            offset_bytes,
            at,
            answer: answer.clone(),
        });
        queue.is_filled.wake_one();
        answer
    }

    /// Ends all threads.
    pub(super) async fn end(&self) -> Result<(), WorldError> {
        let threads = std::mem::take(&mut *lock(&self.threads));
        threads.iter().for_each(ProcessHandle::kill);
        for thread in threads {
            thread.wait().await?;
        }
        Ok(())
    }
}

async fn serve(
    process: Process,
    directories: &Directories,
    directory: usize,
    read_bytes: u64,
    queue: &Queue,
) -> Result<(), WorldError> {
    loop {
        let filled = queue.is_filled.listen();
        let Some(asked) = lock(&queue.asked).pop_front() else {
            filled.await;
            continue;
        };
        let mut file = directories.file(&process, directory, asked.file).await?;
        file.read(asked.offset_bytes, read_bytes).await?;
        asked.answer.set(process.now() - asked.at);
    }
}
