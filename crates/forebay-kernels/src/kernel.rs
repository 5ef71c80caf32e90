//! What a cache is built with so that it works by a policy.
//!
//! Where older kernels had another flow, the doors look at a field of [`Past`]. If they differed
//! only in a value, or lacked a part, that is a field of [`KernelValues`].

use crate::Policy;
use crate::doors::FlowsOfPolicy;
use crate::lists::PastLists;
use crate::past::Past;
use crate::policy::{
    ClosedFiles, DirtyThrottle, Eviction, KswapdBalance, Readahead, ReclaimThrottle, ScanBalance,
    StoreShares, WatermarkSpacing,
};
use crate::s3_fifo::S3Fifo;
use forebay_engine::kernel::{KernelValues, PastFileSystem};
use forebay_engine::lab::Kernel;
use forebay_engine::lists::{Rule, TwoLists};
use forebay_engine::parts::OlderFlows;
use forebay_law::pause::Tick;
use std::sync::Arc;

impl Policy {
    /// What a cache is built with so that it works by this policy. Writers count pauses in ticks
    /// of a millisecond.
    pub fn kernel(&self) -> Kernel {
        self.kernel_with_tick(Tick::of_ms(1))
    }

    /// The same, with `tick` for pauses that are not cut fine.
    pub fn kernel_with_tick(&self, tick: Tick) -> Kernel {
        let is_paced = self.dirty_throttle == DirtyThrottle::Paced;
        let past = Past::of(self);
        let flows = FlowsOfPolicy {
            policy: *self,
            past,
        };
        let values = KernelValues {
            rule: rule_of(self),
            quarters_marks: self.watermark_spacing == WatermarkSpacing::Quarter,
            dirtyable: self.dirtyable,
            write_depth: self.write_depth,
            estimate: self.estimate,
            counts_periods: self.store_shares == StoreShares::Counted,
            is_paced,
            pause_tick: if is_paced { Tick::FINE } else { tick },
            // 3.6 and later.
            has_gates: self.reclaim_throttle > ReclaimThrottle::Linux32,
            balances_zones: self.kswapd_balance == KswapdBalance::Zones,
            strips_closed_files: self.closed_files <= ClosedFiles::Stripped,
            readahead_is_fixed: self.readahead == Readahead::Fixed,
            counts_clean_swap: self.scan_balance == ScanBalance::Cost,
        };
        Kernel {
            values,
            flows: (past != Past::default()).then(|| Arc::new(flows) as Arc<dyn OlderFlows>),
        }
    }

    /// What a cache under this policy asks of the file system that a store stands for.
    pub fn asks(&self, file_system: PastFileSystem) -> PastFileSystem {
        PastFileSystem {
            congestion: file_system.congestion.filter(|_| self.naps()),
            inodes: file_system.inodes.filter(|_| self.awaits_inodes()),
            ..file_system
        }
    }
}

/// The rule of eviction that `policy` asks for.
fn rule_of(policy: &Policy) -> Arc<dyn Rule> {
    match (policy.eviction, PastLists::of(policy)) {
        (Eviction::S3Fifo, _) => Arc::new(S3Fifo),
        (Eviction::TwoLists, Some(past)) => Arc::new(past),
        (Eviction::TwoLists, None) => Arc::new(TwoLists),
    }
}
