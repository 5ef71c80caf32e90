//! What a writer asks for, step by step.

#![allow(clippy::unwrap_used)]

mod opened;

use forebay_volume::{
    Access, Body, Call, Content, Holder, INLINE_PAGES, INLINE_TOTAL, MAP_PREFIX, MAPPED_KEY,
    Manifest, Map, Need, Opening, PAGE_BYTES, PageCodec, PageFormat, Progress,
    RECORDS_BETWEEN_MAPS, Record, Reply, Scope, Source, Twin, VolumeFault, VolumeKey, Writer,
    Writing, log_key, map_key,
};
use opened::{Bucket, finish, open, writing};

const PAGE: usize = PAGE_BYTES as usize;

/// The calls that a record takes.
fn commit(bucket: &mut Bucket, writer: &mut Writer) -> usize {
    writer.seal();
    record_is_made(bucket, writer)
}

fn record_is_made(bucket: &mut Bucket, writer: &mut Writer) -> usize {
    let mut calls = 0;
    while writer.is_recording() {
        for twin in Twin::BOTH {
            if let Some(call) = writer.next(twin) {
                writer.answer(twin, bucket.answer(call)).unwrap();
                calls += 1;
            }
        }
    }
    calls
}

fn record(bucket: &Bucket, writer: &Writer) -> Record {
    let number = writer.map().number();
    let bytes = &bucket.objects[&log_key(number)];
    Record::decode(number, bytes).unwrap().0
}

#[test]
fn a_small_commit_is_two_calls_at_once_and_a_large_one_makes_chunks_first() {
    let mut bucket = Bucket::default();
    let mut writer = open(&mut bucket, writing(1, 64 << 20)).unwrap();
    assert_eq!(writer.need(), Need::Nothing);
    for page in 0..INLINE_PAGES as u64 {
        writer.stage(page * 32, &[7; PAGE]);
    }
    assert_eq!(commit(&mut bucket, &mut writer), 2);
    // Half of a chunk is worth an object; what lies in records does not count.
    for page in 0..128 {
        assert_ne!(writer.need(), Need::Chunks(vec![0]), "{page}");
        writer.stage(page, &[8; PAGE]);
    }
    assert_eq!(writer.need(), Need::Chunks(vec![0]));
    let name = writer.name(Scope::All);
    writer.made(0, name, &vec![8; 1 << 20]);
    assert_eq!(writer.need(), Need::Record);
    assert_eq!(commit(&mut bucket, &mut writer), 2);
    let Body::Commit { chunks, pages } = record(&bucket, &writer).body else {
        panic!("it was a commit");
    };
    assert!(matches!(chunks[..], [(0, Content::Object { .. })]) && pages.is_empty());
    // The pages of the first commit in this chunk lie in it now.
    assert_eq!(writer.map().inline_pages(), INLINE_PAGES - 8);
}

/// A writer of an encrypted volume, which is made if it is not there.
fn open_encrypted(bucket: &mut Bucket, writer: u128) -> (Writer, PageCodec) {
    let manifest = Manifest::new(1, 64 << 20, 1 << 20).unwrap();
    let mut opening = Opening::new(Access::Write(Writing {
        create: Some(manifest.with_pages(PageFormat::Encrypted)),
        ..writing(writer, 64 << 20)
    }));
    let opened = loop {
        let reply = bucket.answer(opening.next());
        if let Progress::Done(opened) = opening.answer(reply).unwrap() {
            break opened;
        }
    };
    let key = VolumeKey::new([3; 32]);
    let codec = PageCodec::new(&opened.manifest, Some(&key)).unwrap();
    (Writer::with_codec(opened, codec.clone()), codec)
}

/// A read sees the page, and the bucket what hides it.
#[test]
fn an_encrypted_page_is_read_from_memory_until_its_record_is_there() {
    let mut bucket = Bucket::default();
    let (mut writer, codec) = open_encrypted(&mut bucket, 1);
    writer.stage(17, &[7; PAGE]);
    writer.stage(18, &[8; PAGE]);
    writer.seal();
    assert_eq!(writer.source(17), Source::Memory(&[7; PAGE]));
    writer.stage(18, &[9; PAGE]);
    assert_eq!(writer.source(18), Source::Memory(&[9; PAGE]));
    record_is_made(&mut bucket, &mut writer);
    let Source::Record { record, at, .. } = writer.source(17) else {
        panic!("its record is there");
    };
    let stored_bytes = PageFormat::Encrypted.record_bytes() as usize;
    let mut stored = bucket.objects[&log_key(record)][at as usize..][..stored_bytes].to_vec();
    assert_ne!(stored[..PAGE], [7; PAGE]);
    let pages = codec.pages_of(Holder::Record(record));
    assert_eq!(pages.open(17, &mut stored), Some(&[7; PAGE][..]));
}

#[test]
fn what_is_useless_in_the_records_of_an_encrypted_volume_is_counted_as_it_lies_there() {
    let mut bucket = Bucket::default();
    let (mut writer, _) = open_encrypted(&mut bucket, 1);
    for pages in [0..10, 0..4] {
        for page in pages {
            writer.stage(page, &[7; PAGE]);
        }
        commit(&mut bucket, &mut writer);
    }
    writer.close();
    record_is_made(&mut bucket, &mut writer);
    let (writer, _) = open_encrypted(&mut bucket, 2);
    // Both copies of four pages, which the second record has too.
    assert_eq!(
        writer.dead_bytes(),
        2 * 4 * PageFormat::Encrypted.record_bytes()
    );
}

/// An object that is being made may still be named (invariant VB8).
#[test]
fn an_object_that_is_being_made_is_not_settled() {
    let mut bucket = Bucket::default();
    let mut writer = open(&mut bucket, writing(1, 64 << 20)).unwrap();
    let [slow, fast] = [writer.name(Scope::All), writer.name(Scope::All)];
    writer.made(3, fast, &vec![1; 1 << 20]);
    commit(&mut bucket, &mut writer);
    assert_eq!(record(&bucket, &writer).settled, slow.number);
    writer.not_made(slow);
    writer.discard(3);
    commit(&mut bucket, &mut writer);
    assert_eq!(record(&bucket, &writer).settled, fast.number + 1);
}

#[test]
fn maps_come_now_and_then() {
    let mut bucket = Bucket::default();
    let mut writer = open(&mut bucket, writing(1, 64 << 20)).unwrap();
    let mut maps = 0;
    for page in 0..4_096 {
        writer.stage(page % 64 * 256, &[page as u8; PAGE]);
        commit(&mut bucket, &mut writer);
        maps += u64::from(writer.map_to_make(u64::MAX).is_some());
    }
    assert_eq!(maps, 4_097 / RECORDS_BETWEEN_MAPS);
}

/// As many pages lie in records as may, each in a chunk of its own: a commit makes room for its
/// own.
#[test]
fn pages_in_records_have_a_bound() {
    let mut bucket = Bucket::default();
    let mut writer = open(&mut bucket, writing(1, 70_000 << 20)).unwrap();
    for chunk in 0..INLINE_TOTAL as u64 {
        writer.stage(chunk * 256, &[7; PAGE]);
        if chunk % 512 == 511 {
            assert_eq!(writer.need(), Need::Record);
            commit(&mut bucket, &mut writer);
            bucket.objects.clear();
        }
    }
    assert_eq!(writer.map().inline_pages(), INLINE_TOTAL);
    writer.stage(69_000 * 256, &[7; PAGE]);
    writer.stage(69_000 * 256 + 1, &[7; PAGE]);
    let Need::Chunks(chunks) = writer.need() else {
        panic!("no room is left in records");
    };
    let [own] = chunks[..] else {
        panic!("{chunks:?}");
    };
    assert_eq!(own, 69_000, "it has the most pages");
}

/// A chunk that was made because records were full has its pages there until the record that names
/// it: it is no reason to make it again.
#[test]
fn a_chunk_that_made_room_is_not_asked_for_again() {
    let mut bucket = Bucket::default();
    let mut writer = open(&mut bucket, writing(1, 70_000 << 20)).unwrap();
    for page in 0..INLINE_TOTAL as u64 {
        // Two of each chunk.
        writer.stage(page / 2 * 256 + page % 2, &[7; PAGE]);
        if page % 512 == 511 {
            commit(&mut bucket, &mut writer);
            bucket.objects.clear();
        }
    }
    for round in 0..100 {
        // No other chunk has as many pages in records as one of those before.
        writer.stage((40_000 + round) * 256, &[8; PAGE]);
        let mut made = Vec::new();
        while let Need::Chunks(chunks) = writer.need() {
            for chunk in chunks {
                assert!(!made.contains(&chunk), "{chunk} is made twice");
                let name = writer.name(Scope::All);
                writer.made_with(chunk, name, 0);
                made.push(chunk);
            }
        }
        assert!(made.len() <= 1, "{made:?}");
        commit(&mut bucket, &mut writer);
        bucket.objects.clear();
        assert!(writer.map().inline_pages() <= INLINE_TOTAL);
    }
}

/// Records of which little is needed are left by what is.
#[test]
fn pages_move_out_of_records_that_are_mostly_replaced() {
    let mut bucket = Bucket::default();
    let mut writer = open(&mut bucket, writing(1, 64 << 20)).unwrap();
    let page_of = |number: u64| number * 64;
    for number in 0..100 {
        writer.stage(page_of(number), &[1; PAGE]);
    }
    commit(&mut bucket, &mut writer);
    for value in 2..5 {
        // Each record keeps one page, except the last.
        for number in u64::from(value) - 1..100 {
            writer.stage(page_of(number), &[value; PAGE]);
        }
        commit(&mut bucket, &mut writer);
    }
    assert!(writer.sparse_pages(300).is_empty(), "so many may be spare");
    let sparse = writer.sparse_pages(0);
    let [(0, from)] = sparse[..] else {
        panic!("{sparse:?}");
    };
    assert_eq!(from.record, 2);
    writer.moved(0, from, vec![1; PAGE]);
    assert!(!writer.has_changes(), "that alone makes no commit");
    writer.stage(page_of(50), &[9; PAGE]);
    writer.freeze();
    commit(&mut bucket, &mut writer);
    let Body::Commit { pages, .. } = record(&bucket, &writer).body else {
        panic!("it was a commit");
    };
    assert_eq!(pages, [(0, vec![1; PAGE]), (page_of(50), vec![9; PAGE])]);
    assert!(writer.map().pages().all(|(_, inline)| inline.record != 2));
    // What was written meanwhile is newer.
    writer.moved(
        page_of(1),
        writer.map().page(page_of(1)).unwrap(),
        vec![4; PAGE],
    );
    writer.stage(page_of(1), &[5; PAGE]);
    writer.freeze();
    assert!(matches!(writer.source(page_of(1)), Source::Memory(bytes) if bytes == [5; PAGE]));
}

/// A map of 40,000 chunks comes so seldom that it is a few KiB for each record.
#[test]
fn maps_cost_a_bounded_number_of_bytes_for_each_record() {
    let mut bucket = Bucket::default();
    let mut writer = open(&mut bucket, writing(1, 40_000 << 20)).unwrap();
    for chunk in 0..40_000 {
        let name = writer.name(Scope::All);
        writer.made_with(chunk, name, chunk as u32);
    }
    let (mut map_bytes, mut records) = (0, 0);
    for value in 0..2_000_u32 {
        writer.stage(3, &[value as u8; PAGE]);
        commit(&mut bucket, &mut writer);
        bucket.objects.clear();
        records += 1;
        if let Some(map) = writer.map_to_make(u64::MAX) {
            if matches!(map.next(), Call::Make { key, .. } if key != MAPPED_KEY) {
                map_bytes += map.bytes().len() as u64;
            }
            writer.map_made();
        }
    }
    assert!(
        map_bytes > 0 && map_bytes / records <= 4096,
        "{map_bytes} for {records}"
    );
    let memory_bytes = Map::memory_bytes(writer.manifest());
    assert!(memory_bytes >= 16 * 40_000 + writer.map().encode().len() as u64);
    assert!(memory_bytes <= 28 * 40_000 + 96 * INLINE_TOTAL as u64);
}

#[test]
fn a_bucket_that_replaces_what_is_there_is_refused() {
    let mut bucket = Bucket {
        replaces: true,
        ..Bucket::default()
    };
    let refused = open(&mut bucket, writing(1, 1 << 20)).unwrap_err();
    assert_eq!(refused, VolumeFault::NoPutIfAbsent);
    let left: Vec<_> = bucket.objects.keys().collect();
    assert!(!left.contains(&&"volume".to_owned()), "{left:?}");
}

#[test]
fn a_bucket_whose_listings_come_late_is_refused() {
    let mut bucket = Bucket {
        lists_nothing: true,
        ..Bucket::default()
    };
    let refused = open(&mut bucket, writing(1, 1 << 20)).unwrap_err();
    assert_eq!(refused, VolumeFault::LateListing);
    assert!(!bucket.objects.contains_key("volume"));
}

#[test]
fn a_volume_whose_manifest_is_lost_is_not_made_again() {
    let mut bucket = Bucket::default();
    open(&mut bucket, writing(1, 1 << 20)).unwrap();
    bucket.objects.remove("volume");
    for lost in [None, Some(Twin::First.key(1))] {
        lost.map(|key| bucket.objects.remove(&key));
        let refused = open(&mut bucket, writing(2, 1 << 20)).unwrap_err();
        assert!(matches!(refused, VolumeFault::Missing { key } if key == "volume"));
    }
}

#[test]
fn what_is_open_or_has_another_length_is_refused_and_unchanged() {
    let mut bucket = Bucket::default();
    let mut first = open(&mut bucket, writing(1, 1 << 20)).unwrap();
    let before = bucket.objects.clone();
    let refused = open(&mut bucket, writing(2, 1 << 20)).unwrap_err();
    let who = "writer 1".to_owned();
    assert_eq!(refused, VolumeFault::InUse { who });
    let refused = open(&mut bucket, writing(2, 2 << 20)).unwrap_err();
    assert!(matches!(
        refused,
        VolumeFault::WrongLength {
            found_bytes: 1_048_576,
            ..
        }
    ));
    assert_eq!(bucket.objects, before);
    first.close();
    assert_eq!(record_is_made(&mut bucket, &mut first), 2);
    assert!(open(&mut bucket, writing(2, 1 << 20)).is_ok());
}

#[test]
fn a_fenced_writer_is_refused_for_ever() {
    let mut bucket = Bucket::default();
    let mut old = open(&mut bucket, writing(1, 1 << 20)).unwrap();
    let mut new = writing(2, 1 << 20);
    new.take_over = true;
    open(&mut bucket, new).unwrap();
    old.stage(3, &[1; PAGE]);
    old.seal();
    // The loss of one copy does not let it through.
    bucket.objects.remove(&Twin::First.key(2));
    let done = bucket.answer(old.next(Twin::First).unwrap());
    assert_eq!(done, Reply::Done);
    assert_eq!(old.answer(Twin::First, done), Ok(Progress::More));
    let exists = bucket.answer(old.next(Twin::Second).unwrap());
    assert_eq!(old.answer(Twin::Second, exists), Ok(Progress::More));
    let theirs = bucket.answer(old.next(Twin::Second).unwrap());
    assert_eq!(old.answer(Twin::Second, theirs), Err(VolumeFault::Fenced));
    for reply in [Reply::Done, Reply::Unknown] {
        assert_eq!(old.answer(Twin::Second, reply), Err(VolumeFault::Fenced));
    }
}

fn removals(writer: &mut Writer) -> Vec<String> {
    let oldest = std::iter::from_fn(|| {
        let oldest = writer.removals(1, 0).pop()?;
        writer.removed(1);
        Some(oldest)
    });
    oldest.collect()
}

/// Whole chunks that are of no use. Records take a little too.
fn dead_chunks(writer: &Writer) -> u64 {
    writer.dead_bytes() >> 20
}

/// Invariant VB10.
#[test]
fn a_replaced_object_is_removed_once_a_map_of_a_record_without_it_is_there() {
    let mut bucket = Bucket::default();
    let mut writer = open(&mut bucket, writing(1, 64 << 20)).unwrap();
    let chunk = vec![1; 1 << 20];
    let names = [(); 5].map(|()| writer.name(Scope::All));
    writer.made(3, names[0], &chunk);
    commit(&mut bucket, &mut writer);
    assert_eq!(dead_chunks(&writer), 0);
    // One that no record named is of no use at once, and so is one that was given up.
    writer.made(3, names[1], &chunk);
    writer.made(3, names[2], &chunk);
    writer.not_made(names[3]);
    assert_eq!(
        writer.removals(9, (2 << 20) + PAGE as u64),
        [""; 0],
        "that much may stay"
    );
    let expected = [names[1], names[3]].map(|name| name.to_string());
    assert_eq!(removals(&mut writer), expected);
    commit(&mut bucket, &mut writer);
    assert_eq!(dead_chunks(&writer), 1);
    assert_eq!(removals(&mut writer), [""; 0], "no map covers that");
    assert!(
        writer.map_to_make((1 << 20) + PAGE as u64).is_none() && writer.map_to_make(0).is_some()
    );
    assert_eq!(
        removals(&mut writer),
        [""; 0],
        "nobody knows whether the map is there"
    );
    // It was not made. The next one covers the same.
    writer.made(3, names[4], &chunk);
    commit(&mut bucket, &mut writer);
    assert!(writer.map_to_make(0).is_some());
    writer.map_made();
    assert_eq!(
        removals(&mut writer)[..2],
        [names[0], names[2]].map(|name| name.to_string())
    );
    assert_eq!(dead_chunks(&writer), 0);
}

#[test]
fn a_record_in_doubt_makes_nothing_useless() {
    let mut bucket = Bucket::default();
    let mut writer = open(&mut bucket, writing(1, 64 << 20)).unwrap();
    let names = [writer.name(Scope::All), writer.name(Scope::All)];
    writer.made(3, names[0], &vec![1; 1 << 20]);
    commit(&mut bucket, &mut writer);
    writer.made(3, names[1], &vec![2; 1 << 20]);
    writer.seal();
    let made = bucket.answer(writer.next(Twin::Second).unwrap());
    assert_eq!(writer.answer(Twin::Second, made), Ok(Progress::More));
    let unknown = writer.answer(Twin::First, Reply::Unknown);
    assert_eq!(unknown, Ok(Progress::More));
    assert!(dead_chunks(&writer) == 0 && writer.map_after(0).is_none());
    let Some(Call::Get { key, .. }) = writer.next(Twin::First) else {
        panic!("it is asked for");
    };
    bucket.objects.insert(key, b"of another writer".to_vec());
    let theirs = bucket.answer(writer.next(Twin::First).unwrap());
    let fenced = writer.answer(Twin::First, theirs);
    assert_eq!(fenced, Err(VolumeFault::Fenced));
    assert!(dead_chunks(&writer) == 0 && writer.removals(1, 0).is_empty());
}

/// Invariants VB9 and VB10.
#[test]
fn records_are_removed_once_a_map_covers_them_and_nothing_lies_in_them() {
    let mut bucket = Bucket::default();
    let mut writer = open(&mut bucket, writing(1, 64 << 20)).unwrap();
    // The record 1 opens the volume. Pages 0 and 1 lie in 2, and then page 0 in 3.
    for (page, value) in [(0, 1), (1, 1)] {
        writer.stage(page, &[value; PAGE]);
    }
    commit(&mut bucket, &mut writer);
    writer.stage(0, &[2; PAGE]);
    commit(&mut bucket, &mut writer);
    writer.discard(9);
    writer.stage(0, &[3; PAGE]);
    commit(&mut bucket, &mut writer);
    assert!(writer.map_after(4).is_some() && writer.map_after(1).is_none());
    writer.map_made();
    assert_eq!(removals(&mut writer), [""; 0], "one map is there");
    // Page 1 moves on, and the next map covers that.
    let both = |number| Twin::BOTH.map(|twin| twin.key(number));
    writer.stage(8, &[4; PAGE]);
    commit(&mut bucket, &mut writer);
    assert!(writer.map_after(1).is_some());
    writer.map_made();
    assert_eq!(
        removals(&mut writer),
        [""; 0],
        "nothing says that records are removed"
    );
    let mark = writer.map_after(1).unwrap();
    let key = MAPPED_KEY.to_owned();
    assert!(matches!(mark.next(), Call::Make { key: made, .. } if made == key));
    writer.map_made();
    assert_eq!(
        removals(&mut writer),
        both(3),
        "1 opens the volume, page 1 is in 2, and 5 comes after the older map"
    );
    writer.stage(1, &[4; PAGE]);
    commit(&mut bucket, &mut writer);
    assert!(writer.map_after(1).is_some());
    assert_eq!(
        removals(&mut writer),
        [""; 0],
        "nobody knows whether the map is there"
    );
    writer.map_made();
    let [first, second] = both(2);
    assert_eq!(removals(&mut writer), [map_key(4), first, second]);
}

/// The second writer makes its opening record, and a third one takes the volume over and removes
/// what it replaced, before the second has looked for newer maps. Invariant VB11.
#[test]
fn a_writer_that_is_overtaken_while_it_opens_begins_with_what_is_there() {
    let mut bucket = Bucket::default();
    let mut first = open(&mut bucket, writing(1, 2 << 20)).unwrap();
    first.stage(17, &[1; PAGE]);
    commit(&mut bucket, &mut first);
    let taking_over = |writer| Writing {
        take_over: true,
        ..writing(writer, 2 << 20)
    };

    let mut second = Opening::new(Access::Write(taking_over(2)));
    while !bucket.objects.contains_key(&Twin::Second.key(3)) {
        let reply = bucket.answer(second.next());
        assert_eq!(second.answer(reply), Ok(Progress::More));
    }
    assert_eq!(second.next(), Call::List { prefix: MAP_PREFIX });

    let mut third = open(&mut bucket, taking_over(3)).unwrap();
    for value in [3, 4] {
        third.stage(17, &[value; PAGE]);
        commit(&mut bucket, &mut third);
        let map = third.map_after(1).unwrap();
        assert_eq!(bucket.answer(map.next()), Reply::Done);
        third.map_made();
    }
    let mark = third.map_after(1).unwrap();
    assert_eq!(bucket.answer(mark.next()), Reply::Done);
    third.map_made();
    for twin in Twin::BOTH {
        assert_eq!(third.removals(1, 0), [twin.key(2)]);
        bucket.answer(Call::Remove { key: twin.key(2) });
        third.removed(1);
    }

    let second = finish(&mut bucket, second).unwrap();
    let Source::Record { record, .. } = second.source(17) else {
        panic!("the page lies in a record");
    };
    assert!(bucket.objects.contains_key(&log_key(record)), "{record}");
    assert_eq!(second.map().epoch(), 4, "it takes the volume over again");
}

/// Invariant VB12, and nothing that came later is garbage for `gc`.
#[test]
fn a_record_holds_what_came_before_it_was_frozen_and_nothing_else() {
    let mut bucket = Bucket::default();
    let mut writer = open(&mut bucket, writing(1, 8 << 20)).unwrap();
    let chunk = |byte: u8| vec![byte; 1 << 20];
    writer.stage(3, &[1; PAGE]);
    writer.freeze();
    // A newer page at the same place, a whole chunk, and one that is being made.
    writer.stage(3, &[2; PAGE]);
    writer.stage(4, &[2; PAGE]);
    let (made, making) = (writer.name(Scope::All), writer.name(Scope::All));
    writer.made(5, made, &chunk(3));
    assert!(writer.is_of_all(making) && !writer.is_for_record(making));
    assert_eq!(writer.need(), Need::Record);
    assert_eq!(commit(&mut bucket, &mut writer), 2);
    let first = record(&bucket, &writer);
    let pages = vec![(3, vec![1; PAGE])];
    let chunks = vec![];
    assert_eq!(first.body, Body::Commit { chunks, pages });
    assert_eq!(first.settled, made.number);
    assert!(matches!(writer.source(3), Source::Memory(bytes) if bytes == [2; PAGE]));
    assert!(writer.has_changes());
    // The next record has the rest.
    assert_eq!(commit(&mut bucket, &mut writer), 2);
    let second = record(&bucket, &writer);
    let Body::Commit { chunks, pages } = second.body else {
        panic!("it is a commit");
    };
    assert_eq!(pages, [(3, vec![2; PAGE]), (4, vec![2; PAGE])]);
    assert!(matches!(chunks[..], [(5, Content::Object { name, .. })] if name == made));
    assert_eq!(second.settled, making.number);
}

/// Its commit gives up, and an object that was being made for it alone comes too late.
#[test]
fn what_was_frozen_and_given_up_is_for_the_next_record() {
    let mut bucket = Bucket::default();
    let mut writer = open(&mut bucket, writing(1, 8 << 20)).unwrap();
    writer.stage(3, &[1; PAGE]);
    writer.stage(4, &[1; PAGE]);
    writer.stage(1_000, &[1; PAGE]);
    writer.freeze();
    let late = writer.name(Scope::Record);
    assert!(writer.is_for_record(late) && !writer.is_of_all(late));
    writer.stage(4, &[2; PAGE]);
    writer.discard(1_000 / 256);
    writer.thaw();
    assert!(!writer.is_for_record(late));
    writer.made(0, late, &vec![9; 1 << 20]);
    let of = |page| match writer.source(page) {
        Source::Memory(bytes) => bytes[0],
        Source::Zeros => 0,
        other => panic!("{other:?}"),
    };
    assert_eq!([of(3), of(4), of(1_000)], [1, 2, 0]);
    assert_eq!(commit(&mut bucket, &mut writer), 2);
    assert_eq!(writer.staged_pages(), 0);
}
