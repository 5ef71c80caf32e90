//! The two bodies of a runtime, and what sleeps and yields ask of either.

use crate::real::Real;
use crate::virt::Simulation;
use forebay_base::Instant;
use std::fmt;
use std::sync::Arc;

#[derive(Clone)]
pub(crate) enum Body {
    Real(Arc<Real>),
    Virtual(Arc<Simulation>),
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Body::Real(_) => "real",
            Body::Virtual(_) => "virtual",
        })
    }
}

impl From<Arc<Simulation>> for Body {
    fn from(simulation: Arc<Simulation>) -> Body {
        Body::Virtual(simulation)
    }
}

impl Body {
    /// Time since it started.
    pub(crate) fn now(&self) -> Instant {
        match self {
            Body::Real(real) => real.now(),
            Body::Virtual(simulation) => simulation.now(),
        }
    }

    /// Puts the running task after the others that are ready.
    pub(crate) fn give_way(&self) {
        if let Body::Virtual(simulation) = self {
            simulation.give_way();
        }
    }
}
