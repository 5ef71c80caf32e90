//! A writer, a call at a time: it opens, writes, commits, and may stop or fall behind at any step.

use super::bucket::Bucket;
use super::history::{Histories, PAGES, State, page_of, page_of_chunk, page_of_record, read};
use super::world::pins;
use forebay_base::Prng;
use forebay_volume::{
    Access, Append, Appended, Call, ChunkName, Held, Holder, Holding, Manifest, Need, Opening,
    PAGE_BYTES, Progress, Record, Reply, Scope, Source, Twin, VolumeFault, Writer, Writing,
};

/// Whether it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    GoesOn,
    Ended,
}

/// One process that writes.
pub(crate) struct SimulatedWriter {
    id: u128,
    prng: Prng,
    doing: Doing,
}

#[allow(clippy::large_enum_variant, reason = "there are three at a time")]
enum Doing {
    Opening(Opening),
    Open(Open),
}

/// It has the volume, or had it.
struct Open {
    epoch: u64,
    writer: Writer,
    /// What it wrote last.
    state: State,
    upload: Option<(u64, ChunkName, Append)>,
    /// What it had written when it froze its next record.
    frozen: Option<State>,
    /// It goes on until the commit is through.
    commits: bool,
    closes: bool,
    removing: Option<Removing>,
}

/// Objects that are to be removed.
enum Removing {
    /// It is asked what snapshots hold.
    Asks(Vec<String>, Holding),
    Knows(Vec<String>, Held),
}

impl SimulatedWriter {
    pub(crate) fn new(id: u128, seed: u64, manifest: Manifest) -> SimulatedWriter {
        let mut prng = Prng::from_seed(seed);
        let writing = Writing {
            writer: id,
            who: format!("writer {id}"),
            create: Some(manifest),
            take_over: !prng.chance(1, 4),
        };
        SimulatedWriter {
            id,
            prng,
            doing: Doing::Opening(Opening::new(Access::Write(writing))),
        }
    }

    pub(crate) fn step(&mut self, bucket: &mut Bucket, histories: &mut Histories) -> Life {
        match &mut self.doing {
            Doing::Opening(opening) => match opening.answer(bucket.call(opening.next())) {
                Ok(Progress::More) => {}
                Ok(Progress::Done(opened)) => {
                    assert_eq!(opened.map.writer(), self.id);
                    let epoch = opened.map.epoch();
                    let writer = Writer::with_codec(opened, bucket.codec.clone());
                    let Some(state) = read(bucket, &writer) else {
                        histories.notice(&"that an object is gone");
                        return Life::Ended;
                    };
                    histories.began(epoch, state.clone());
                    self.doing = Doing::Open(Open {
                        epoch,
                        writer,
                        state,
                        upload: None,
                        frozen: None,
                        commits: false,
                        closes: false,
                        removing: None,
                    });
                }
                Err(VolumeFault::InUse { who }) => {
                    assert!(who.starts_with("writer "), "{who}");
                    return Life::Ended;
                }
                Err(fault) => {
                    histories.notice(&fault);
                    return Life::Ended;
                }
            },
            Doing::Open(open) => return open.step(&mut self.prng, bucket, histories),
        }
        Life::GoesOn
    }
}

impl Open {
    fn step(&mut self, prng: &mut Prng, bucket: &mut Bucket, histories: &mut Histories) -> Life {
        if self.commits && self.frozen.is_none() && prng.chance(1, 3) {
            // Also while something is uploaded.
            self.writer.freeze();
            self.frozen = Some(self.state.clone());
        }
        if self.frozen.is_some() && prng.chance(1, 3) {
            self.write(prng, bucket, histories);
        }
        if let Some((chunk, name, append)) = &mut self.upload {
            match append.answer(bucket.call(append.next())) {
                Progress::Done(Appended::Ours) => {
                    self.writer.made(*chunk, *name, append.bytes());
                    self.upload = None;
                }
                Progress::Done(Appended::Theirs) => panic!("{name} was made twice"),
                // It gives up, and the object may still come.
                Progress::More if prng.chance(1, 8) => {
                    self.writer.not_made(*name);
                    self.upload = None;
                    self.give_up();
                }
                // The commit gives up, and the upload goes on.
                Progress::More if prng.chance(1, 16) => self.give_up(),
                Progress::More => {}
            }
            return Life::GoesOn;
        }
        if self.commits {
            return self.commit(prng, bucket, histories);
        }
        if prng.chance(1, 6) {
            self.tidy(prng, bucket, histories);
            return Life::GoesOn;
        }
        self.write(prng, bucket, histories);
        self.commits = prng.chance(1, 3);
        self.closes = self.commits && prng.chance(1, 30);
        Life::GoesOn
    }

    fn give_up(&mut self) {
        self.commits = false;
        self.writer.thaw();
        self.frozen = None;
    }

    /// Makes a map, and removes what has become useless.
    fn tidy(&mut self, prng: &mut Prng, bucket: &mut Bucket, histories: &mut Histories) {
        if let Some(mut map) = self.writer.map_after(1 + prng.below(6)) {
            for _ in 0..prng.below(6) {
                match map.answer(bucket.call(map.next())) {
                    Progress::More => {}
                    Progress::Done(made) => {
                        assert_eq!(made, Appended::Ours, "a map of a record has one form");
                        self.writer.map_made();
                        break;
                    }
                }
            }
        }
        for (page, from) in self.writer.sparse_pages(prng.below(4)) {
            if let Some(bytes) = page_of_record(bucket, from.record, page, from.at, from.crc) {
                self.writer.moved(page, from, bytes);
            }
        }
        for _ in 0..prng.below(8) {
            self.remove(prng, bucket, histories);
        }
    }

    /// Takes a step towards the removal of what is useless.
    fn remove(&mut self, prng: &mut Prng, bucket: &mut Bucket, histories: &mut Histories) {
        match self.removing.take() {
            None => {
                let keys = self.writer.removals(1 + prng.below(3) as usize, 0);
                if !keys.is_empty() {
                    let holding = Holding::new(bucket.manifest, pins(prng), Held::among(&keys));
                    self.removing = Some(Removing::Asks(keys, holding));
                }
            }
            Some(Removing::Asks(keys, mut holding)) => {
                self.removing = match holding.answer(bucket.call(holding.next())) {
                    Ok(Progress::More) => Some(Removing::Asks(keys, holding)),
                    Ok(Progress::Done(held)) => Some(Removing::Knows(keys, held)),
                    Err(VolumeFault::Pinned) => None,
                    Err(fault) => {
                        histories.notice(&fault);
                        None
                    }
                }
            }
            Some(Removing::Knows(mut keys, held)) => {
                let count = keys.len();
                // In any order: those that are named at once may go at once.
                if prng.chance(1, 2) {
                    keys.reverse();
                }
                for key in keys.into_iter().filter(|key| !held.holds(key)) {
                    bucket.call(Call::Remove { key });
                }
                self.writer.removed(count);
            }
        }
    }

    fn write(&mut self, prng: &mut Prng, bucket: &Bucket, histories: &mut Histories) {
        // No page is staged where it would be lost.
        let closed = self.upload.as_ref().and_then(|(chunk, name, _)| {
            let is_closed = self.writer.is_of_all(*name);
            is_closed.then_some(*chunk)
        });
        if prng.chance(1, 10) {
            let chunk = prng.below(2);
            if closed == Some(chunk) {
                return;
            }
            self.writer.discard(chunk);
            let first = chunk as usize * 16;
            self.state[first..PAGES.min(first + 16)].fill(0);
            assert!(self.writer.is_hole(chunk));
        }
        for _ in 0..prng.below(3) * prng.below(8) {
            let page = prng.below(PAGES as u64);
            if closed == Some(page / 16) {
                continue;
            }
            let stamp = prng.next_u64() | 1;
            self.writer.stage(page, &page_of(stamp));
            self.state[page as usize] = stamp;
        }
        if prng.chance(1, 2) && self.upload.is_none() {
            self.begin_some_upload(prng, bucket);
            return;
        }
        match read(bucket, &self.writer) {
            Some(state) => assert_eq!(state, self.state, "what is read is what was written"),
            // `gc` has taken what only this zombie needs.
            None if self.is_taken_over(bucket) => {}
            None => histories.notice(&"that an object is gone"),
        }
    }

    /// Whether another writer's record is where its own next one, or one in doubt, would be.
    fn is_taken_over(&self, bucket: &Bucket) -> bool {
        let map = self.writer.map();
        [map.number(), map.number() + 1].iter().any(|&number| {
            Twin::BOTH.iter().any(|twin| {
                bucket.peek(&twin.key(number)).is_some_and(|bytes| {
                    let (record, _) = Record::decode(number, bytes).expect("a record is whole");
                    record.writer != map.writer()
                })
            })
        })
    }

    fn begin_some_upload(&mut self, prng: &mut Prng, bucket: &Bucket) {
        if prng.chance(1, 3)
            && let [chunk] = self.writer.fullest(1)[..]
        {
            self.begin_upload(bucket, Scope::All, chunk);
        }
    }

    fn begin_upload(&mut self, bucket: &Bucket, scope: Scope, chunk: u64) {
        let Some(assembled) = assembled(bucket, &self.writer, scope, chunk) else {
            // Only a zombie's objects are gone, and `write` has judged that.
            return;
        };
        let name = self.writer.name(scope);
        let pages = bucket.codec.pages_of(Holder::Chunk(name));
        let mut bytes = Vec::new();
        for (page, content) in assembled {
            pages.seal(self.writer.map().writer(), page, &content, &mut bytes);
        }
        self.upload = Some((chunk, name, Append::new(name.to_string(), bytes)));
    }

    fn commit(&mut self, prng: &mut Prng, bucket: &mut Bucket, histories: &mut Histories) -> Life {
        if self.writer.is_recording() {
            // The copies are asked for at the same time, and come in any order.
            let first = Twin::BOTH[prng.below(2) as usize];
            let asked = [first, first.other()].into_iter().find_map(|twin| {
                let call = self.writer.next(twin)?;
                Some((twin, call))
            });
            let (twin, call) = asked.expect("a copy is not there yet");
            match self.writer.answer(twin, bucket.call(call)) {
                Ok(Progress::More) => {
                    // It gives up for now; the record stays in doubt.
                    if prng.chance(1, 8) {
                        self.give_up();
                    }
                }
                Ok(Progress::Done(())) => {
                    histories.acknowledge(self.epoch);
                    if !self.writer.map().is_open() {
                        return Life::Ended;
                    }
                }
                Err(fault) => {
                    assert_eq!(fault, VolumeFault::Fenced);
                    assert!(self.writer.is_fenced());
                    histories.fenced += 1;
                    return Life::Ended;
                }
            }
            return Life::GoesOn;
        }
        match self.writer.need() {
            Need::Nothing if self.closes && !self.writer.has_changes() => {
                self.give_up();
                self.commits = true;
                self.writer.close();
                histories.tried(self.epoch, self.state.clone());
            }
            Need::Nothing => self.give_up(),
            Need::Chunks(chunks) => {
                self.begin_upload(bucket, Scope::Record, chunks[0]);
                if self.upload.is_none() {
                    // Only a zombie misses an object, and can know it.
                    let is_there = |twin| {
                        let call = self.writer.successor(twin).expect("no record is in doubt");
                        matches!(bucket.answer(&call), Reply::Bytes(_))
                    };
                    if !Twin::BOTH.into_iter().any(is_there) {
                        histories.notice(&"that an object is gone");
                        return Life::Ended;
                    }
                    self.writer.succeeded();
                    histories.fenced += 1;
                    return Life::Ended;
                }
            }
            Need::Record => {
                self.writer.seal();
                let state = self.frozen.take().unwrap_or_else(|| self.state.clone());
                histories.tried(self.epoch, state);
            }
        }
        Life::GoesOn
    }
}

/// The pages of `chunk`; none if an object is gone.
fn assembled(
    bucket: &Bucket,
    writer: &Writer,
    scope: Scope,
    chunk: u64,
) -> Option<Vec<(u64, Vec<u8>)>> {
    let pages = writer.assemble(scope, chunk).map(|(page, source)| {
        let bytes = match source {
            Source::Zeros => vec![0; PAGE_BYTES as usize],
            Source::Memory(bytes) => bytes.to_vec(),
            Source::Chunk(object, at) => page_of_chunk(bucket, object.name, page, at)?,
            Source::Record { record, at, crc } => page_of_record(bucket, record, page, at, crc)?,
        };
        Some((page, bytes))
    });
    pages.collect()
}
