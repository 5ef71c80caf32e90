//! The format: golden objects that later programs must read, and every change that is noticed.

#![allow(clippy::unwrap_used)]

mod opened;

use forebay_volume::{
    Access, Body, ChunkName, Content, Holder, Manifest, Map, Opening, OwnerKey, PAGE_BYTES,
    PageCodec, PageFormat, Parent, Record, Shared, Snapshot, SnapshotName, Twin, VolumeFault,
    VolumeKey, crc32c, log_key, map_key,
};
use opened::{Bucket, finish, writing};
use proptest::prelude::*;
use std::fmt::Write;

const GOLDEN_MANIFEST: &[u8] = include_bytes!("golden/volume");
const GOLDEN_OPEN: &[u8] = include_bytes!("golden/2/log-1");
const GOLDEN_COMMIT: &[u8] = include_bytes!("golden/2/log-2");
const GOLDEN_CLOSE: &[u8] = include_bytes!("golden/2/log-3");
const GOLDEN_MAP: &[u8] = include_bytes!("golden/2/map-3");
/// Those of format 1: records 1 to 3, and the map after them.
const OLD_RECORDS: [&[u8]; 3] = [
    include_bytes!("golden/1/log-1"),
    include_bytes!("golden/1/log-2"),
    include_bytes!("golden/1/log-3"),
];
const OLD_MAP: &[u8] = include_bytes!("golden/1/map-3");

fn manifest() -> Manifest {
    Manifest::new(0x0123_4567_89ab_cdef, 3 << 20, 1 << 20).unwrap()
}

fn record(number: u64, settled: u64, prior: u32, body: Body) -> Record {
    Record {
        number,
        epoch: 1,
        writer: 0xfeed,
        settled,
        prior,
        mapped: u64::from(number > 2),
        body,
    }
}

/// The records of the golden log, and the map after them.
fn golden() -> (Vec<Record>, Map) {
    let manifest = manifest();
    let mut map = Map::new(&manifest);
    let object = Content::Object {
        name: ChunkName {
            epoch: 1,
            number: 5,
        },
        crc: 0xabcd,
    };
    let page: Vec<u8> = (0..PAGE_BYTES).map(|at| (at % 251) as u8).collect();
    let bodies = [
        Body::Open {
            who: "host a, process 812".into(),
        },
        Body::Commit {
            chunks: vec![(0, Content::Hole), (2, object)],
            pages: vec![(256, page)],
        },
        Body::Close,
    ];
    let mut records = Vec::new();
    for (body, number) in bodies.into_iter().zip(1..) {
        let settled = if number == 1 { 0 } else { 6 };
        let record = record(number, settled, map.checksum(), body);
        map.apply(&manifest, &record, record.encode().1).unwrap();
        records.push(record);
    }
    (records, map)
}

/// To make them anew after a change of the format, with a new number for it, write what this
/// compares: the old ones stay, and are read by a test of their own.
#[test]
fn golden_objects_are_made_and_read_as_ever() {
    let (records, map) = golden();
    assert_eq!(manifest().encode(), GOLDEN_MANIFEST);
    assert_eq!(Manifest::decode(GOLDEN_MANIFEST), Ok(manifest()));
    let objects = [GOLDEN_OPEN, GOLDEN_COMMIT, GOLDEN_CLOSE];
    for (record, object) in records.iter().zip(objects) {
        let (bytes, checksum) = record.encode();
        assert!(bytes == object, "record {}", record.number);
        let decoded = Record::decode(record.number, object);
        assert_eq!(decoded, Ok((record.clone(), checksum)));
    }
    assert!(map.encode() == GOLDEN_MAP, "the map");
    assert_eq!(Map::decode(&manifest(), 3, GOLDEN_MAP), Ok(map));
}

#[test]
fn a_golden_snapshot_is_made_and_read_as_ever() {
    let object = include_bytes!("golden/snapshot");
    let (_, map) = golden();
    let snapshot = Snapshot {
        taken_ms: 1_795_867_200_000,
        map,
    };
    assert!(snapshot.encode() == object, "the snapshot");
    let decoded = Snapshot::decode(&manifest(), "snap/monday/map", object);
    assert_eq!(decoded, Ok(snapshot));
}

/// A record that makes the golden volume shorter, and the map after it.
fn golden_resize() -> (Record, Map) {
    let (mut records, _) = golden();
    let manifest = manifest();
    let mut map = Map::new(&manifest);
    for record in &records[..2] {
        map.apply(&manifest, record, record.encode().1).unwrap();
    }
    let object = Content::Object {
        name: ChunkName {
            epoch: 1,
            number: 6,
        },
        crc: 0xef01,
    };
    let body = Body::Resize {
        length_bytes: (1 << 20) + 2 * PAGE_BYTES,
        chunks: vec![(1, object)],
    };
    let record = Record {
        body,
        prior: map.checksum(),
        ..records.remove(2)
    };
    map.apply(&manifest, &record, record.encode().1).unwrap();
    (record, map)
}

#[test]
fn a_golden_change_of_the_length_is_made_and_read_as_ever() {
    let golden: [&[u8]; 2] = [
        include_bytes!("golden/resized/log-3"),
        include_bytes!("golden/resized/map-3"),
    ];
    let (record, map) = golden_resize();
    let (bytes, checksum) = record.encode();
    assert!(bytes == golden[0], "the record");
    assert_eq!(Record::decode(3, golden[0]), Ok((record, checksum)));
    assert!(map.encode() == golden[1], "the map");
    assert_eq!(Map::decode(&manifest(), 3, golden[1]), Ok(map.clone()));
    assert_eq!(map.manifest(&manifest()).pages(), 258);
    assert_eq!(map.chunk(2), None, "it lies past the end");
    for object in golden {
        for at in 0..object.len() {
            let mut changed = object.to_vec();
            changed[at] ^= 1;
            assert!(Record::decode(3, &changed).is_err(), "byte {at}");
            assert!(Map::decode(&manifest(), 3, &changed).is_err(), "byte {at}");
        }
    }
}

#[test]
fn a_change_of_the_length_that_would_tear_a_chunk_is_damage() {
    let (record, _) = golden_resize();
    let manifest = manifest();
    let (records, _) = golden();
    let mut map = Map::new(&manifest);
    for record in &records[..2] {
        map.apply(&manifest, record, record.encode().1).unwrap();
    }
    let before = map.clone();
    for (length_bytes, chunks) in [
        // Page 256 lies in a record, in the chunk at the new end.
        ((1 << 20) + 2 * PAGE_BYTES, vec![]),
        (1 << 20, vec![(1, Content::Hole)]),
        (0, vec![]),
        (PAGE_BYTES + 1, vec![]),
        (1 << 62, vec![]),
    ] {
        let body = Body::Resize {
            length_bytes,
            chunks,
        };
        let torn = Record {
            body,
            ..record.clone()
        };
        let refused = map.apply(&manifest, &torn, 1);
        assert!(matches!(refused, Err(VolumeFault::Damaged { .. })));
        assert_eq!(map, before);
    }
}

fn golden_owner() -> OwnerKey {
    let mut digits = String::new();
    for byte in b"the key of its owner, random too" {
        write!(digits, "{byte:02x}").unwrap();
    }
    OwnerKey::parse(digits.as_bytes()).unwrap()
}

/// Manifests with pages in other formats, a wrapped key, and an encrypted page in a record and in a
/// chunk.
fn golden_sealed() -> [(&'static str, Vec<u8>); 5] {
    let manifest = manifest().with_pages(PageFormat::Encrypted);
    let key = VolumeKey::new(*b"the key of a volume, random else");
    let owner = golden_owner();
    let codec = PageCodec::new(&manifest, Some(&key)).unwrap();
    let page: Vec<u8> = (0..PAGE_BYTES).map(|at| (at % 251) as u8).collect();
    let sealed = |holder| {
        let mut object = Vec::new();
        codec.pages_of(holder).seal(0xfeed, 256, &page, &mut object);
        object
    };
    let body = Body::Commit {
        chunks: vec![(0, Content::Hole)],
        pages: vec![(256, sealed(Holder::Record(2)))],
    };
    let name = ChunkName {
        epoch: 1,
        number: 5,
    };
    [
        (
            "volume-checksum",
            manifest.with_pages(PageFormat::Checksum).encode(),
        ),
        ("volume-encrypted", manifest.encode()),
        ("key-1", owner.wrap(manifest.id, 1, &key, 0x5eed)),
        ("log-2", record(2, 6, manifest_checksum(), body).encode().0),
        ("page-256", sealed(Holder::Chunk(name))),
    ]
}

#[test]
fn golden_objects_of_a_clone_are_made_and_read_as_ever() {
    let shared = Shared {
        epoch: 1,
        record: 3,
    };
    let clone = manifest().cloned(shared);
    let text = "forebay volume 3\nid 00000000000000000123456789abcdef\nlength_bytes 3145728\n\
                  chunk_bytes 1048576\npages plain\nshared_epoch 1\nshared_record 3\n\
                  crc32c 83ff4514\n";
    assert_eq!(String::from_utf8(clone.encode()).unwrap(), text);
    assert_eq!(Manifest::decode(text.as_bytes()).unwrap(), clone);

    let parent = Parent {
        path: b"../base".to_vec(),
        snapshot: SnapshotName::of_clone(0xf00),
    };
    let text = "forebay parent 1\nsnapshot clone-00000000000000000000000000000f00\npath ../base\n\
                  crc32c eaf93183\n";
    assert_eq!(String::from_utf8(parent.encode()).unwrap(), text);
    assert_eq!(Parent::decode(text.as_bytes()).unwrap(), parent);
    assert!(shared.has("data/05/0000000000000001-0000000000000005"));
    assert!(!shared.has("data/05/0000000000000002-0000000000000005"));

    // It begins where its parent was, and is another volume for whoever reads maps.
    let (_, map) = golden();
    let first = map.clone().of_clone(&clone);
    assert_eq!(
        (first.number(), first.checksum()),
        (map.number(), map.checksum())
    );
    assert!(first.chunks().eq(map.chunks()) && first.pages().eq(map.pages()));
    assert_eq!(Map::decode(&clone, 3, &first.encode()).unwrap(), first);
    assert!(Map::decode(&manifest(), 3, &first.encode()).is_err());
}

fn manifest_checksum() -> u32 {
    Map::new(&manifest()).checksum()
}

#[test]
fn golden_objects_of_other_pages_are_made_and_read_as_ever() {
    let golden: [&[u8]; 5] = [
        include_bytes!("golden/pages/volume-checksum"),
        include_bytes!("golden/pages/volume-encrypted"),
        include_bytes!("golden/pages/key-1"),
        include_bytes!("golden/pages/log-2"),
        include_bytes!("golden/pages/page-256"),
    ];
    for ((name, made), golden) in golden_sealed().into_iter().zip(golden) {
        assert!(made == golden, "{name}");
    }
    let manifest = Manifest::decode(golden[1]).unwrap();
    assert_eq!(manifest.pages, PageFormat::Encrypted);
    let owner = golden_owner();
    let key = owner.unwrap(manifest.id, 1, "key-1", golden[2]).unwrap();
    let codec = PageCodec::new(&manifest, Some(&key)).unwrap();
    let (record, _) = Record::decode(2, golden[3]).unwrap();
    let Body::Commit { pages, .. } = record.body else {
        panic!("it is a commit")
    };
    let mut stored = pages[0].1.clone();
    let opened = codec.pages_of(Holder::Record(2)).open(256, &mut stored);
    assert_eq!(opened.unwrap()[..4], [0, 1, 2, 3]);
}

#[test]
fn golden_objects_of_format_1_are_read() {
    let (records, map) = golden();
    let mut old = Map::new(&manifest());
    for (record, bytes) in records.into_iter().zip(OLD_RECORDS) {
        assert!(!Record::has_twin(bytes));
        let (found, checksum) = Record::decode(record.number, bytes).unwrap();
        let mapped = 0;
        let prior = old.checksum();
        assert_eq!(
            found,
            Record {
                mapped,
                prior,
                ..record
            }
        );
        old.apply(&manifest(), &found, checksum).unwrap();
    }
    assert_eq!(Map::decode(&manifest(), 3, OLD_MAP), Ok(old.clone()));
    // Everything is where it is in format 2, and what follows may be of either.
    assert!(old.pages().eq(map.pages()) && old.chunks().eq(map.chunks()));
}

/// A volume that an older program made, with its map or without.
#[test]
fn a_volume_of_format_1_is_opened_and_written_on() {
    for has_map in [false, true] {
        let mut bucket = Bucket::default();
        let mut put = |key: String, bytes: &[u8]| bucket.objects.insert(key, bytes.to_vec());
        put("volume".into(), GOLDEN_MANIFEST);
        for (number, bytes) in (1..).zip(OLD_RECORDS) {
            put(log_key(number), bytes);
        }
        if has_map {
            put(map_key(3), OLD_MAP);
        }
        let access = || Access::Write(writing(2, 3 << 20));
        let mut writer = finish(&mut bucket, Opening::new(access())).unwrap();
        assert_eq!(writer.map().epoch(), 2);
        let pages: Vec<_> = writer.map().pages().map(|(page, _)| page).collect();
        assert_eq!(pages, [256]);
        writer.stage(7, &[7; PAGE_BYTES as usize]);
        writer.seal();
        for twin in Twin::BOTH {
            let reply = bucket.answer(writer.next(twin).unwrap());
            writer.answer(twin, reply).unwrap();
        }
        let has_twin = |number| bucket.objects.contains_key(&Twin::Second.key(number));
        // The one on which the opening was built has got its copy.
        assert_eq!(
            [1, 2, 3, 4, 5].map(has_twin),
            [false, false, !has_map, true, true]
        );
        let again = finish(&mut bucket, Opening::new(Access::Read)).unwrap();
        assert_eq!(again.map(), writer.map());
    }
}

#[test]
fn a_map_of_another_volume_is_refused() {
    let other = Manifest::new(8, 3 << 20, 1 << 20).unwrap();
    let noticed = Map::decode(&other, 3, GOLDEN_MAP).unwrap_err();
    assert!(noticed.to_string().contains("another volume"), "{noticed}");
}

#[test]
fn every_flipped_bit_and_every_cut_of_every_object_is_noticed() {
    type Decode = fn(&[u8]) -> Result<(), VolumeFault>;
    let objects: [(&[u8], Decode); 5] = [
        (GOLDEN_MANIFEST, |bytes| Manifest::decode(bytes).map(drop)),
        (GOLDEN_OPEN, |bytes| Record::decode(1, bytes).map(drop)),
        (GOLDEN_COMMIT, |bytes| Record::decode(2, bytes).map(drop)),
        (GOLDEN_CLOSE, |bytes| Record::decode(3, bytes).map(drop)),
        (GOLDEN_MAP, |bytes| {
            Map::decode(&manifest(), 3, bytes).map(drop)
        }),
    ];
    for (object, decode) in objects {
        let mut bytes = object.to_vec();
        // A few bytes stand for the whole content of a page.
        let places = (0..bytes.len()).filter(|at| *at < 300 || at % 97 == 0);
        for at in places.chain(bytes.len() - 8..bytes.len()) {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                let noticed = decode(&bytes);
                assert!(
                    matches!(noticed, Err(VolumeFault::Damaged { .. })),
                    "bit {bit} of byte {at}: {noticed:?}"
                );
                bytes[at] ^= 1 << bit;
            }
        }
        for end in (0..object.len()).filter(|end| *end < 300 || end % 97 == 0) {
            assert!(decode(&object[..end]).is_err(), "cut at {end}");
        }
        bytes.push(0);
        assert!(decode(&bytes).is_err(), "a byte too many");
    }
}

/// `bytes` with another format and the checksum that belongs to it.
fn with_format(bytes: &[u8], format: u16) -> Vec<u8> {
    let mut bytes = bytes[..bytes.len() - 4].to_vec();
    bytes[6..8].copy_from_slice(&format.to_le_bytes());
    let checksum = crc32c(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

#[test]
fn newer_records_and_maps_are_refused_by_name() {
    let record = Record::decode(2, &with_format(GOLDEN_COMMIT, 5)).unwrap_err();
    assert_eq!(
        record.to_string(),
        "log/00000000000000000002 has format 5, and this program knows format 4; use a newer one"
    );
    let map = Map::decode(&manifest(), 3, &with_format(GOLDEN_MAP, 9)).unwrap_err();
    assert!(
        map.to_string()
            .starts_with("map/00000000000000000003 has format 9")
    );
}

#[test]
fn counts_that_lie_are_damage_and_take_no_memory() {
    // The count of chunks, after 8 bytes of head and 8 fields.
    for (at, count) in [(56, u64::MAX), (56, 1 << 40), (64, u64::MAX), (64, 17)] {
        let mut bytes = GOLDEN_COMMIT.to_vec();
        bytes[at..at + 8].copy_from_slice(&count.to_le_bytes());
        let format = if count == 17 { 1 } else { 2 };
        let noticed = Record::decode(2, &with_format(&bytes, format));
        assert!(matches!(noticed, Err(VolumeFault::Damaged { .. })), "{at}");
    }
}

/// Invariants VB1 and VB2.
#[test]
fn records_that_do_not_follow_are_damage_and_change_nothing() {
    let (records, _) = golden();
    let manifest = manifest();
    let mut map = Map::new(&manifest);
    map.apply(&manifest, &records[0], records[0].encode().1)
        .unwrap();
    let good = &records[1];
    let past = |chunk| Body::Commit {
        chunks: vec![(chunk, Content::Hole)],
        pages: Vec::new(),
    };
    let page_past = Body::Commit {
        chunks: Vec::new(),
        pages: vec![(768, vec![0; PAGE_BYTES as usize])],
    };
    let bad = [
        Record {
            number: 3,
            ..good.clone()
        },
        Record {
            prior: good.prior ^ 1,
            ..good.clone()
        },
        Record {
            epoch: 2,
            ..good.clone()
        },
        Record {
            writer: 1,
            ..good.clone()
        },
        Record {
            body: past(3),
            ..good.clone()
        },
        Record {
            body: page_past,
            ..good.clone()
        },
        Record {
            body: Body::Open { who: String::new() },
            ..good.clone()
        },
    ];
    for record in bad {
        let before = map.clone();
        let noticed = map.apply(&manifest, &record, record.encode().1);
        assert!(
            matches!(noticed, Err(VolumeFault::Damaged { .. })),
            "{record:?}"
        );
        assert_eq!(map, before);
    }
    map.apply(&manifest, good, good.encode().1).unwrap();
    map.apply(&manifest, &records[2], records[2].encode().1)
        .unwrap();
    let late = record(4, 6, map.checksum(), past(0));
    let noticed = map.apply(&manifest, &late, late.encode().1);
    assert!(noticed.is_err(), "a writer that has closed commits no more");
}

fn bodies() -> impl Strategy<Value = Body> {
    let content = prop_oneof![Just(None), (any::<u64>(), any::<u32>()).prop_map(Some),];
    let chunks = prop::collection::vec((0_u64..1 << 22, content), 0..20);
    let pages = prop::collection::vec((any::<u64>(), any::<u8>()), 0..4);
    prop_oneof![
        ".{0,60}".prop_map(|who| Body::Open { who }),
        Just(Body::Close),
        (chunks, pages).prop_map(|(chunks, pages)| Body::Commit {
            chunks: chunks
                .into_iter()
                .map(|(chunk, content)| match content {
                    None => (chunk, Content::Hole),
                    Some((number, crc)) => {
                        let name = ChunkName { epoch: 3, number };
                        (chunk, Content::Object { name, crc })
                    }
                })
                .collect(),
            pages: pages
                .into_iter()
                .map(|(page, byte)| (page, vec![byte; PAGE_BYTES as usize]))
                .collect(),
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn records_survive_the_round_trip_and_a_flip_does_not(
        (number, writer, settled, prior, mapped) in any::<(u64, u128, u64, u32, u64)>(),
        body in bodies(),
        flips in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 16),
    ) {
        let record = Record { number, epoch: 3, writer, settled, prior, mapped, body };
        let (mut bytes, checksum) = record.encode();
        prop_assert_eq!(Record::decode(number, &bytes), Ok((record, checksum)));
        for (place, flip) in flips {
            let at = place.index(bytes.len());
            let flip = flip.max(1);
            bytes[at] ^= flip;
            prop_assert!(Record::decode(number, &bytes).is_err());
            bytes[at] ^= flip;
        }
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Manifest::decode(&bytes);
        for golden in [GOLDEN_COMMIT, GOLDEN_MAP] {
            // With a good head and checksum, so that the fields are reached.
            let mut made = golden[..8].to_vec();
            made.extend(&bytes);
            made.extend([0; 4]);
            for format in [1, 2] {
                let made = with_format(&made, format);
                let _ = Record::decode(1, &made);
                let _ = Map::decode(&manifest(), 1, &made);
            }
        }
    }
}
