//! A volume in a bucket as a store in virtual time: the writer of `forebay-volume`, whose records
//! and objects are real, driven by a few tasks. The rules are those of the store that ships
//! (`forebay-bucket/src/desk.rs`), as far as they decide what a record holds.

use super::desk::{Desk, Ended, Job, PAGE, Taken};
use super::far::Far;
use super::history::{History, State as Stamps};
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_base::{Prng, Span};
use forebay_rt::Rt;
use forebay_rt::wait::WaitQueue;
use forebay_store::{Durability, Failure, Geometry, Io, Store};
use forebay_volume::{
    Append, Appended, Call, ChunkName, Opened, PAGE_BYTES, Progress, Reply, Scope, Twin, Writer,
    crc32c,
};
use std::collections::BTreeMap;

const WORKERS: usize = 4;
/// Records between two maps.
const RECORDS_OF_A_MAP: u64 = 6;
/// Before what got no answer is asked for again.
const AGAIN: Span = Span::from_millis(20);

/// See above.
pub(super) struct Front {
    rt: Rt,
    far: Arc<Far>,
    desk: Mutex<Desk>,
    arrivals: WaitQueue,
}

/// Why an object was not read or made.
enum Trouble {
    GaveUp,
    Missing,
}

fn finish(ended: Ended) {
    for (io, result) in ended {
        match result {
            Ok(()) => io.succeed(),
            Err(failure) => io.fail(failure),
        }
    }
}

impl Front {
    /// The store of the volume that was `opened`.
    pub(super) fn new(rt: &Rt, far: &Arc<Far>, opened: Opened, chance: Prng) -> Arc<Front> {
        let front = Arc::new(Front {
            rt: rt.clone(),
            far: far.clone(),
            desk: Mutex::new(Desk::new(Writer::new(opened), chance)),
            arrivals: WaitQueue::new(),
        });
        for _ in 0..WORKERS {
            rt.spawn("volume", front.clone().work());
        }
        front
    }

    /// The volume has `found`. Nothing was written yet.
    pub(super) fn begin(&self, found: Stamps) -> Arc<Mutex<History>> {
        let mut state = lock(&self.desk);
        state.history = Arc::new(Mutex::new(History::new(found.clone())));
        state.stamps = found;
        state.history.clone()
    }

    /// The process is gone: nothing is asked any more, and nothing ends well.
    pub(super) fn kill(&self) {
        let ended = {
            let mut state = lock(&self.desk);
            state.is_dead = true;
            state.end_all(Failure::Gone)
        };
        finish(ended);
        self.arrivals.wake_all();
    }

    /// What no bucket may do to a volume.
    pub(super) fn broken(&self) -> Option<String> {
        lock(&self.desk).broken.clone()
    }

    async fn work(self: Arc<Front>) {
        loop {
            let arrival = self.arrivals.listen();
            let mut ended = Ended::new();
            let (job, is_dead) = {
                let mut state = lock(&self.desk);
                (state.next_job(&mut ended), state.is_dead)
            };
            finish(ended);
            match job {
                Some(job) => {
                    // Perhaps there are more.
                    self.arrivals.wake_one();
                    self.carry_out(job).await;
                    self.arrivals.wake_all();
                }
                None if is_dead => return,
                None => arrival.await,
            }
        }
    }

    async fn carry_out(&self, job: Job) {
        match job {
            Job::Read(mut io) => {
                let result = match self.read(&mut io).await {
                    Ok(()) => Ok(()),
                    Err(Trouble::GaveUp) => Err(Failure::NoAnswer),
                    Err(Trouble::Missing) => Err(self.missing().await),
                };
                finish(vec![(io, result)]);
            }
            Job::Upload(chunk, scope, name) => {
                let made = self.upload(chunk, scope, name).await;
                let failure = match &made {
                    Err(Trouble::Missing) => Some(self.missing().await),
                    Err(Trouble::GaveUp) => Some(Failure::NoAnswer),
                    Ok(_) => None,
                };
                let ended = lock(&self.desk).uploaded(chunk, name, made.ok(), failure);
                finish(ended);
            }
            Job::Record => self.record().await,
        }
    }

    /// Asks until there is an answer, or it gives up.
    async fn ask(&self, call: &Call) -> Result<Reply, Trouble> {
        loop {
            if lock(&self.desk).is_dead {
                return Err(Trouble::GaveUp);
            }
            let reply = self.far.ask(call.clone()).await;
            if reply != Reply::Unknown {
                return Ok(reply);
            }
            if lock(&self.desk).gives_up() {
                return Err(Trouble::GaveUp);
            }
            self.rt.sleep(AGAIN).await;
        }
    }

    async fn get(&self, key: String) -> Result<Vec<u8>, Trouble> {
        match self.ask(&Call::Get { key, range: None }).await? {
            Reply::Bytes(bytes) => Ok(bytes),
            _ => Err(Trouble::Missing),
        }
    }

    /// The bytes of `sources`.
    async fn fetch(&self, sources: Vec<Taken>) -> Result<Vec<Vec<u8>>, Trouble> {
        let mut objects: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut pages = Vec::new();
        for source in sources {
            let page = match source {
                Taken::Bytes(bytes) => bytes,
                Taken::Of(key, at) => self.page_of(&mut objects, key, at, None).await?,
                Taken::OfRecord(record, at, crc) => {
                    let [first, second] = Twin::BOTH.map(|twin| twin.key(record));
                    match self.page_of(&mut objects, first, at, Some(crc)).await {
                        Err(Trouble::Missing) => {
                            self.page_of(&mut objects, second, at, Some(crc)).await?
                        }
                        page => page?,
                    }
                }
            };
            pages.push(page);
        }
        Ok(pages)
    }

    /// The page at byte `at` of the object `key`, with the checksum `crc` if there is one.
    async fn page_of(
        &self,
        objects: &mut BTreeMap<String, Vec<u8>>,
        key: String,
        at: u64,
        crc: Option<u32>,
    ) -> Result<Vec<u8>, Trouble> {
        if !objects.contains_key(&key) {
            objects.insert(key.clone(), self.get(key.clone()).await?);
        }
        // Where a record was removed, a slow opening may have put its own, which is shorter.
        let page = objects[&key].get(at as usize..at as usize + PAGE);
        let page = page.filter(|page| crc.is_none_or(|crc| crc == crc32c(page)));
        Ok(page.ok_or(Trouble::Missing)?.to_vec())
    }

    async fn read(&self, io: &mut Io) -> Result<(), Trouble> {
        let first = io.request().offset_bytes / PAGE_BYTES;
        let pages = first..first + io.page_count() as u64;
        let take = || lock(&self.desk).sources(pages.clone());
        let fetched = match self.fetch(take()).await {
            // A commit and `gc` may have moved it.
            Err(Trouble::Missing) => self.fetch(take()).await?,
            fetched => fetched?,
        };
        for (index, page) in fetched.iter().enumerate() {
            io.fill_page(index, 0, page);
        }
        Ok(())
    }

    /// Makes the object of `chunk`, and returns its checksum.
    async fn upload(&self, chunk: u64, scope: Scope, name: ChunkName) -> Result<u32, Trouble> {
        let sources = {
            let state = lock(&self.desk);
            let pages = state.writer.assemble(scope, chunk);
            pages.map(|(_, source)| Taken::from(source)).collect()
        };
        let bytes = self.fetch(sources).await?.concat();
        let crc = crc32c(&bytes);
        let mut append = Append::new(name.to_string(), bytes);
        match self.append(&mut append).await? {
            Appended::Ours => Ok(crc),
            Appended::Theirs => {
                lock(&self.desk).broken = Some(format!("{name} was made twice"));
                Err(Trouble::GaveUp)
            }
        }
    }

    async fn append(&self, append: &mut Append) -> Result<Appended, Trouble> {
        loop {
            let reply = match self.far.ask(append.next()).await {
                Reply::Unknown if lock(&self.desk).gives_up() => return Err(Trouble::GaveUp),
                reply => reply,
            };
            if let Progress::Done(appended) = append.answer(reply) {
                return Ok(appended);
            }
            self.rt.sleep(AGAIN).await;
        }
    }

    async fn record(&self) {
        let result = loop {
            let Some((twin, call)) = lock(&self.desk).next_of_record() else {
                break Ok(());
            };
            let reply = self.far.ask(call).await;
            let mut state = lock(&self.desk);
            let is_unknown = reply == Reply::Unknown;
            match state.writer.answer(twin, reply) {
                Err(_) => break Err(Failure::Fenced),
                Ok(Progress::Done(())) => {
                    lock(&state.history).records();
                    break Ok(());
                }
                Ok(Progress::More) if is_unknown && state.gives_up() => {
                    break Err(Failure::NoAnswer);
                }
                Ok(Progress::More) => {}
            }
        };
        let (ended, map) = {
            let mut state = lock(&self.desk);
            let ended = state.recorded(result);
            (ended, state.writer.map_after(RECORDS_OF_A_MAP))
        };
        finish(ended);
        if let Some(mut map) = map
            && let Ok(Appended::Ours) = self.append(&mut map).await
        {
            lock(&self.desk).writer.map_made();
        }
        loop {
            let mut keys = lock(&self.desk).writer.removals(1, 0);
            let Some(key) = keys.pop() else {
                return;
            };
            self.far.ask(Call::Remove { key }).await;
            lock(&self.desk).writer.removed(1);
        }
    }

    /// The failure for an object that is missing: another writer may have the volume.
    async fn missing(&self) -> Failure {
        for twin in Twin::BOTH {
            let (successor, is_dead) = {
                let state = lock(&self.desk);
                (state.writer.successor(twin), state.is_dead)
            };
            if is_dead {
                return Failure::Gone;
            }
            let Some(call) = successor else {
                // A record is in doubt, and will tell.
                return Failure::NoAnswer;
            };
            match self.ask(&call).await {
                Ok(Reply::Bytes(_)) => {
                    let ended = {
                        let mut state = lock(&self.desk);
                        state.writer.succeeded();
                        state.end_all(Failure::Fenced)
                    };
                    finish(ended);
                    return Failure::Fenced;
                }
                Ok(_) => {}
                Err(_) => return Failure::NoAnswer,
            }
            let mut state = lock(&self.desk);
            if twin == Twin::Second && state.writer.successor(twin) == Some(call) {
                state.broken = Some("an object is gone that the volume needs".to_owned());
            }
        }
        Failure::NoAnswer
    }
}

impl Store for Front {
    fn geometry(&self) -> Geometry {
        let chunk_pages = lock(&self.desk).writer.manifest().chunk_pages() as u32;
        Geometry {
            block_bytes: PAGE as u32,
            max_io_pages: chunk_pages,
            write_unit_pages: chunk_pages,
            queue_depth: 8,
            durability: Durability::Unstable,
            stable_pages: true,
        }
    }

    fn submit(&self, io: Io) {
        let mut ended = Ended::new();
        lock(&self.desk).submit(io, &mut ended);
        finish(ended);
        self.arrivals.wake_one();
    }
}
