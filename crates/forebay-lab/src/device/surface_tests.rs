use super::*;
use crate::device::{DeviceSettings, Server, ServerSettings, build};
use crate::filesystem::{FileSystem, FileSystemSettings};
use forebay_base::sync::Arc;
use forebay_engine::{AttachedStore, Cache, File, Parts, Settings};
use forebay_rt::{Virtual, VirtualSettings};
use forebay_store::Store;

const PAGES: usize = 64;

struct Bench {
    machine: Virtual,
    surface: Arc<Surface>,
    store: Arc<dyn Store>,
}

/// A machine with each kind of store that can keep bytes.
fn benches() -> Vec<Bench> {
    ["xfs", "btrfs", "server"].map(bench).into()
}

fn bench(kind: &str) -> Bench {
    let machine = Virtual::new(VirtualSettings::default());
    let surface = Arc::new(Surface::new());
    let kept = Some(Arc::clone(&surface));
    let store: Arc<dyn Store> = if let Some(settings) = FileSystemSettings::named(kind) {
        let disk = DeviceSettings::named("HDD-A").expect("the catalogue has it");
        let disk = build(&machine.rt(), "disk", &disk).expect("it can be");
        let range = 0..1 << 34;
        let files = FileSystem::with_surface(machine.rt(), disk, range, settings, kept);
        Arc::new(files)
    } else {
        let settings = ServerSettings::default();
        Arc::new(Server::new(machine.rt(), settings, kept))
    };
    Bench {
        machine,
        surface,
        store,
    }
}

impl Bench {
    fn cache(&self) -> (Cache, AttachedStore) {
        let parts = Parts {
            rt: self.machine.rt(),
            ..Parts::default()
        };
        let settings = Settings {
            memory_bytes: 2 << 20,
            ..Settings::default()
        };
        let cache = Cache::with_parts(settings, parts).expect("it fits");
        let attached = cache.attach(Arc::clone(&self.store)).expect("it fits");
        (cache, attached)
    }

    /// A cache in which object 1 has these bytes, which are durable.
    fn synced(&self, bytes: &[u8]) -> (Cache, File) {
        let (cache, attached) = self.cache();
        let file = cache.open(&attached, ObjectId(1), 0).expect("it opens");
        self.machine.run(async {
            file.write_at(bytes, 0).await.expect("it writes");
            file.sync().await.expect("it is durable");
        });
        (cache, file)
    }
}

fn page_of_bytes(page: usize, version: u8) -> Vec<u8> {
    (0..PAGE_BYTES)
        .map(|byte| (byte as u8).wrapping_mul(31) ^ (page as u8) ^ version.wrapping_mul(97))
        .collect()
}

fn file_of(version: u8) -> Vec<u8> {
    (0..PAGES)
        .flat_map(|page| page_of_bytes(page, version))
        .collect()
}

#[test]
fn what_was_written_comes_back_through_another_cache() {
    for bench in benches() {
        // Not a whole number of pages.
        let bytes = &file_of(1)[..PAGES * PAGE_BYTES - 1_000];
        drop(bench.synced(bytes));
        assert_eq!(bench.surface.bytes(ObjectId(1)), bytes);
        let (other, attached) = bench.cache();
        let length = bytes.len() as u64;
        let file = other
            .open(&attached, ObjectId(1), length)
            .expect("it opens");
        let mut back = vec![0; bytes.len()];
        let read = bench.machine.run(file.read_at(&mut back, 0));
        assert_eq!(read.expect("it reads"), bytes.len());
        assert!(back == bytes, "the bytes differ");
    }
}

#[test]
fn a_crash_keeps_what_was_synced_and_any_of_what_was_not() {
    for bench in benches() {
        let (_cache, file) = bench.synced(&file_of(1));
        bench.machine.run(async {
            file.write_at(&file_of(2), 0).await.expect("it writes");
        });
        // Long enough for the flusher to have written it again; nobody has synced since.
        bench.machine.run_for(forebay_base::Span::from_secs(60));
        assert!(
            bench.surface.bytes(ObjectId(1)) == file_of(2),
            "it was written"
        );
        let (mut old, mut new) = (0, 0);
        for seed in 0..20 {
            let image = bench.surface.crash(&mut Prng::from_seed(seed));
            let left = image.snapshot(ObjectId(1));
            assert_eq!(left.len(), PAGES * PAGE_BYTES);
            for (page, bytes) in left.chunks(PAGE_BYTES).enumerate() {
                let is_old = bytes == page_of_bytes(page, 1);
                let is_new = bytes == page_of_bytes(page, 2);
                assert!(is_old || is_new, "page {page} is neither");
                old += usize::from(is_old);
                new += usize::from(is_new);
            }
        }
        assert!(new > 0, "no crash kept anything");
        // A server whose writes are unstable is committed by the flusher, a disk by a sync alone.
        assert!(
            old > 0 || bench.surface.is_durable(),
            "no crash lost anything"
        );
    }
}

#[test]
fn a_cut_and_a_discard_zero_what_they_take() {
    for bench in benches() {
        let (_cache, file) = bench.synced(&file_of(1));
        bench.machine.run(async {
            file.truncate(10_000).await.expect("it is cut");
            file.truncate(30_000).await.expect("it grows");
            file.discard(2_000..7_000).await.expect("it is discarded");
            file.sync().await.expect("it is durable");
        });
        let mut expected = file_of(1);
        expected.truncate(10_000);
        expected.resize(30_000, 0);
        expected[2_000..7_000].fill(0);
        assert!(
            bench.surface.bytes(ObjectId(1)) == expected,
            "the bytes differ"
        );
        assert!(bench.surface.is_durable());
        let image = bench.surface.crash(&mut Prng::from_seed(1));
        assert!(image.snapshot(ObjectId(1)) == expected, "the image differs");
    }
}
