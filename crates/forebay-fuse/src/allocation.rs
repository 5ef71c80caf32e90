//! Room in the source for what is taken into memory.
//!
//! A write is answered long before the source has it, so its file system is asked for room first.
//! While that has more room than what is dirty can need, one question is enough for many writes.
//! Near its end what is dirty is written, and the room of each further write is allocated in the
//! source before the write is answered. What neither tells beforehand, as a quota, fails later: a
//! close or a sync reports it, and from then on each write is asked about
//! ([decision](../../../docs/decisions/mount.md#room-in-the-source)).

use crate::content::Content;
use crate::fd_cache::InodeFd;
use crate::handles::OpenFile;
use crate::inode::Inode;
use crate::losses::name_of;
use crate::parts::Allocation;
use crate::reaper::RETIRING;
use crate::room::{Counts, ENOUGH_BYTES, Room, Shortage};
use forebay_base::PAGE_BYTES;
use forebay_base::sync::{Arc, atomic::Ordering, lock};
use forebay_rt::say;
use forebay_store::LentFile;
use rustix::fd::AsFd;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

impl Allocation {
    fn room_of<'a>(&self, content: &'a Content) -> &'a Arc<Room> {
        content.room.get_or_init(|| self.rooms.of(content.device))
    }

    /// How many of `length_bytes` from `offset_bytes` on the source has room for, at least one if
    /// any are wanted. The caller may have to wait until what is dirty is written. What the kernel
    /// has returned is taken in any case: the program that stored it is past hearing.
    ///
    /// # Errors
    /// [`Errno::NOSPC`], [`Errno::DQUOT`], or what else the source says.
    pub(crate) fn room_for(
        &self,
        open: &OpenFile,
        offset_bytes: u64,
        length_bytes: usize,
        is_returned: bool,
    ) -> Result<usize, Errno> {
        let content = &open.used.content;
        let room = self.room_of(content);
        let wanted = length_bytes as u64;
        if wanted == 0 || is_returned || room.take(wanted) {
            return Ok(length_bytes);
        }
        let file = self.source.files.lend(content.object).ok_or(Errno::STALE)?;
        if room.has_plenty(self.spare_bytes(room, &file), wanted) {
            self.room_came_back(room);
            return Ok(length_bytes);
        }
        self.enter_tight(room, content.device);
        let granted = self.allocate_room(&file, open, offset_bytes, wanted);
        match granted {
            Ok(granted) => Ok(granted as usize),
            Err(errno) => {
                self.refuse(room, &open.used.inode, wanted, errno);
                Err(errno)
            }
        }
    }

    /// The room that the file system of `file` has once all that is dirty is written. What is dirty
    /// may have its room already.
    fn spare_bytes(&self, room: &Room, file: impl AsFd) -> u64 {
        let counts = room.counts(&file);
        let system = match rustix::fs::fstatvfs(&file) {
            Ok(system) if system.f_blocks > 0 => system,
            // It does not say; then it says it when it is written to.
            _ => return u64::MAX,
        };
        // What is kept for root, if we are that, is found by allocating it.
        let dirty_bytes = self.cache.statistics().dirty() * PAGE_BYTES as u64;
        let free_bytes = system.f_bavail.saturating_mul(system.f_frsize);
        room.spare_of(free_bytes, dirty_bytes, counts)
    }

    /// Writes what is dirty in the file system `device`, unless that was done since it is near its
    /// end: then its own numbers say what is left.
    fn enter_tight(&self, room: &Room, device: u64) {
        if room.is_tight.load(Ordering::Acquire) {
            return;
        }
        let _permit = forebay_rt::block_on(room.entering.acquire(1));
        if room.is_tight.load(Ordering::Acquire) {
            return;
        }
        room.credit_bytes.store(0, Ordering::Relaxed);
        let is_written = self.write_out(device);
        room.is_strict.fetch_or(!is_written, Ordering::Relaxed);
        room.is_tight.store(true, Ordering::Release);
    }

    /// Writes what is dirty in the file system `device`, and returns whether that took all of it.
    fn write_out(&self, device: u64) -> bool {
        let is_meant = |inode: &Arc<Inode>| {
            let content = inode.content.get();
            content.is_some_and(|it| it.device == device && it.is_dirty())
        };
        let mut inodes = self.source.inodes.all();
        inodes.retain(is_meant);
        // The cache reports what failed to those who wrote it.
        let written = inodes.chunks(RETIRING);
        let written = written.flat_map(|some| self.source.sync_side_by_side(some));
        // Each of them is tried, whatever became of those before it.
        written.filter(|is_written| !is_written).count() == 0
    }

    /// Allocates room in the source for as much as it has of `wanted` bytes from `offset_bytes` on.
    fn allocate_room(
        &self,
        file: &LentFile,
        open: &OpenFile,
        offset_bytes: u64,
        wanted: u64,
    ) -> Result<u64, Errno> {
        let content = &open.used.content;
        let page = PAGE_BYTES as u64;
        let start = offset_bytes / page * page;
        let mut granted = wanted;
        loop {
            let end = (offset_bytes + granted).next_multiple_of(page);
            let allocated = if self.room_of(content).counts(file) == Counts::InParts {
                Err(Errno::OPNOTSUPP)
            } else {
                let keeps_size = FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(file, keeps_size, start, end - start)
            };
            match allocated {
                Ok(()) => {
                    // It has another time of change now.
                    content.mark_modified();
                    return Ok(granted);
                }
                Err(Errno::NOSPC | Errno::DQUOT) if granted > page => {
                    granted = granted.div_ceil(2);
                }
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    return self.counted_room(file, content, wanted);
                }
                Err(errno) => return Err(errno),
            }
        }
    }

    /// As much of `wanted` bytes as is left by the numbers of a file system that allocates nothing
    /// beforehand.
    fn counted_room(&self, file: &LentFile, content: &Content, wanted: u64) -> Result<u64, Errno> {
        let room = self.room_of(content);
        // What copies on write needs room for the books of what it writes.
        let books = if room.counts(file) == Counts::InParts {
            ENOUGH_BYTES
        } else {
            0
        };
        let is_short = self.spare_bytes(room, file) < wanted + books;
        if is_short || room.is_strict.load(Ordering::Relaxed) {
            // Its numbers promise more than it has, or are nearly used up; they are right once all
            // is durable. What fails is found by the writing.
            let granted_bytes = room.granted_bytes();
            let is_written = self.write_out(content.device) && rustix::fs::syncfs(file).is_ok();
            if is_written {
                room.counted(granted_bytes);
            }
            room.is_strict.store(!is_written, Ordering::Relaxed);
            if !is_written {
                let known = lock(&room.shortage).as_ref().map(|it| it.errno);
                return Err(known.unwrap_or(Errno::NOSPC));
            }
        }
        let spare_bytes = self.spare_bytes(room, file).saturating_sub(books);
        match spare_bytes.min(wanted) {
            0 => Err(Errno::NOSPC),
            granted => {
                room.grant(granted);
                Ok(granted)
            }
        }
    }

    fn refuse(&self, room: &Room, inode: &Arc<Inode>, bytes: u64, errno: Errno) {
        self.rooms.refused_writes.fetch_add(1, Ordering::Relaxed);
        self.rooms.refused_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.begin_shortage(room, inode, errno);
        if let Some(shortage) = &mut *lock(&room.shortage) {
            shortage.refused_writes += 1;
        }
    }

    fn begin_shortage(&self, room: &Room, inode: &Arc<Inode>, errno: Errno) {
        let begun = Shortage {
            errno,
            refused_writes: 0,
            witness: inode.id,
        };
        {
            let mut shortage = lock(&room.shortage);
            if let Some(known) = &mut *shortage {
                if self.source.inodes.get(known.witness).is_none() {
                    known.witness = begun.witness;
                }
                return;
            }
            *shortage = Some(begun);
        }
        let (lacks, remedy) = if errno == Errno::DQUOT {
            ("the quota is used up for", "raise it, or remove files")
        } else {
            ("no room is left for", "make room")
        };
        say(format_args!(
            "{}: {lacks} {} (error {}): writes that need more are refused, and accepted \
             data is kept and tried again; {remedy} there",
            self.rooms.source.display(),
            name_of(inode).display(),
            errno.raw_os_error(),
        ));
        // It looks whether there is room again.
        self.source.reaper.news.wake_all();
    }

    /// Takes note of an error that a close or a sync reports: where the source refused what it
    /// seemed to have room for, each write is asked about from now on.
    pub(crate) fn record_failure(&self, open: &OpenFile, errno: Errno) {
        if !matches!(errno, Errno::NOSPC | Errno::DQUOT) {
            return;
        }
        let room = self.room_of(&open.used.content);
        room.is_strict.store(true, Ordering::Relaxed);
        room.credit_bytes.store(0, Ordering::Relaxed);
        self.begin_shortage(room, &open.used.inode, errno);
    }

    /// Looks whether file systems that had no room have some again.
    pub(crate) fn look_for_room(&self) {
        for room in self.rooms.short() {
            let witness = lock(&room.shortage).as_ref().map(|it| it.witness);
            let inode = witness.and_then(|witness| self.source.inodes.get(witness));
            let held = inode.and_then(|inode| self.source.hold(&inode).ok());
            let granted_bytes = room.granted_bytes();
            let is_clean = self.cache.statistics().dirty() == 0;
            if is_clean
                && held
                    .as_ref()
                    .is_some_and(|it| rustix::fs::syncfs(it).is_ok())
            {
                room.counted(granted_bytes);
            }
            let may_be_back = room.may_be_back(is_clean);
            // Where the witness is gone, the next write asks.
            if may_be_back && held.is_none_or(|held| self.has_enough(&room, &held)) {
                self.room_came_back(&room);
            }
        }
    }

    fn has_enough(&self, room: &Room, held: &InodeFd) -> bool {
        self.spare_bytes(room, held) >= ENOUGH_BYTES
    }

    fn room_came_back(&self, room: &Room) {
        let Some(shortage) = lock(&room.shortage).take() else {
            return;
        };
        say(format_args!(
            "{}: there is room again; {} writes were refused",
            self.rooms.source.display(),
            shortage.refused_writes,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestFolder, until};
    use forebay_rt::block_on;
    use forebay_store::{Failure, Fault, FaultAction, IoKind};

    /// The file by which it was found may be removed, and a store without a quota says "no room".
    #[test]
    fn what_a_shortage_is_refused_with_outlives_its_witness() {
        let bench = TestFolder::new();
        let folder = &bench.folder;
        let open = bench.create("dirty", 0o600);
        let refuses = FaultAction::Fail(Failure::OverQuota);
        bench.faults.inject(Fault::each(IoKind::Write, refuses));
        folder
            .open_files
            .write(&open, &[7; 4096], 0, false)
            .unwrap();
        folder.allocation.record_failure(&open, Errno::DQUOT);
        let room = folder.allocation.room_of(&open.used.content);
        let lose_witness = || {
            let mut shortage = lock(&room.shortage);
            shortage.as_mut().unwrap().witness = 0;
        };
        lose_witness();
        folder.allocation.look_for_room();
        let known = lock(&room.shortage).as_ref().map(|it| it.errno);
        assert_eq!(
            known,
            Some(Errno::DQUOT),
            "something is still to be written"
        );
        folder.allocation.record_failure(&open, Errno::NOSPC);
        let known = lock(&room.shortage).clone().unwrap();
        assert_eq!(known.errno, Errno::DQUOT, "it is the same shortage");
        assert!(
            folder.source.inodes.get(known.witness).is_some(),
            "with another witness"
        );
        bench.faults.clear();
        block_on(open.used.content.file.sync()).ok();
        until("all is written", || bench.cache.statistics().dirty() == 0);
        lose_witness();
        folder.allocation.look_for_room();
        assert!(!folder.allocation.rooms.is_short(), "the next write asks");
        drop(open);
        block_on(bench.cache.close()).unwrap();
    }
}
