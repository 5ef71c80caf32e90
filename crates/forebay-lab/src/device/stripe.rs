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

    /// The member that has the byte `start_bytes`, where on it, and how far its chunk goes on.
    fn place(&self, start_bytes: u64) -> (&Arc<dyn Device>, u64, u64) {
        let chunk = start_bytes / self.chunk_bytes;
        let offset = start_bytes % self.chunk_bytes;
        let members = self.members.len() as u64;
        let member = &self.members[(chunk % members) as usize];
        let on_member = chunk / members * self.chunk_bytes + offset;
        (member, on_member, self.chunk_bytes - offset)
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
        }
    }

    fn submit(&self, mut transfer: Transfer) {
        if transfer.kind == TransferKind::Flush {
            for member in &self.members[1..] {
                member.submit(transfer.cut_front(0, 0));
            }
            return self.members[0].submit(transfer);
        }
        loop {
            let (member, on_member, left) = self.place(transfer.start_bytes);
            if transfer.length_bytes <= left {
                transfer.start_bytes = on_member;
                return member.submit(transfer);
            }
            member.submit(transfer.cut_front(left, on_member));
        }
    }

    /// An array is congested if one of its members is.
    fn is_congested(&self, kind: TransferKind) -> bool {
        self.members.iter().any(|member| member.is_congested(kind))
    }

    /// The sums over the members, but for the busy time, which is their mean.
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
