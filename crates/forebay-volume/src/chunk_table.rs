//! The objects of the chunks of a volume: 16 bytes for each chunk of which one is there, and for
//! the holes between them.

use crate::checksum::crc32c;
use crate::fault::VolumeFault;
use crate::name::ChunkName;

/// Chunks of a block.
const BLOCK: usize = 1024;
/// Bytes for each chunk.
pub(crate) const ENTRY_BYTES: u64 = 16;

/// An object with a chunk, and its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkObject {
    /// Its name.
    pub name: ChunkName,
    /// The checksum of its bytes.
    pub crc: u32,
}

impl ChunkObject {
    /// Whether `bytes` are those of this object, which has `length_bytes`.
    ///
    /// # Errors
    /// [`VolumeFault::Damaged`].
    pub fn check(&self, bytes: &[u8], length_bytes: u64) -> Result<(), VolumeFault> {
        let what = match bytes {
            _ if bytes.len() as u64 != length_bytes => "its length",
            _ if crc32c(bytes) != self.crc => "its checksum",
            _ => return Ok(()),
        };
        let key = self.name.to_string();
        Err(VolumeFault::Damaged { key, what })
    }
}

/// Neighbouring chunks. Epochs begin with 1, so that 0 is a hole.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    used: usize,
    epochs: [u32; BLOCK],
    crcs: [u32; BLOCK],
    numbers: [u64; BLOCK],
}

/// See above. A block without chunks takes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkTable {
    blocks: Vec<Option<Box<Block>>>,
    count: usize,
}

fn place(chunk: u64) -> (usize, usize) {
    let chunk = chunk as usize;
    (chunk / BLOCK, chunk % BLOCK)
}

impl Block {
    fn get(&self, at: usize) -> Option<ChunkObject> {
        let name = ChunkName {
            epoch: self.epochs[at].into(),
            number: self.numbers[at],
        };
        let crc = self.crcs[at];
        (name.epoch > 0).then_some(ChunkObject { name, crc })
    }
}

impl ChunkTable {
    pub(crate) fn get(&self, chunk: u64) -> Option<ChunkObject> {
        let (block, at) = place(chunk);
        self.blocks.get(block)?.as_ref()?.get(at)
    }

    /// How many chunks are there.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// # Panics
    /// If the epoch is none that a writer has.
    pub(crate) fn insert(&mut self, chunk: u64, object: ChunkObject) {
        let (block, at) = place(chunk);
        if self.blocks.len() <= block {
            self.blocks.resize(block + 1, None);
        }
        let block = self.blocks[block].get_or_insert_with(|| {
            Box::new(Block {
                used: 0,
                epochs: [0; BLOCK],
                crcs: [0; BLOCK],
                numbers: [0; BLOCK],
            })
        });
        let is_new = usize::from(block.epochs[at] == 0);
        block.used += is_new;
        self.count += is_new;
        block.epochs[at] = u32::try_from(object.name.epoch).expect("records have been judged");
        block.crcs[at] = object.crc;
        block.numbers[at] = object.name.number;
    }

    pub(crate) fn remove(&mut self, chunk: u64) {
        if self.get(chunk).is_none() {
            return;
        }
        let (at_block, at) = place(chunk);
        self.count -= 1;
        if let Some(block) = &mut self.blocks[at_block] {
            block.used -= 1;
            (block.epochs[at], block.crcs[at], block.numbers[at]) = (0, 0, 0);
            if block.used > 0 {
                return;
            }
        }
        self.blocks[at_block] = None;
        while let Some(None) = self.blocks.last() {
            self.blocks.pop();
        }
    }

    /// Every chunk that is there, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, ChunkObject)> + '_ {
        let blocks = self.blocks.iter().enumerate();
        blocks.flat_map(|(index, block)| {
            let first = (index * BLOCK) as u64;
            let entries = block
                .iter()
                .flat_map(|block| (0..BLOCK).map(|at| block.get(at)));
            let numbered = (first..).zip(entries);
            numbered.filter_map(|(chunk, object)| Some((chunk, object?)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_base::Prng;
    use std::collections::BTreeMap;

    #[test]
    fn it_holds_what_a_map_of_another_kind_holds() {
        let mut prng = Prng::from_seed(7);
        let (mut table, mut twin) = (ChunkTable::default(), BTreeMap::new());
        for _ in 0..20_000 {
            let chunk = prng.below(4) * 1_000 + prng.below(30);
            if prng.chance(1, 2) {
                table.remove(chunk);
                twin.remove(&chunk);
            } else {
                let (epoch, number) = (1 + prng.below(9), prng.next_u64());
                let name = ChunkName { epoch, number };
                let object = ChunkObject {
                    name,
                    crc: prng.next_u64() as u32,
                };
                table.insert(chunk, object);
                twin.insert(chunk, object);
            }
            assert_eq!(
                (table.get(chunk), table.len()),
                (twin.get(&chunk).copied(), twin.len())
            );
        }
        assert!(
            table
                .iter()
                .eq(twin.iter().map(|(&chunk, &object)| (chunk, object)))
        );
        for chunk in 0..4_000 {
            table.remove(chunk);
        }
        assert_eq!(table, ChunkTable::default());
    }

    #[test]
    fn a_chunk_takes_sixteen_bytes() {
        let overhead = size_of::<usize>();
        assert_eq!(size_of::<Block>() - overhead, BLOCK * ENTRY_BYTES as usize);
    }
}
