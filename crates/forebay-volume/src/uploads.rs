//! Which chunks become objects next, and which are on their way.
//!
//! - invariant VB13: no two objects of one chunk are made at a time.
//! - invariant VB14: the chunks of a commit go first, and of the others those that are whole before
//!   those that have the most pages.

use crate::layer::Scope;
use crate::name::ChunkName;
use crate::writer::Writer;
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

/// See above. It starts nothing: its owner makes the objects.
///
/// ```
/// use forebay_volume::{Access, Manifest, Opening, Progress, Scope, Uploads, Writer, Writing};
/// # use forebay_volume::{Call, Reply};
/// # let mut objects = std::collections::BTreeMap::new();
/// # let mut ask = |call| match call {
/// #     Call::Make { key, .. } if objects.contains_key(&key) => Reply::Exists,
/// #     Call::Make { key, bytes } => {
/// #         objects.insert(key, bytes.to_vec());
/// #         Reply::Done
/// #     }
/// #     Call::Get { key, .. } => objects.get(&key).cloned().map_or(Reply::Missing, Reply::Bytes),
/// #     Call::List { .. } => {
/// #         Reply::Keys(objects.keys().map(|key: &String| (key.clone(), 1)).collect())
/// #     }
/// #     Call::Remove { key } => objects.remove(&key).map_or(Reply::Missing, |_| Reply::Done),
/// # };
/// # let mut opening = Opening::new(Access::Write(Writing {
/// #     writer: 1,
/// #     who: "host a".into(),
/// #     create: Some(Manifest::new(1, 64 << 20, 64 << 10)?),
/// #     take_over: false,
/// # }));
/// # let opened = loop {
/// #     if let Progress::Done(opened) = opening.answer(ask(opening.next()))? {
/// #         break opened;
/// #     }
/// # };
/// let mut writer = Writer::new(opened);
/// let mut uploads = Uploads::new(4);
/// for page in 0..17 {
///     writer.stage(page, &[7; 4096]);
/// }
/// // Chunks of this volume have 16 pages. The first is whole, and of the second one page is there.
/// uploads.staged(&writer, 0..=1);
/// assert!(matches!(uploads.next(&mut writer, Scope::All), Some((0, _))));
/// assert_eq!(uploads.next(&mut writer, Scope::All), None);
/// # Ok::<(), forebay_volume::VolumeFault>(())
/// ```
#[derive(Clone, Debug)]
pub struct Uploads {
    /// At most as many are under way.
    most: usize,
    /// Those for the next record, and others.
    wanted: VecDeque<u64>,
    planned: VecDeque<u64>,
    under_way: BTreeMap<u64, ChunkName>,
}

impl Uploads {
    /// At most `most` at a time.
    pub fn new(most: usize) -> Uploads {
        Uploads {
            most,
            wanted: VecDeque::new(),
            planned: VecDeque::new(),
            under_way: BTreeMap::new(),
        }
    }

    /// At most `most` at a time from now on. Those that are under way go on.
    pub fn limit(&mut self, most: usize) {
        self.most = most;
    }

    /// Whether no object is being made.
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Whether pages may be staged in `chunks`: an object that is being made of all that is staged
    /// there would count for them.
    pub fn lets_stage(&self, writer: &Writer, chunks: RangeInclusive<u64>) -> bool {
        let mut under_way = self.under_way.range(chunks);
        !under_way.any(|(_, &name)| writer.is_of_all(name))
    }

    /// Pages were staged in `chunks`: those that are whole now are planned.
    pub fn staged(&mut self, writer: &Writer, chunks: RangeInclusive<u64>) {
        let whole = writer.manifest().chunk_pages();
        self.planned
            .extend(chunks.filter(|&chunk| writer.staged_in(chunk) == whole));
    }

    /// Much is staged: if nothing is planned and one more may be under way, the chunks with the
    /// most pages are planned.
    pub fn much_is_staged(&mut self, writer: &Writer) {
        if self.planned.is_empty() && self.has_room() {
            self.planned = writer.fullest(self.most).into();
        }
    }

    /// What is planned is for the next record, which was frozen just now.
    pub fn freeze(&mut self) {
        self.wanted = std::mem::take(&mut self.planned);
    }

    /// The next record needs `chunks` first.
    pub fn want(&mut self, chunks: Vec<u64>) {
        self.wanted = chunks.into();
    }

    /// The next record holds everything again, or is there.
    pub fn thaw(&mut self) {
        self.planned.extend(self.wanted.drain(..));
    }

    /// Nothing is planned any more.
    pub fn clear(&mut self) {
        self.wanted.clear();
        self.planned.clear();
    }

    /// The next chunk of which an object is to be made of what `scope` has, and the name of that
    /// object. It is under way from now on, until [`Uploads::ended`].
    pub fn next(&mut self, writer: &mut Writer, scope: Scope) -> Option<(u64, ChunkName)> {
        if !self.has_room() {
            return None;
        }
        let planned = match scope {
            Scope::Record => &mut self.wanted,
            Scope::All => &mut self.planned,
        };
        loop {
            let chunk = planned.pop_front()?;
            let is_free = !self.under_way.contains_key(&chunk);
            if is_free && writer.has_pages_above(scope, chunk) {
                let name = writer.name(scope);
                self.under_way.insert(chunk, name);
                return Some((chunk, name));
            }
        }
    }

    fn has_room(&self) -> bool {
        self.under_way.len() < self.most
    }

    /// Whether an object is being made that the next record needs.
    pub fn are_for_record(&self, writer: &Writer) -> bool {
        let mut names = self.under_way.values();
        names.any(|&name| writer.is_for_record(name))
    }

    /// The object of `chunk` is made, or not.
    pub fn ended(&mut self, chunk: u64) {
        self.under_way.remove(&chunk);
    }
}
