//! Several equal devices side by side, RAID-0: chunk `i` is on member `i % members`.

use super::statistics::Statistics;
use super::transfer::{Transfer, TransferKind};
use super::{Device, Shape};
use forebay_base::sync::Arc;
use forebay_store::Rate;

/// An array without redundancy.
pub struct Stripe {
    members: Vec<Arc<dyn Device>>,
    chunk_bytes: u64,
}

impl Stripe {
    /// The devices `members`, which are equal, in chunks of `chunk_bytes`.
    ///
    /// # Panics
    /// If there is no member or no chunk.
    pub fn new(members: Vec<Arc<dyn Device>>, chunk_bytes: u64) -> Stripe {
        assert!(
            !members.is_empty() && chunk_bytes > 0,
            "an array has members and chunks"
        );
        Stripe {
            members,
            chunk_bytes,
        }
    }

    /// How many of the first `bytes` bytes of the array are on the member numbered `member`; there
    /// the next byte on that member lies.
    fn on_member(&self, member: u64, bytes: u64) -> u64 {
        let row_bytes = self.chunk_bytes * self.members.len() as u64;
        let in_row = (bytes % row_bytes).saturating_sub(member * self.chunk_bytes);
        bytes / row_bytes * self.chunk_bytes + in_row.min(self.chunk_bytes)
    }
}

impl Device for Stripe {
    fn shape(&self) -> Shape {
        let member = self.members[0].shape();
        let members = self.members.len() as u64;
        let chunks = member.capacity_bytes / self.chunk_bytes;
        Shape {
            capacity_bytes: chunks * self.chunk_bytes * members,
            largest_bytes: member.largest_bytes,
            queue_depth: member.queue_depth.saturating_mul(members as u32),
            stable_pages: member.stable_pages,
        }
    }

    fn submit(&self, mut transfer: Transfer) {
        if transfer.kind == TransferKind::Flush {
            for member in &self.members[1..] {
                member.submit(transfer.cut_front(0, 0));
            }
            return self.members[0].submit(transfer);
        }
        let (start, end) = (transfer.start_bytes, transfer.end_bytes());
        let first = start / self.chunk_bytes;
        let members = self.members.len() as u64;
        // What of the range is on one member lies there in one piece.
        for number in (first..first + members).map(|chunk| chunk % members) {
            let from = self.on_member(number, start);
            let to = self.on_member(number, end);
            if from < to {
                let piece = transfer.cut_front(to - from, from);
                self.members[number as usize].submit(piece);
            }
        }
        // What is left is the piece that holds the others together.
        transfer.piece.ended();
    }

    /// An array is congested if one of its members is.
    fn is_congested(&self, kind: TransferKind) -> bool {
        self.members.iter().any(|member| member.is_congested(kind))
    }

    /// The sums over the members, except for the busy time, which is their mean.
    fn statistics(&self) -> Statistics {
        let mut totals = Statistics::default();
        for member in &self.members {
            totals = totals.plus(&member.statistics());
        }
        let mean = totals.busy.as_nanos() / self.members.len() as u64;
        totals.busy = forebay_base::Span::from_nanos(mean);
        totals
    }

    fn set_pace(&self, thousandths: u32) {
        for member in &self.members {
            member.set_pace(thousandths);
        }
    }

    fn set_rate(&self, _rate: Rate) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;
    use forebay_base::Prng;

    /// An array of devices that note what they get.
    struct Noting(forebay_base::sync::Mutex<Vec<(u64, u64)>>);

    impl Device for Noting {
        fn shape(&self) -> Shape {
            Shape {
                capacity_bytes: 1 << 30,
                largest_bytes: 512 << 10,
                queue_depth: 128,
                stable_pages: true,
            }
        }

        fn submit(&self, transfer: Transfer) {
            let range = (transfer.start_bytes, transfer.length_bytes);
            forebay_base::sync::lock(&self.0).push(range);
            transfer.piece.ended();
        }

        fn is_congested(&self, _kind: TransferKind) -> bool {
            false
        }

        fn statistics(&self) -> Statistics {
            Statistics::default()
        }

        fn set_pace(&self, _thousandths: u32) {}

        fn set_rate(&self, _rate: Rate) -> bool {
            false
        }
    }

    #[test]
    fn each_byte_goes_to_its_chunk() {
        const CHUNK: u64 = 64 << 10;
        let mut chance = Prng::from_seed(3);
        for members in [1, 3, 4] {
            for _ in 0..200 {
                let noting = |_| Arc::new(Noting(forebay_base::sync::Mutex::default()));
                let notes: Vec<Arc<Noting>> = (0..members).map(noting).collect();
                let mut devices: Vec<Arc<dyn Device>> = Vec::new();
                for member in &notes {
                    devices.push(member.clone());
                }
                let stripe = Stripe::new(devices, CHUNK);
                let start = chance.below(300) << 12;
                let length = (1 + chance.below(300)) << 12;
                stripe.submit(Transfer::unheard(TransferKind::Write, start, length));
                for (member, notes) in notes.iter().enumerate() {
                    let mut expected: Vec<u64> = (start >> 12..(start + length) >> 12)
                        .filter(|page| page / 16 % members == member as u64)
                        .map(|page| page / 16 / members * 16 + page % 16)
                        .collect();
                    expected.sort_unstable();
                    let got: Vec<u64> = forebay_base::sync::lock(&notes.0)
                        .iter()
                        .flat_map(|&(from, bytes)| from >> 12..(from + bytes) >> 12)
                        .collect();
                    assert_eq!(got, expected, "{length} bytes at {start}");
                }
            }
        }
    }

    #[test]
    fn an_array_is_congested_if_a_member_is() {
        let bench = Bench::named("RAID0-4");
        for index in 0..120 {
            // Chunks of the second member alone.
            let start = index * (256 << 20) + (64 << 10);
            bench.submit(TransferKind::Write, start, 4096);
        }
        assert!(bench.device.is_congested(TransferKind::Write));
        bench.finish();
        assert!(!bench.device.is_congested(TransferKind::Write));
    }
}
