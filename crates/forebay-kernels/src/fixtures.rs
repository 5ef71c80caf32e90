//! Machines under older kernels, for tests.

use crate::doors::FlowsOfPolicy;
use crate::past::Past;
use crate::{Older, Policy};
use forebay_engine::engine::Engine;
use forebay_engine::event::EventRing;
use forebay_engine::settings::{Parts, Settings};
use forebay_rt::{Virtual, VirtualSettings};
use std::sync::Arc;

/// The usual settings of tests: 4 MiB, touched when they are used.
pub(crate) fn small() -> Settings {
    Settings {
        memory_bytes: 4 << 20,
        prefault: false,
        ..Settings::default()
    }
}

/// The policy called `name`.
pub(crate) fn preset(name: &str) -> Policy {
    Policy::preset(name).expect("a preset of this name")
}

/// What the policy takes over.
pub(crate) fn flows(policy: Policy) -> FlowsOfPolicy {
    FlowsOfPolicy {
        policy,
        past: Past::of(&policy),
    }
}

/// An engine without daemons, what it reports, and the flows of its kernel.
pub(crate) struct Bare {
    pub(crate) world: Virtual,
    pub(crate) engine: Arc<Engine>,
    pub(crate) ring: Arc<EventRing>,
    pub(crate) flows: FlowsOfPolicy,
}

impl Bare {
    pub(crate) fn under(policy: Policy, settings: Settings) -> Bare {
        let world = Virtual::new(VirtualSettings::default());
        let ring = Arc::new(EventRing::new(100));
        let parts = Parts {
            rt: world.rt(),
            sink: Some(ring.clone()),
        };
        let engine = Engine::new(settings, parts, policy.kernel());
        Bare {
            world,
            engine: engine.expect("the settings are good"),
            ring,
            flows: flows(policy),
        }
    }

    /// The steps of the kernel.
    pub(crate) fn older(&self) -> Older<'_> {
        self.flows.older(&self.engine.reclaim)
    }
}
