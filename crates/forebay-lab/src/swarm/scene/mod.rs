//! The scene: what the side worlds and the soak have in common.
//!
//! A scene is data: the settings of a cache, its stores with their rates and faults, and the crews
//! that work on them (`plan`). A stage plays a scene in virtual time (`stage`). An oracle is an
//! observer: it sees each event of the engine, each call above and each request below the cache,
//! and the cache itself at each look (`observer`). Each scene has an oracle of its own. Three
//! more judge every scene (`recomputed`, `shares` and `busy`).

mod actors;
mod busy;
mod observed_store;
mod observer;
mod plan;
mod recomputed;
mod shares;
mod stage;

pub(super) use actors::{Actor, SYNCER_RESTS};
pub(super) use observer::{Call, Moment, Observer, Request, SceneIo};
pub use plan::Scene;
pub(super) use plan::{Crew, ENDLESS, SWAP, Site, Syncing};
pub(super) use stage::{Stage, judge, judge_play};
