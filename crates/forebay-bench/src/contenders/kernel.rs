//! The kernel's page cache: buffered files by ordinary system calls, and by io_uring where many
//! requests are in flight.

use super::floor::{RawRing, read_missing};
use crate::contender::{
    Contender, Load, PagedFile, Phase, Preparation, RUN_PAGES, Sample, Step, Who, page_slices,
};
use crate::error::BenchError;
use crate::layout::{COMMIT_BYTES, Layout, stamp_pages};
use crate::measure::{AlignedBytes, storage_read_bytes};
use crate::memory_group::own_dirty_pages;
use crate::phases::commit::DurableFile;
use crate::phases::miss::MissOrder;
use crate::phases::mix::HotPages;
use crate::phases::slow::{DirtyLevel, SlowDisk};
use crate::phases::{cached, commit, mix, mixed, order, slow, stream};
use crate::zipf::permutation;
use forebay_base::PAGE_BYTES;
use forebay_host::SlowDevice;
use rustix::fs::{Advice, fadvise};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// The contender that is the kernel.
pub(crate) struct Kernel {
    layout: Layout,
    /// The cached sets of the phases hit and dirty, or the files of the phase commit.
    sets: Vec<BufferedFile>,
    data: Option<BufferedFile>,
    slow: Option<(BufferedFile, SlowDevice)>,
    order: MissOrder,
    hot_pages: HotPages,
}

impl Kernel {
    pub(crate) fn new(layout: Layout, seed: u64) -> Kernel {
        let order = MissOrder::new(layout.data_pages(), seed);
        Kernel {
            layout,
            sets: Vec::new(),
            data: None,
            slow: None,
            order,
            hot_pages: HotPages::default(),
        }
    }

    /// Closes all files, and drops their pages.
    fn leave(&mut self) -> Result<(), BenchError> {
        for file in self.sets.drain(..).chain(self.data.take()) {
            file.drop_pages()?;
        }
        if let Some((file, device)) = self.slow.take() {
            // Pages that are dirty for the slow disk would otherwise be written while others are
            // measured.
            device.lift()?;
            file.drop_pages()?;
        }
        Ok(())
    }

    /// Opens the cached set and brings it into the page cache. For overwrites it is written page by
    /// page in random order, which leaves it in small folios: overwriting 4 KiB of a large folio
    /// costs the kernel thirty times as much, and the comparison would be unfair.
    fn open_sets(&mut self, preparation: &Preparation) -> Result<(), BenchError> {
        for path in self.layout.own_files(Who::Kernel, preparation) {
            let file = BufferedFile::open(&path)?;
            if preparation.phase == Phase::Dirty {
                file.write_in_small_folios(self.layout.set_pages() / preparation.set_files)?;
            } else {
                file.read_through()?;
            }
            self.sets.push(file);
        }
        Ok(())
    }

    fn open_slow(&mut self, preparation: &Preparation) -> Result<(), BenchError> {
        if let Some(device) = &preparation.slow_device {
            device.throttle()?;
            let file = BufferedFile::open(&device.device)?;
            self.slow = Some((file, device.clone()));
        }
        Ok(())
    }

    fn data(&self) -> Result<BufferedFile, BenchError> {
        match &self.data {
            Some(file) => Ok(file.clone()),
            None => BufferedFile::open(&self.layout.data_file()),
        }
    }

    fn use_cached(&self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let handles = (0..step.threads as usize)
            .map(|thread| self.sets[thread % self.sets.len()].clone())
            .collect();
        let file_pages = self.layout.used_pages(step.load) / step.files;
        cached::run(Who::Kernel, handles, file_pages, step).map(|(_, samples)| samples)
    }

    fn read_missing(&mut self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let data = self.data()?;
        let mut ring = RawRing::new(step.depth, PAGE_BYTES)?;
        read_missing(Who::Kernel, &mut ring, &data.file, &mut self.order, step)
    }

    fn stream(&mut self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let data = self.data()?;
        let handles = vec![data.clone(); step.threads as usize];
        let samples = stream::run(handles, step, || data.sync())?;
        // The next contender writes the same file directly and must not pay for pages left here.
        data.drop_pages()?;
        Ok(samples)
    }

    fn read_in_order(&self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let data = self.data()?;
        data.drop_pages()?;
        order::run(Who::Kernel, vec![data; step.threads as usize], step)
    }

    fn mixed(&self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let data = self.data()?;
        let handles = vec![data.clone(); step.threads as usize];
        let pages = self.layout.data_pages();
        mixed::run(Who::Kernel, handles, pages, step, || data.sync())
    }

    fn commit(&self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let handles = (0..step.threads as usize)
            .map(|thread| self.sets[thread % step.files as usize].clone())
            .collect();
        commit::run(handles, COMMIT_BYTES, step)
    }

    fn write_slowly(&mut self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let Some((file, device)) = &self.slow else {
            return Ok(Vec::new());
        };
        let handles = vec![file.clone(); step.threads as usize];
        let mut disk = SlowKernelDisk(device.clone());
        slow::run(handles, self.layout.data_bytes(), step, &mut disk)
    }

    fn read_zipf(&mut self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let zipf = self.hot_pages.among(self.layout.data_pages());
        let mut data = self.data()?;
        let before = storage_read_bytes();
        let read = mix::alone(Who::Kernel, &mut data, &zipf, step)?;
        let mut samples = read.samples();
        if let (Some(before), Some(after)) = (before, storage_read_bytes()) {
            samples.push(read.hit_ratio((after - before) / PAGE_BYTES as u64));
        }
        Ok(samples)
    }

    fn read_zipf_beside_writer(&mut self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let zipf = self.hot_pages.among(self.layout.data_pages());
        let mut data = self.data()?;
        let Some((file, device)) = self.slow.clone() else {
            return Ok(Vec::new());
        };
        let reader = mix::Reader {
            file: &mut data,
            zipf: &zipf,
        };
        let writer = mix::Writer {
            file,
            bytes: self.layout.data_bytes(),
        };
        mix::beside_writer(Who::Kernel, reader, writer, step, || Ok(device.lift()?))
    }
}

impl Contender for Kernel {
    fn prepare(&mut self, preparation: &Preparation) -> Result<Vec<String>, BenchError> {
        self.leave()?;
        let mut remarks = Vec::new();
        match preparation.phase {
            Phase::Hit | Phase::Dirty | Phase::Commit => self.open_sets(preparation)?,
            Phase::Stream => self.data = Some(self.data()?),
            Phase::Order => {
                let data = self.data()?;
                remarks.extend(data.readahead_remark());
                self.data = Some(data);
            }
            Phase::Mixed => {
                let path = self.layout.mixed_file(Who::Kernel);
                self.data = Some(BufferedFile::open(&path)?);
            }
            Phase::Miss => {
                // With its memory full from the start, every page that comes in costs one.
                BufferedFile::open(&self.layout.set_file(Who::Kernel, 0, 1))?.read_through()?;
                let data = self.data()?;
                data.expect_random_reads()?;
                self.data = Some(data);
            }
            Phase::Slow | Phase::Mix => {
                let data = self.data()?;
                data.expect_random_reads()?;
                self.data = Some(data);
                self.open_slow(preparation)?;
                if self.slow.is_some() {
                    remarks.push("kernel: the slow disk is a loop device with a throttle".into());
                }
            }
            _ => {}
        }
        if preparation.phase == Phase::Dirty {
            remarks.push("kernel: its set is cached in small folios".into());
        }
        Ok(remarks)
    }

    fn run(&mut self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        if step.phase == Phase::Growth {
            return Ok(Vec::new());
        }
        match step.load {
            Load::ReadByCopy
            | Load::ReadVectored
            | Load::ReadBatch
            | Load::ReadByGuard
            | Load::Overwrite => self.use_cached(step),
            Load::ReadMissing => self.read_missing(step),
            Load::ReadInOrder => self.read_in_order(step),
            Load::WarmRandom
            | Load::ReadRandom
            | Load::OverwriteRandom
            | Load::ReadAndOverwriteRandom => self.mixed(step),
            Load::WriteStream => self.stream(step),
            Load::CommitOverwrites | Load::CommitAppends => self.commit(step),
            Load::WriteSlowly => self.write_slowly(step),
            Load::WarmZipf => {
                let zipf = self.hot_pages.among(self.layout.data_pages());
                let handles = vec![self.data()?; step.threads as usize];
                mix::warm(Who::Kernel, handles, &zipf, step)?;
                Ok(Vec::new())
            }
            Load::ReadZipf => self.read_zipf(step),
            Load::ReadMissingByTasks | Load::OverwriteByTasks | Load::Account => Ok(Vec::new()),
            Load::ReadZipfBesideWriter => self.read_zipf_beside_writer(step),
        }
    }
}

struct SlowKernelDisk(SlowDevice);

impl SlowDisk for SlowKernelDisk {
    fn level(&mut self) -> Result<DirtyLevel, BenchError> {
        let failed = || {
            let action = "read the dirty pages of the cgroup";
            BenchError::system(action)(io::ErrorKind::Unsupported.into())
        };
        Ok(DirtyLevel {
            dirty_pages: own_dirty_pages().ok_or_else(failed)?,
            ..DirtyLevel::default()
        })
    }

    fn release(&mut self) -> Result<(), BenchError> {
        Ok(self.0.lift()?)
    }
}

/// A file through the kernel's page cache.
#[derive(Clone)]
struct BufferedFile {
    file: Arc<File>,
    path: Arc<Path>,
}

impl BufferedFile {
    fn open(path: &Path) -> Result<BufferedFile, BenchError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(BenchError::in_scratch("open", path))?;
        Ok(BufferedFile {
            file: Arc::new(file),
            path: path.into(),
        })
    }

    /// `error` as an error of this file. Call it only if there is one, because it copies the path.
    fn failed(&self, action: &'static str, error: impl Into<io::Error>) -> BenchError {
        BenchError::in_scratch(action, &self.path)(error.into())
    }

    fn expect_random_reads(&self) -> Result<(), BenchError> {
        fadvise(&*self.file, 0, None, Advice::Random)
            .map_err(|refused| self.failed("advise on", refused))
    }

    /// How far the system reads ahead of a reader in order, if it reports that.
    fn readahead_remark(&self) -> Option<String> {
        let device = self.file.metadata().ok()?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
        let kib = std::fs::read_to_string(setting).ok()?;
        Some(format!(
            "kernel: the disk's readahead is {} KiB",
            kib.trim()
        ))
    }

    fn sync(&self) -> Result<(), BenchError> {
        self.file
            .sync_data()
            .map_err(|refused| self.failed("sync", refused))
    }

    /// Writes back the pages of the file and drops them from the page cache.
    fn drop_pages(&self) -> Result<(), BenchError> {
        self.sync()?;
        fadvise(&*self.file, 0, None, Advice::DontNeed)
            .map_err(|refused| self.failed("drop the pages of", refused))
    }

    fn read_through(&self) -> Result<(), BenchError> {
        self.drop_pages()?;
        let mut chunk = vec![0_u8; 1 << 20];
        let mut file = &*self.file;
        file.rewind()
            .map_err(|refused| self.failed("read", refused))?;
        while file
            .read(&mut chunk)
            .map_err(|refused| self.failed("read", refused))?
            > 0
        {}
        Ok(())
    }

    fn write_in_small_folios(&self, pages: u64) -> Result<(), BenchError> {
        self.drop_pages()?;
        let mut page = AlignedBytes::new(PAGE_BYTES, PAGE_BYTES);
        for page_index in permutation(pages, 1) {
            let offset_bytes = u64::from(page_index) * PAGE_BYTES as u64;
            stamp_pages(&mut page, offset_bytes);
            self.file
                .write_all_at(&page, offset_bytes)
                .map_err(|refused| self.failed("write", refused))?;
        }
        self.sync()
    }
}

impl PagedFile for BufferedFile {
    fn read_at(&mut self, buffer: &mut [u8], offset_bytes: u64) -> Result<(), BenchError> {
        self.file
            .read_exact_at(buffer, offset_bytes)
            .map_err(|refused| self.failed("read", refused))
    }

    fn read_run(&mut self, buffers: &mut [u8], offset_bytes: u64) -> Result<(), BenchError> {
        let mut slices = page_slices(buffers);
        let read = rustix::io::preadv(&*self.file, &mut slices, offset_bytes)
            .map_err(|refused| self.failed("read", refused))?;
        if read == RUN_PAGES * PAGE_BYTES {
            return Ok(());
        }
        Err(self.failed("read", io::ErrorKind::UnexpectedEof))
    }

    fn touch(&mut self, _: u64) -> Result<Option<u64>, BenchError> {
        Ok(None)
    }

    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> Result<(), BenchError> {
        self.file
            .write_all_at(bytes, offset_bytes)
            .map_err(|refused| self.failed("write", refused))
    }
}

impl DurableFile for BufferedFile {
    fn commit(&mut self, bytes: &[u8], offset_bytes: u64) -> Result<(), BenchError> {
        self.write_at(bytes, offset_bytes)?;
        self.sync()
    }

    fn cut(&mut self, length_bytes: u64) -> Result<(), BenchError> {
        self.file
            .set_len(length_bytes)
            .map_err(|refused| self.failed("cut", refused))
    }
}

#[cfg(test)]
#[path = "kernel_tests.rs"]
mod tests;
