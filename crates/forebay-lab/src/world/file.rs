//! Files, as processes use them: whole calls, and mappings that are touched page by page.

use super::volume::Volume;
use super::{FileSystem, Process, WorldError};
use forebay_base::PAGE_BYTES;
use forebay_base::units::{byte_of, page_of, pages_for};
use forebay_engine::File;
use forebay_rt::{Charge, Work};
use forebay_store::ObjectId;
use std::sync::Arc;

/// Most bytes that go to the engine in one call.
const CALL_BYTES: usize = 1 << 20;

/// The source of writes to pages without bytes.
static ZEROS: [u8; CALL_BYTES] = [0; CALL_BYTES];

/// Pages of a mapping that are touched for one charge.
const TOUCHED_AT_ONCE: u64 = 32;

/// The time of a process to write one word of a page that is not in its processor's caches.
pub(super) const TOUCH_WORK: Work = Work::User(forebay_base::Span::from_nanos(100));

/// A file that a process has open.
pub struct WorldFile {
    process: Process,
    file: File,
    object: ObjectId,
    volume: Arc<dyn Volume>,
    /// Where the next append goes.
    end_bytes: u64,
    /// Pages of a mapping that were touched before, one bit for each.
    touched: Vec<u64>,
    buffer: Vec<u8>,
}

impl Process {
    /// Creates an empty file on `file_system`.
    ///
    /// # Errors
    /// [`WorldError::Build`], `File`, `NoRoom`.
    pub async fn create(
        &self,
        file_system: &FileSystem,
        name: &str,
    ) -> Result<WorldFile, WorldError> {
        self.create_in(file_system, 0, name).await
    }

    /// Creates an empty file in the directory numbered `directory` of `file_system`: files of one
    /// directory lie near each other.
    ///
    /// # Errors
    /// As [`Process::create`].
    pub async fn create_in(
        &self,
        file_system: &FileSystem,
        directory: u64,
        name: &str,
    ) -> Result<WorldFile, WorldError> {
        let charge = self.charge(Work::Call);
        charge.and(Work::Create { files: 1 }).await;
        let object = file_system.volume.create(directory, name).await?;
        self.opened(file_system, object, 0)
    }

    /// Opens a file of `file_system` that was opened before. Its inode may have to be read.
    ///
    /// # Errors
    /// [`WorldError::Build`].
    pub async fn reopen(
        &self,
        file_system: &FileSystem,
        known: KnownFile,
    ) -> Result<WorldFile, WorldError> {
        file_system.volume.look_up(known.object).await?;
        self.opened(file_system, known.object, known.end_bytes)
    }

    /// Opens a file of `length_bytes` that has been there for ever.
    ///
    /// # Errors
    /// As [`Process::create`].
    pub async fn open_old(
        &self,
        file_system: &FileSystem,
        name: &str,
        length_bytes: u64,
    ) -> Result<WorldFile, WorldError> {
        self.charge(Work::Call).await;
        let object = file_system.volume.lay_out(name, length_bytes).await?;
        self.opened(file_system, object, length_bytes)
    }

    fn opened(
        &self,
        file_system: &FileSystem,
        object: ObjectId,
        length_bytes: u64,
    ) -> Result<WorldFile, WorldError> {
        let volume = file_system.volume.clone();
        let cache = self.world().cache();
        let file = cache.open(&file_system.attached, object, length_bytes)?;
        Ok(WorldFile {
            file: self.own(&file),
            process: self.clone(),
            object,
            volume,
            end_bytes: length_bytes,
            touched: Vec::new(),
            buffer: Vec::new(),
        })
    }
}

impl Process {
    /// One call that moves bytes between the process and pages.
    fn transfer_charge(&self, offset_bytes: u64, length_bytes: u64) -> Charge {
        let pages = pages_for(offset_bytes + length_bytes) - page_of(offset_bytes);
        let call = self.charge(Work::Call).and(Work::Copy { pages });
        call.and(Work::Lookup { pages })
    }
}

/// A file as it was when a process had it open.
#[derive(Clone, Copy, Debug)]
pub struct KnownFile {
    object: ObjectId,
    end_bytes: u64,
}

impl WorldFile {
    /// What is needed to open the file again.
    pub fn known(&self) -> KnownFile {
        KnownFile {
            object: self.object,
            end_bytes: self.end_bytes,
        }
    }

    /// The engine's handle.
    pub fn handle(&self) -> &File {
        &self.file
    }

    /// The same file as another process sees it.
    #[must_use]
    pub fn for_process(&self, process: &Process) -> WorldFile {
        WorldFile {
            process: process.clone(),
            file: process.own(&self.file),
            object: self.object,
            volume: self.volume.clone(),
            end_bytes: self.end_bytes,
            touched: self.touched.clone(),
            buffer: Vec::new(),
        }
    }

    /// Bytes written by this handle from the start on.
    pub fn end_bytes(&self) -> u64 {
        self.end_bytes
    }

    /// One call that writes `length_bytes` after what was written before.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub async fn append(&mut self, length_bytes: u64) -> Result<(), WorldError> {
        self.write(self.end_bytes, length_bytes).await?;
        self.end_bytes += length_bytes;
        Ok(())
    }

    /// As [`WorldFile::append`], for `calls` calls that are charged together.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub async fn append_calls(&mut self, calls: u64, length_bytes: u64) -> Result<(), WorldError> {
        let mut work = self.process.transfer_charge(self.end_bytes, length_bytes);
        for _ in 1..calls {
            work = work.and(Work::Call);
        }
        work.await;
        self.write_uncharged(self.end_bytes, length_bytes).await?;
        self.end_bytes += length_bytes;
        Ok(())
    }

    /// One call that writes `length_bytes` at `offset_bytes`.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub async fn write(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), WorldError> {
        self.process
            .transfer_charge(offset_bytes, length_bytes)
            .await;
        self.write_uncharged(offset_bytes, length_bytes).await
    }

    /// As [`WorldFile::write`], for a process that has paid for it in another way.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub async fn write_uncharged(
        &self,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<(), WorldError> {
        let end_bytes = offset_bytes + length_bytes;
        if end_bytes > self.file.len() {
            // The file system places bytes together that are announced together.
            self.volume.reaches(self.object, offset_bytes..end_bytes)?;
        }
        let mut done = 0;
        while done < length_bytes {
            let piece = (length_bytes - done).min(CALL_BYTES as u64);
            let _shield = self.process.shield();
            let bytes = &ZEROS[..piece as usize];
            self.file.write_at(bytes, offset_bytes + done).await?;
            done += piece;
        }
        Ok(())
    }

    /// One call that reads `length_bytes` at `offset_bytes`. Returns how many there were.
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub async fn read(&mut self, offset_bytes: u64, length_bytes: u64) -> Result<u64, WorldError> {
        self.process
            .transfer_charge(offset_bytes, length_bytes)
            .await;
        let wanted = (length_bytes as usize).min(CALL_BYTES);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        let mut done = 0;
        while done < length_bytes {
            let piece = (length_bytes - done).min(CALL_BYTES as u64) as usize;
            let into = &mut self.buffer[..piece];
            let read = self.file.read_at(into, offset_bytes + done).await?;
            done += read as u64;
            if read < piece {
                break;
            }
        }
        Ok(done)
    }

    /// Writes one word into each of `count` pages of a shared mapping of the file, from
    /// `first_page` on. A page that was touched before is read and checked first; one that was
    /// not is a hole and read from nowhere.
    ///
    /// # Errors
    /// As [`File::read_at`] and [`File::write_at`].
    pub async fn touch(&mut self, first_page: u64, count: u64) -> Result<(), WorldError> {
        let mut page = first_page;
        let end = first_page + count;
        while page < end {
            let behind = end.min(page + TOUCHED_AT_ONCE);
            self.touch_few(page, behind).await?;
            page = behind;
        }
        Ok(())
    }

    async fn touch_few(&mut self, first: u64, behind: u64) -> Result<(), WorldError> {
        let old = (first..behind)
            .filter(|&page| self.was_touched(page))
            .count() as u64;
        let (pages, own) = (behind - first, touch_work(behind - first));
        let charge = self.process.charge(Work::MapNew { pages: pages - old });
        charge.and(Work::MapPresent { pages: old }).and(own).await;
        let _shield = self.process.shield();
        for page in first..behind {
            let at = byte_of(page);
            if self.was_touched(page) {
                let mut word = [0; 8];
                self.file.read_at(&mut word, at).await?;
                self.file.write_at(&word, at).await?;
            } else {
                self.volume.reaches(self.object, at..byte_of(page + 1))?;
                self.file.write_at(&ZEROS[..PAGE_BYTES], at).await?;
                self.note_touched(page);
            }
        }
        Ok(())
    }

    fn was_touched(&self, page: u64) -> bool {
        let word = self.touched.get(page as usize / 64).copied().unwrap_or(0);
        word >> (page % 64) & 1 == 1
    }

    fn note_touched(&mut self, page: u64) {
        let word = page as usize / 64;
        if self.touched.len() <= word {
            self.touched.resize(word + 1, 0);
        }
        self.touched[word] |= 1 << (page % 64);
    }

    /// Returns when everything written so far is durable.
    ///
    /// # Errors
    /// As [`File::sync`].
    pub async fn sync(&self) -> Result<(), WorldError> {
        self.process.charge(Work::Call).await;
        Ok(self.file.sync().await?)
    }

    /// Makes the file `length_bytes` long; a longer one has a hole at its end.
    ///
    /// # Errors
    /// As [`File::truncate`].
    pub async fn truncate(&mut self, length_bytes: u64) -> Result<(), WorldError> {
        self.process.charge(Work::Call).await;
        self.file.truncate(length_bytes).await?;
        self.end_bytes = self.end_bytes.min(length_bytes);
        Ok(())
    }

    /// Announces that this handle writes no more.
    pub async fn close(self) {
        self.process.charge(Work::Call).await;
        self.volume.close(self.object);
    }

    /// Removes the file: its dirty pages are never written.
    ///
    /// # Errors
    /// As [`File::truncate`], and [`WorldError::File`].
    pub async fn remove(mut self) -> Result<(), WorldError> {
        self.truncate(0).await?;
        self.volume.remove(self.object).await
    }
}

/// The time of a process's own code to touch `pages` pages.
pub(super) fn touch_work(pages: u64) -> Work {
    match TOUCH_WORK {
        Work::User(span) => Work::User(span.saturating_mul(pages)),
        other => other,
    }
}
