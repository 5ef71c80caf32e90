//! The machine of a side world, and its cache.

use forebay_engine::event::EventSink;
use forebay_engine::lab::LabCache;
use forebay_engine::{Cache, Parts, Settings};
use forebay_kernels::Policy;
use forebay_rt::{Rt, Virtual, VirtualSettings};
use std::sync::Arc;

/// A machine in virtual time with the chances of `seed`.
pub(super) fn machine_of(seed: u64) -> Virtual {
    Virtual::new(VirtualSettings {
        seed,
        ..VirtualSettings::default()
    })
}

/// A cache under `policy` on the machine of `rt` that reports its events to `sink`.
pub(super) fn open_cache(
    rt: &Rt,
    settings: Settings,
    policy: Policy,
    sink: Option<Arc<dyn EventSink>>,
) -> Cache {
    let parts = Parts {
        rt: rt.clone(),
        sink,
    };
    Cache::of_kernel(settings, parts, policy.kernel()).expect("the settings are good")
}
