//! Random operations on one file of a mount, through several handles and mappings, checked against
//! an array of bytes. The server is a separate process: a page fault of the process that serves it
//! could wait for itself.
//!
//! The seed is printed; `FOREBAY_SEED=N` runs only that one.

#[path = "serve_nbd/lifetime.rs"]
mod lifetime;
#[path = "mount_model/mapping.rs"]
mod mapping;
#[path = "mount_model/mounted.rs"]
mod mounted;

use forebay_base::Prng;
use mapping::Mapping;
use mounted::{Mounted, is_left_out};
use rustix::fs::FallocateFlags;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The parameters of a run.
#[derive(Clone, Copy)]
struct Plan {
    seed: u64,
    memory_bytes: u64,
    longest_bytes: u64,
    piece_bytes: u64,
    operations: u64,
}

/// A file and its expected content.
struct Run {
    plan: Plan,
    mounted: Mounted,
    chance: Prng,
    handles: Vec<File>,
    model: Vec<u8>,
    step: u64,
}

impl Run {
    fn new(plan: Plan) -> Run {
        let mounted = Mounted::start(plan.memory_bytes);
        let handles = (0..3).map(|_| open(&mounted)).collect();
        Run {
            plan,
            mounted,
            chance: Prng::from_seed(plan.seed),
            handles,
            model: Vec::new(),
            step: 0,
        }
    }

    /// A range that may start anywhere in the longest file, now and then at borders of pages.
    fn range(&mut self) -> (usize, usize) {
        let mut offset = self.chance.below(self.plan.longest_bytes);
        let mut length = 1 + self.chance.below(self.plan.piece_bytes);
        if self.chance.below(4) == 0 {
            offset &= !4095;
            length = length.next_multiple_of(4096);
        }
        let length = length.min(self.plan.longest_bytes - offset);
        (offset as usize, length as usize)
    }

    /// A range within the file, if it has bytes.
    fn range_inside(&mut self) -> Option<(usize, usize)> {
        let (offset, length) = self.range();
        if offset >= self.model.len() {
            return None;
        }
        Some((offset, length.min(self.model.len() - offset)))
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let first = self.chance.below(256) as usize;
        (0..length)
            .map(|at| (first + at * 3 + at / 4096) as u8)
            .collect()
    }

    fn handle(&mut self) -> usize {
        self.chance.below(self.handles.len() as u64) as usize
    }

    fn write(&mut self) {
        let (offset, length) = self.range();
        let (bytes, handle) = (self.bytes(length), self.handle());
        self.handles[handle]
            .write_all_at(&bytes, offset as u64)
            .expect("the mount serves it");
        if self.model.len() < offset + length {
            self.model.resize(offset + length, 0);
        }
        self.model[offset..offset + length].copy_from_slice(&bytes);
    }

    fn append(&mut self) {
        let (_, length) = self.range();
        if self.model.len() + length > self.plan.longest_bytes as usize {
            return;
        }
        let bytes = self.bytes(length);
        let mut file = OpenOptions::new()
            .append(true)
            .open(self.mounted.path("file"))
            .expect("the mount serves it");
        file.write_all(&bytes).expect("the mount serves it");
        self.model.extend_from_slice(&bytes);
    }

    fn read(&mut self) {
        let (offset, length) = self.range();
        let handle = self.handle();
        let mut bytes = vec![0xaa; length];
        let read = self.handles[handle]
            .read_at(&mut bytes, offset as u64)
            .expect("the mount serves it");
        let end = self.model.len().min(offset + length);
        let expected = self.model.get(offset..end).unwrap_or(&[]);
        self.compare(&bytes[..read], expected, offset);
    }

    fn truncate(&mut self) {
        let length = self.chance.below(self.plan.longest_bytes);
        let handle = self.handle();
        self.handles[handle]
            .set_len(length)
            .expect("the mount serves it");
        self.model.resize(length as usize, 0);
    }

    fn zero(&mut self, punches: bool) {
        let (offset, length) = self.range();
        let handle = &self.handles[self.step as usize % 3];
        let flags = if punches {
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE
        } else {
            FallocateFlags::ZERO_RANGE
        };
        rustix::fs::fallocate(handle, flags, offset as u64, length as u64)
            .expect("the mount serves it");
        if !punches && self.model.len() < offset + length {
            self.model.resize(offset + length, 0);
        }
        let end = self.model.len().min(offset + length);
        if offset < end {
            self.model[offset..end].fill(0);
        }
    }

    fn map_write(&mut self) {
        let Some((offset, length)) = self.range_inside() else {
            return;
        };
        let (bytes, handle) = (self.bytes(length), self.handle());
        let mapping = Mapping::new(&self.handles[handle], self.model.len());
        mapping.write(offset, &bytes);
        if self.step.is_multiple_of(3) {
            mapping.sync();
        }
        self.model[offset..offset + length].copy_from_slice(&bytes);
        if self.step.is_multiple_of(2) {
            // While it is mapped and dirty there, other readers read it from us.
            let other = self.handle();
            let mut seen = vec![0; length];
            self.handles[other]
                .read_exact_at(&mut seen, offset as u64)
                .expect("the mount serves it");
            self.compare(&seen, &bytes, offset);
        }
    }

    fn map_read(&mut self) {
        let Some((offset, length)) = self.range_inside() else {
            return;
        };
        let handle = self.handle();
        let mapping = Mapping::new(&self.handles[handle], self.model.len());
        let seen = mapping.read(offset, length);
        self.compare(&seen, &self.model[offset..offset + length], offset);
    }

    fn compare(&self, found: &[u8], expected: &[u8], offset: usize) {
        assert_eq!(
            found.len(),
            expected.len(),
            "step {} at {offset}",
            self.step
        );
        let differs = found.iter().zip(expected).position(|(a, b)| a != b);
        if let Some(at) = differs {
            panic!(
                "step {}: byte {} is {}, not {} (file of {})",
                self.step,
                offset + at,
                found[at],
                expected[at],
                self.model.len()
            );
        }
    }

    fn reopen(&mut self) {
        let handle = self.handle();
        self.handles[handle] = open(&self.mounted);
    }

    fn once(&mut self) {
        self.step += 1;
        match self.chance.below(24) {
            0..=6 => self.write(),
            7..=12 => self.read(),
            13 => self.truncate(),
            14 => self.append(),
            15 => self.zero(true),
            16 => self.zero(false),
            17 | 18 => self.map_write(),
            19 | 20 => self.map_read(),
            21 => {
                let handle = self.handle();
                self.handles[handle]
                    .sync_data()
                    .expect("the mount serves it");
            }
            22 => {
                let handle = self.handle();
                self.handles[handle]
                    .sync_all()
                    .expect("the mount serves it");
            }
            _ => self.reopen(),
        }
        let length = self.handles[0]
            .metadata()
            .expect("the mount serves it")
            .len();
        assert_eq!(length, self.model.len() as u64, "step {}", self.step);
    }

    fn finish(mut self) {
        let path = self.mounted.path("file");
        self.compare(&read(&path), &self.model, 0);
        self.handles.clear();
        self.mounted.end();
        self.compare(&read(&self.mounted.behind("file")), &self.model, 0);
    }
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn open(mounted: &Mounted) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options
        .open(mounted.path("file"))
        .expect("the mount serves it")
}

fn run(plan: Plan) {
    println!("seed {}", plan.seed);
    let mut run = Run::new(plan);
    for _ in 0..plan.operations {
        run.once();
    }
    run.finish();
}

fn seeds(usual: std::ops::Range<u64>) -> Vec<u64> {
    match std::env::var("FOREBAY_SEED") {
        Ok(seed) => vec![seed.parse().expect("a number")],
        Err(_) => usual.collect(),
    }
}

#[test]
fn a_small_file_is_what_its_operations_made_of_it() {
    if is_left_out() {
        return;
    }
    for seed in seeds(1..5) {
        run(Plan {
            seed,
            memory_bytes: 8 << 20,
            longest_bytes: 200_000,
            piece_bytes: 30_000,
            operations: 1500,
        });
    }
}

#[test]
fn a_file_larger_than_the_cache_is_what_its_operations_made_of_it() {
    if is_left_out() {
        return;
    }
    for seed in seeds(11..13) {
        run(Plan {
            seed,
            memory_bytes: 8 << 20,
            longest_bytes: 20 << 20,
            piece_bytes: 1 << 20,
            operations: 300,
        });
    }
}
