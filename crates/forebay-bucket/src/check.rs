//! Reads everything that a volume consists of.

use crate::abreast::abreast;
use crate::error::BucketError;
use crate::volume_client::VolumeClient;
use forebay_volume::{
    Call, ChunkName, ChunkObject, LOG_PREFIX, MAP_PREFIX, MAPPED_KEY, Manifest, Map, Opened,
    PageFormat, Record, Snapshot, SnapshotName, TWIN_PREFIX, Twin, VolumeFault, check_wrapped,
    map_key, number_of, wrapped_key,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Objects with chunks that were read and are whole, and pages in records.
    pub chunks: u64,
    /// Pages in records that were read and are whole.
    pub pages: u64,
    /// Each object that is missing or damaged, with what is wrong.
    pub faults: Vec<String>,
    /// What is missing and may never have been there.
    pub notes: Vec<String>,
}

impl Checked {
    /// The object `key` was found like this; none if it is missing.
    fn note(&mut self, key: &str, found: Option<Result<(), VolumeFault>>) {
        match found {
            None => self.faults.push(missing(key)),
            Some(Ok(())) => {}
            Some(Err(fault)) => self.faults.push(fault.to_string()),
        }
    }
}

/// What is read.
pub(crate) enum Item {
    /// An object with a chunk, and its length.
    Chunk(ChunkObject, u64),
    /// Both copies of a record, and how many pages of it are needed.
    Record(u64, u64),
    Map(u64),
    /// The object [`MAPPED_KEY`].
    Mapped,
    /// Both copies of a wrapped key of the volume.
    Key(u64),
    /// Both copies of a snapshot.
    Snapshot(SnapshotName),
}

impl VolumeClient {
    /// Reads all that `opened` consists of.
    pub(crate) fn check(self: &Arc<VolumeClient>, opened: &Opened) -> Result<Checked, BucketError> {
        let mut items = self.items(opened)?;
        items.extend(self.snapshot_items(opened)?);
        let (volume, manifest, last) = (self.clone(), opened.manifest, opened.map.number());
        let checked = abreast(items, move |item| volume.check_item(&manifest, &item, last))?;
        let mut all = Checked::default();
        for mut one in checked {
            all.chunks += one.chunks;
            all.pages += one.pages;
            all.faults.append(&mut one.faults);
            all.notes.append(&mut one.notes);
        }
        all.faults.sort();
        Ok(all)
    }

    /// The snapshots of the volume, and what they hold that `opened` has not.
    pub(crate) fn snapshot_items(&self, opened: &Opened) -> Result<Vec<Item>, BucketError> {
        let manifest = &opened.manifest;
        let names = opened.map.chunks().map(|(_, object)| object.name);
        let mut chunks: BTreeSet<ChunkName> = names.collect();
        let numbers = opened.map.needed_records().map(|(number, _)| number);
        let mut records: BTreeSet<u64> = numbers.collect();
        let mut items = Vec::new();
        for name in self.snapshot_names()? {
            items.push(Item::Snapshot(name));
            // What is wrong with it is found when it is checked.
            let Ok(Snapshot { map, .. }) = self.snapshot(manifest, name) else {
                continue;
            };
            let objects = map
                .chunks()
                .filter(|(_, object)| chunks.insert(object.name));
            // It may have been of another length.
            let manifest = map.manifest(manifest);
            items.extend(objects.map(|(chunk, it)| Item::Chunk(it, manifest.object_bytes(chunk))));
            let new = map
                .needed_records()
                .filter(|(number, _)| records.insert(*number));
            items.extend(new.map(|(number, pages)| Item::Record(number, pages)));
        }
        Ok(items)
    }

    /// All that `opened` consists of, but for the manifest.
    pub(crate) fn items(&self, opened: &Opened) -> Result<Vec<Item>, BucketError> {
        let map = &opened.map;
        let manifest = opened.manifest;
        let chunks = map
            .chunks()
            .map(|(chunk, object)| Item::Chunk(object, manifest.object_bytes(chunk)));
        let mut items: Vec<Item> = chunks.collect();
        // Two maps stay, and all records after the older one, which the record of the newer names.
        let older = if self.is_old_map(opened.base)? {
            // Programs of that format kept one map, and only the records after it.
            opened.base
        } else {
            opened.older.max(self.mapped_of(opened.base)?)
        };
        // What a clone has of its parent begins with no map.
        let older = older.max(manifest.shared.map_or(0, |it| it.record));
        let listed = numbers(&self.client.list(MAP_PREFIX)?, MAP_PREFIX);
        let named = [older, opened.base, opened.mapped].into_iter();
        let maps: BTreeSet<u64> = listed.into_iter().chain(named).collect();
        // Newer ones belong to a later state.
        let maps = maps.range(older.max(1)..=map.number());
        items.extend(maps.map(|&number| Item::Map(number)));
        let records = (older + 1..=map.number()).chain(map.openings().iter().copied());
        let mut pages_of: BTreeMap<u64, u64> = records.map(|number| (number, 0)).collect();
        pages_of.extend(map.needed_records());
        items.extend(
            pages_of
                .iter()
                .map(|(&number, &pages)| Item::Record(number, pages)),
        );
        let mut there = numbers(&self.client.list(LOG_PREFIX)?, LOG_PREFIX);
        there.extend(numbers(&self.client.list(TWIN_PREFIX)?, TWIN_PREFIX));
        let is_complete = (1..=older).all(|number| there.contains(&number));
        // A program that kept one map has removed records without that object.
        if !is_complete && older < opened.base && !self.is_old_map(older)? {
            items.push(Item::Mapped);
        }
        if manifest.pages == PageFormat::Encrypted {
            let mut numbers = self.key_numbers(manifest.id)?;
            if numbers.is_empty() {
                numbers.insert(1);
            }
            items.extend(numbers.into_iter().map(Item::Key));
        }
        Ok(items)
    }

    /// Whether the map as of record `number` was made by a program that kept one map.
    fn is_old_map(&self, number: u64) -> Result<bool, BucketError> {
        if number == 0 {
            return Ok(false);
        }
        let call = Call::Get {
            key: map_key(number),
            range: Some(0..Map::HEAD_BYTES),
        };
        Ok(self
            .client
            .get(&call)?
            .is_some_and(|head| Map::is_first_format(&head)))
    }

    /// The map that record `number` names; 0 if nothing says it.
    fn mapped_of(&self, number: u64) -> Result<u64, BucketError> {
        for twin in Twin::BOTH {
            if let Ok(copy) = self.copy(twin, number)? {
                return Ok(copy.mapped);
            }
        }
        Ok(0)
    }

    /// A copy of record `number`, or what is wrong with it.
    fn copy(
        &self,
        twin: Twin,
        number: u64,
    ) -> Result<Result<RecordCopy, VolumeFault>, BucketError> {
        let key = twin.key(number);
        let Some(bytes) = self.client.object(&key)? else {
            return Ok(Err(VolumeFault::Missing { key }));
        };
        Ok(match Record::decode(number, &bytes) {
            Ok((record, _)) => Ok(RecordCopy {
                mapped: record.mapped,
                has_twin: Record::has_twin(&bytes),
            }),
            Err(VolumeFault::Damaged { what, .. }) => Err(VolumeFault::Damaged { key, what }),
            Err(fault) => Err(fault),
        })
    }

    fn check_item(
        &self,
        manifest: &Manifest,
        item: &Item,
        last: u64,
    ) -> Result<Checked, BucketError> {
        let mut checked = Checked::default();
        match *item {
            Item::Chunk(object, length_bytes) => {
                let key = object.name.to_string();
                let found = self.client.object(&key)?;
                checked.note(&key, found.map(|it| object.check(&it, length_bytes)));
                checked.chunks = u64::from(checked.faults.is_empty());
            }
            Item::Record(number, pages) => {
                self.check_record(number, pages, number == last, &mut checked)?;
            }
            Item::Map(number) => {
                let key = map_key(number);
                let decode = |bytes: Vec<u8>| Map::decode(manifest, number, &bytes).map(drop);
                checked.note(&key, self.client.object(&key)?.map(decode));
            }
            Item::Mapped if self.client.object(MAPPED_KEY)?.is_none() => {
                checked.faults.push(missing(MAPPED_KEY));
            }
            Item::Mapped => {}
            Item::Snapshot(name) => {
                for twin in Twin::BOTH {
                    let key = name.key(twin);
                    let decode = |it: Vec<u8>| Snapshot::decode(manifest, &key, &it).map(drop);
                    checked.note(&key, self.client.object(&key)?.map(decode));
                }
            }
            Item::Key(number) => {
                for twin in Twin::BOTH {
                    let key = wrapped_key(manifest.id, twin, number);
                    let check = |it: Vec<u8>| check_wrapped(manifest.id, number, &key, &it);
                    checked.note(&key, self.client.object(&key)?.map(check));
                }
            }
        }
        Ok(checked)
    }

    fn check_record(
        &self,
        number: u64,
        pages: u64,
        is_last: bool,
        checked: &mut Checked,
    ) -> Result<(), BucketError> {
        let mut faults = Vec::new();
        let mut has_twin = true;
        for twin in Twin::BOTH {
            match self.copy(twin, number)? {
                Ok(copy) => {
                    checked.pages = pages;
                    has_twin = copy.has_twin;
                }
                // A program that knew no second copies made it.
                Err(VolumeFault::Missing { .. }) if twin == Twin::Second && !has_twin => {}
                Err(fault) => faults.push(fault),
            }
        }
        match &faults[..] {
            [VolumeFault::Missing { key }] if is_last => checked.notes.push(format!(
                "{key} is missing, one of two copies of the last record: its writer was stopped in \
                 the middle of a commit, or it was lost; the next writer makes it again"
            )),
            _ => checked
                .faults
                .extend(faults.iter().map(VolumeFault::to_string)),
        }
        Ok(())
    }
}

/// What a copy of a record says.
struct RecordCopy {
    mapped: u64,
    has_twin: bool,
}

fn missing(key: &str) -> String {
    let key = key.to_owned();
    VolumeFault::Missing { key }.to_string()
}

fn numbers(keys: &[(String, u64)], prefix: &str) -> BTreeSet<u64> {
    let numbers = keys.iter().filter_map(|(key, _)| number_of(key, prefix));
    numbers.collect()
}
