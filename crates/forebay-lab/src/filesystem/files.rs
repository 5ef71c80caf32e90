//! What a file system remembers: its files, and where they lie.

use super::borders::{page_ceiling, page_floor};
use super::extents::{Extents, Segment};
use super::journal::{Journal, Range};
use super::settings::FileSystemSettings;
use super::space::Space;
use forebay_base::sync::Arc;
use forebay_rt::wait::Gate;
use forebay_store::ObjectId;
use std::collections::BTreeMap;
use std::ops;

/// The files of a file system, its free space and its log.
#[derive(Debug)]
pub(crate) struct Files {
    settings: FileSystemSettings,
    space: Space,
    by_object: BTreeMap<ObjectId, FileState>,
    pub(crate) journal: Journal,
    /// For each group, the cluster that has room for inodes and how many it has.
    inode_clusters: Vec<Option<(u64, u64)>>,
    next_group: usize,
    /// Inodes of files that nobody uses, in the order in which their pages went.
    ///
    /// invariant IN1: a file is here once, at the place that it records, or it is not here and
    /// records place 0; a file that is here has its inode in memory.
    retired: BTreeMap<u64, ObjectId>,
    last_place: u64,
}

#[derive(Debug)]
struct FileState {
    group: usize,
    extents: Extents,
    inode_cluster: u64,
    /// The file is known to be this long, written or not, without a gap from here on.
    known_end: u64,
    known_from: u64,
    /// Nothing past this was written to the device.
    written_end: u64,
    is_open: bool,
    /// Its place among the retired inodes; 0 for none.
    retired_place: u64,
    /// Its inode was given up: who opens it has to read it.
    is_inode_gone: bool,
}

/// No space is free for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Files {
    /// An empty file system in `length_bytes` from `start_bytes` on, the log in the middle.
    pub(crate) fn new(start_bytes: u64, length_bytes: u64, settings: FileSystemSettings) -> Files {
        let mut space = Space::new(start_bytes, length_bytes, settings.groups);
        let wanted = settings.log_bytes_in(length_bytes);
        let middle = start_bytes + page_floor(length_bytes / 2);
        let log = (wanted > 0)
            .then(|| space.take_at(middle, wanted))
            .flatten();
        let (log_start, log_bytes) = log.unwrap_or((start_bytes, 0));
        Files {
            journal: Journal::new(log_start, log_bytes, &settings),
            inode_clusters: vec![None; space.groups()],
            space,
            by_object: BTreeMap::new(),
            next_group: 0,
            retired: BTreeMap::new(),
            last_place: 0,
            settings,
        }
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.space.free_bytes()
    }

    pub(crate) fn extents_of(&self, object: ObjectId) -> usize {
        let file = self.by_object.get(&object);
        file.map_or(0, |file| file.extents.count())
    }

    /// Makes `object` a file of the directory `directory`, if it is not one. Full log buffers go
    /// to `log`.
    pub(crate) fn create(
        &mut self,
        object: ObjectId,
        directory: u64,
        log: &mut Vec<Range>,
    ) -> Result<(), Full> {
        if self.by_object.contains_key(&object) {
            return Ok(());
        }
        let group = (directory % self.space.groups() as u64) as usize;
        let inode_cluster = self.place_inode(group)?;
        self.by_object.insert(
            object,
            FileState {
                group,
                extents: Extents::default(),
                inode_cluster,
                known_end: 0,
                known_from: 0,
                written_end: 0,
                is_open: true,
                retired_place: 0,
                is_inode_gone: false,
            },
        );
        self.journal.note(self.settings.log_of_file_bytes, log);
        self.journal.change(inode_cluster, object);
        Ok(())
    }

    /// The cluster for one more inode of the group.
    fn place_inode(&mut self, group: usize) -> Result<u64, Full> {
        let capacity = self.settings.inodes_of_cluster();
        if let Some((cluster, inodes)) = &mut self.inode_clusters[group]
            && *inodes < capacity
        {
            *inodes += 1;
            return Ok(*cluster);
        }
        let bytes = page_ceiling(self.settings.inode_cluster_bytes);
        let (cluster, taken) = self.space.take(group, None, bytes).ok_or(Full)?;
        if taken < bytes {
            self.space.give_back(cluster, taken);
            return Err(Full);
        }
        self.inode_clusters[group] = Some((cluster, 1));
        Ok(cluster)
    }

    /// The file; if nobody created it, it begins to exist in a directory of its own.
    fn file(&mut self, object: ObjectId, log: &mut Vec<Range>) -> Result<&mut FileState, Full> {
        if !self.by_object.contains_key(&object) {
            let directory = self.next_group as u64;
            self.next_group += 1;
            self.create(object, directory, log)?;
        }
        Ok(self
            .by_object
            .get_mut(&object)
            .expect("it was just created"))
    }

    /// A writer to the cache announces that the file will have these bytes. Without delayed
    /// allocation, the added bytes get their place now.
    pub(crate) fn reaches(
        &mut self,
        object: ObjectId,
        bytes: ops::Range<u64>,
        log: &mut Vec<Range>,
    ) -> Result<(), Full> {
        let delays = self.settings.delays_allocation;
        let file = self.file(object, log)?;
        let (from, end) = (file.known_end, bytes.end);
        if end <= from {
            return Ok(());
        }
        file.known_end = end;
        if page_floor(bytes.start) > page_ceiling(from) {
            file.known_from = page_floor(bytes.start);
        }
        if delays {
            return Ok(());
        }
        let from = page_floor(from);
        self.place(object, from, page_ceiling(end), log)
    }

    /// Nobody writes the file any more: the space past its end is freed.
    pub(crate) fn close(&mut self, object: ObjectId) {
        let Some(file) = self.by_object.get_mut(&object) else {
            return;
        };
        file.is_open = false;
        if file.known_end > 0 {
            let end = page_ceiling(file.known_end);
            for (start, length) in file.extents.remove(end, u64::MAX) {
                self.space.give_back(start, length);
            }
        }
    }

    /// Where the pages of a write go. Those that have no place get one.
    pub(crate) fn for_write(
        &mut self,
        object: ObjectId,
        from: u64,
        to: u64,
        log: &mut Vec<Range>,
    ) -> Result<Vec<Segment>, Full> {
        let copies = self.settings.copies_on_write;
        let file = self.file(object, log)?;
        let again = to.min(file.written_end);
        let (grows, cluster) = (to > file.written_end, file.inode_cluster);
        file.written_end = file.written_end.max(to);
        let mut left = Vec::new();
        if copies && from < again {
            left = file.extents.remove(from, again);
        }
        if grows {
            // Its size on the device.
            self.journal.change(cluster, object);
        }
        let placed = self.place(object, from, to, log);
        // Only now, because the new place must not be the old one.
        for (start, length) in left {
            self.space.give_back(start, length);
        }
        placed?;
        Ok(self.segments(object, from, to))
    }

    /// Where the range of the file lies.
    pub(crate) fn segments(&self, object: ObjectId, from: u64, to: u64) -> Vec<Segment> {
        let hole = || {
            vec![Segment {
                offset: from,
                length: to - from,
                start: None,
            }]
        };
        let file = self.by_object.get(&object);
        file.map_or_else(hole, |file| file.extents.segments(from, to))
    }

    /// Gives every hole of the range a place. With delayed allocation all that waits before the
    /// range gets a place too, so a page that is written out of turn lies where it would have in
    /// turn.
    fn place(
        &mut self,
        object: ObjectId,
        from: u64,
        to: u64,
        log: &mut Vec<Range>,
    ) -> Result<(), Full> {
        let settings = &self.settings;
        let file = self.by_object.get_mut(&object).expect("a file is placed");
        for hole in file.extents.segments(from, to) {
            if hole.start.is_some() {
                continue;
            }
            let whole = file.extents.hole_around(hole.offset);
            let waits_from = whole.start.max(file.known_from);
            let mut offset = if settings.delays_allocation && hole.offset < file.known_end {
                waits_from.min(hole.offset)
            } else {
                hole.offset
            };
            let end = hole.offset + hole.length;
            self.journal.change(file.inode_cluster, object);
            while offset < end {
                let goal = file.extents.goal(offset);
                let wanted = wanted_bytes(settings, file, offset, end);
                let wanted = wanted.min(whole.end - offset);
                let taken = self.space.take(file.group, goal, wanted);
                let (start, length) = taken.ok_or(Full)?;
                file.extents.add(offset, start, length);
                offset += length;
                self.journal.note(settings.log_of_extent_bytes, log);
            }
        }
        Ok(())
    }

    /// Takes the range away from the file.
    pub(crate) fn punch(&mut self, object: ObjectId, from: u64, to: u64, log: &mut Vec<Range>) {
        let Some(file) = self.by_object.get_mut(&object) else {
            return;
        };
        let freed = file.extents.remove(from, to);
        if !freed.is_empty() {
            self.journal.note(self.settings.log_of_extent_bytes, log);
        }
        for (start, length) in freed {
            self.space.give_back(start, length);
        }
    }

    /// Cuts the file off at `end`.
    pub(crate) fn cut(&mut self, object: ObjectId, end: u64, log: &mut Vec<Range>) {
        if let Some(file) = self.by_object.get_mut(&object) {
            file.known_end = file.known_end.min(end);
            file.known_from = file.known_from.min(end);
            file.written_end = file.written_end.min(end);
        }
        self.punch(object, page_ceiling(end), u64::MAX, log);
    }

    /// Removes the file.
    pub(crate) fn remove(&mut self, object: ObjectId, log: &mut Vec<Range>) {
        self.cut(object, 0, log);
        let Some(file) = self.by_object.remove(&object) else {
            return;
        };
        self.retired.remove(&file.retired_place);
        self.journal.note(self.settings.log_of_file_bytes, log);
        self.journal.change(file.inode_cluster, object);
    }

    /// The file has always been there as it is.
    pub(crate) fn forget_change(&mut self, object: ObjectId) {
        if let Some(file) = self.by_object.get(&object) {
            self.journal.forget_change(file.inode_cluster, object);
        }
    }

    /// Inodes that could be given up.
    pub(crate) fn retired_count(&self) -> u64 {
        self.retired.len() as u64
    }

    /// Nobody uses the inode of `object` any more.
    pub(crate) fn retire(&mut self, object: ObjectId) {
        let Some(file) = self.by_object.get_mut(&object) else {
            return;
        };
        if file.retired_place == 0 && !file.is_inode_gone {
            self.last_place += 1;
            file.retired_place = self.last_place;
            self.retired.insert(self.last_place, object);
        }
    }

    /// Somebody opens `object`. Returns the cluster that has to be read for its inode.
    pub(crate) fn look_up(&mut self, object: ObjectId) -> Option<Range> {
        let file = self.by_object.get_mut(&object)?;
        self.retired
            .remove(&std::mem::take(&mut file.retired_place));
        let is_gone = std::mem::take(&mut file.is_inode_gone);
        is_gone.then_some((file.inode_cluster, self.settings.inode_cluster_bytes))
    }

    /// Gives up to `count` retired inodes up, the oldest first, up to one that is being
    /// written.
    pub(crate) fn give_up(&mut self, count: u64) -> (u64, Option<Arc<Gate>>) {
        for gone in 0..count {
            let Some(oldest) = self.retired.first_entry() else {
                return (gone, None);
            };
            let object = *oldest.get();
            let Some(file) = self.by_object.get_mut(&object) else {
                unreachable!("invariant IN1: a removed file leaves the list");
            };
            if let Some(writing) = self.journal.unwritten(file.inode_cluster, object) {
                return (gone, Some(writing));
            }
            file.retired_place = 0;
            file.is_inode_gone = true;
            oldest.remove();
        }
        (count, None)
    }
}

/// How much a file gets at `offset`, of which it needs the bytes up to `end`.
fn wanted_bytes(settings: &FileSystemSettings, file: &FileState, offset: u64, end: u64) -> u64 {
    let needed = end - offset;
    // As much as is known to come; otherwise as much as there is already.
    let ahead = if file.known_end > end {
        page_ceiling(file.known_end) - offset
    } else {
        offset
    };
    let ahead = ahead.clamp(
        settings.least_allocation_bytes,
        settings.largest_allocation_bytes,
    );
    let is_last = !file.is_open && file.known_end <= end;
    if is_last { needed } else { needed.max(ahead) }
}
