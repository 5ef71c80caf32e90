//! Worlds of volumes in a bucket, with the whole engine above. Processes write to a volume with
//! real records. Some are killed, and some are taken over and go on as zombies. However the bucket
//! behaves, the next process finds exactly what its predecessor tried to commit, with everything
//! that a returned sync promised. No sync of a zombie returns unless its pages are there.

mod bucket_sim;
mod client;
mod front;
mod history;

use super::machine::{machine_of, open_cache};
use super::verdict::{Oracle, Violation};
use bucket_sim::BucketSim;
use client::{Shared, work};
use forebay_base::sync::atomic::Ordering;
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_base::{Prng, Span};
use forebay_engine::{Cache, File, Settings};
use forebay_kernels::Policy;
use forebay_rt::{Rt, Task};
use forebay_store::ObjectId;
use forebay_volume::{
    Access, Collecting, Manifest, Opened, Opening, PAGE_BYTES, PageCodec, PageFormat, Pins,
    Progress, Reply, VolumeKey, Writing,
};
use front::{Front, stamp_of};
use history::{History, State};

/// More pages than memory has room for.
const PAGES: u64 = 640;
const CHUNK_PAGES: u32 = 16;
const CHUNK_BYTES: u32 = CHUNK_PAGES * PAGE_BYTES as u32;
const CLIENTS: u64 = 2;
const MEMORY_BYTES: u64 = 2 << 20;
/// A bucket that answers ends every sync within this time.
const SYNCED: Span = Span::from_secs(120);

/// What the oracle of volumes finds.
pub(super) fn judge_volumes(seed: u64) -> Option<Violation> {
    let machine = machine_of(seed);
    let chance = Prng::from_seed(seed).child("volumes");
    let (oracle, what) = machine.run(play(machine.rt(), chance))?;
    Some(Violation { oracle, what })
}

/// What is wrong, and who noticed it.
type Finding = (Oracle, String);

/// A process that has the volume, or had it.
struct Process {
    front: Arc<Front>,
    /// None once it was killed.
    cache: Option<(Cache, File)>,
    shared: Arc<Shared>,
    clients: Vec<Task>,
    history: Arc<Mutex<History>>,
}

impl Process {
    /// Opens the volume as process `number`, reads all of it, and begins to write. Returns also
    /// what it found.
    async fn start(
        rt: &Rt,
        bucket: &Arc<BucketSim>,
        manifest: Manifest,
        number: u64,
        chance: &Prng,
    ) -> (Process, State) {
        let opened = open(bucket, manifest, number).await;
        let key = VolumeKey::new([7; 32]);
        let codec = PageCodec::new(&opened.manifest, Some(&key)).expect("the key is there");
        let front = Front::new(rt, bucket, opened, codec, chance.child("front"));
        let settings = Settings {
            memory_bytes: MEMORY_BYTES,
            dirty_expire: Span::from_millis(300),
            writeback_interval: Span::from_millis(200),
            ..Settings::default()
        };
        let cache = open_cache(rt, settings, Policy::default(), None);
        let store = cache
            .attach(front.clone())
            .expect("a new cache takes a store");
        let file = cache.open(&store, ObjectId(0), PAGES * PAGE_BYTES);
        let file = file.expect("the volume opens");
        let found = read_all(rt, &file).await;
        let history = front.begin(found.clone());
        let shared = Arc::new(Shared::new(rt.clone(), history.clone(), number));
        let clients = (0..CLIENTS).map(|client| {
            let own = PAGES / CLIENTS;
            let pages = client * own..(client + 1) * own;
            let chance = chance.child(&format!("client {client}"));
            rt.spawn("client", work(shared.clone(), file.clone(), pages, chance))
        });
        let process = Process {
            clients: clients.collect(),
            front,
            cache: Some((cache, file)),
            shared,
            history,
        };
        (process, found)
    }

    /// The process dies at once.
    async fn kill(&mut self) {
        self.front.kill();
        self.shared.stop.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            client.join().await;
        }
        self.cache = None;
    }

    fn finding(&self) -> Option<Finding> {
        let broken = self.front.broken().map(|what| (Oracle::Crash, what));
        broken.or_else(|| {
            let wrong = lock(&self.shared.wrong).clone();
            wrong.map(|what| (Oracle::Bytes, what))
        })
    }
}

async fn play(rt: Rt, mut chance: Prng) -> Option<Finding> {
    let most_us = 1_000 << chance.below(5);
    let bucket = BucketSim::new(rt.clone(), chance.child("far"), most_us);
    let format = PageFormat::ALL[chance.below(3) as usize];
    let manifest = Manifest::new(7, PAGES * PAGE_BYTES, CHUNK_BYTES);
    let manifest = manifest.expect("the volume is possible").with_pages(format);
    let collector = rt.spawn(
        "gc",
        collect(rt.clone(), bucket.clone(), chance.child("gc")),
    );
    // Each with what the one after it found.
    let mut before: Vec<(Process, Option<State>)> = Vec::new();
    let count = 2 + chance.below(3);
    for number in 0..=count {
        let child = chance.child(&format!("process {number}"));
        if number == count {
            bucket.calm();
        }
        let (process, found) = Process::start(&rt, &bucket, manifest, number, &child).await;
        if let Some((_, next)) = before.last_mut() {
            *next = Some(found);
        }
        before.push((process, None));
        rt.sleep(Span::from_millis(300 + chance.below(2_500))).await;
        let (process, _) = before.last_mut().expect("it was just started");
        if number < count && chance.chance(1, 2) {
            process.kill().await;
        }
    }
    let mut finding = all_is_synced(&rt, &before).await;
    for (process, _) in &mut before {
        process.kill().await;
    }
    bucket.stop();
    collector.join().await;
    finding = finding.or_else(|| before.iter().find_map(|(process, _)| process.finding()));
    finding.or_else(|| {
        let wrong = |(at, (process, next)): (usize, &(Process, Option<State>))| {
            let wrong = lock(&process.history).judge(next.as_ref()?)?;
            Some((Oracle::Crash, format!("after process {at}: {wrong}")))
        };
        before.iter().enumerate().find_map(wrong)
    })
}

/// The last process can make everything durable, now that the bucket answers.
async fn all_is_synced(rt: &Rt, processes: &[(Process, Option<State>)]) -> Option<Finding> {
    let (last, _) = processes.last()?;
    let (_, file) = last.cache.as_ref()?;
    // What failed before is reported once.
    let _ = rt.timeout(SYNCED, file.sync()).await;
    match rt.timeout(SYNCED, file.sync()).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some((
            Oracle::Stuck,
            format!("the last process cannot sync: {error}"),
        )),
        Err(_) => Some((Oracle::Stuck, format!("a sync does not return in {SYNCED}"))),
    }
}

/// Opens the volume as process `number`, also if another one has it.
async fn open(bucket: &Arc<BucketSim>, manifest: Manifest, number: u64) -> Opened {
    let writing = Writing {
        writer: u128::from(number) + 1,
        who: format!("process {number}"),
        create: Some(manifest),
        take_over: true,
    };
    let mut opening = Opening::new(Access::Write(writing));
    loop {
        let reply = bucket.ask(opening.next()).await;
        let progress = opening.answer(reply);
        if let Progress::Done(opened) = progress.expect("nobody keeps it from the volume") {
            return opened;
        }
    }
}

/// The stamps of all pages, read through the engine.
async fn read_all(rt: &Rt, file: &File) -> State {
    let mut state = State::new();
    let mut page = vec![0; PAGE_BYTES as usize];
    for number in 0..PAGES {
        // The bucket may not answer in time.
        while file.read_at(&mut page, number * PAGE_BYTES).await.is_err() {
            rt.sleep(Span::from_millis(50)).await;
        }
        let stamp = stamp_of(&page);
        if stamp != 0 {
            state.insert(number, stamp);
        }
    }
    state
}

/// Removes what nobody needs, now and then.
async fn collect(rt: Rt, bucket: Arc<BucketSim>, mut chance: Prng) {
    while !bucket.is_over() {
        rt.sleep(Span::from_millis(200 + chance.below(2_000))).await;
        let mut collecting = Collecting::new(Pins::Respect);
        while !bucket.is_over() {
            let reply = bucket.ask(collecting.next()).await;
            let is_unknown = reply == Reply::Unknown;
            match collecting.answer(reply) {
                Ok(Progress::More) if is_unknown && chance.chance(1, 8) => break,
                Ok(Progress::More) => {}
                // A map that is not there yet, or no longer.
                Ok(Progress::Done(_)) | Err(_) => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::judge_volumes;

    #[test]
    fn volumes_keep_what_was_synced() {
        for seed in 0..6 {
            assert_eq!(judge_volumes(seed), None);
        }
    }
}
