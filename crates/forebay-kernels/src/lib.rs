//! Older kernels over the parts of the engine: what the lab compares with today's. No product links
//! it.
//!
//! A [`Policy`] has a value for each historic choice, and [`Policy::kernel`] is what a cache is
//! built with. Where an older kernel had another flow, the flow is here, and the engine calls it at
//! one of its doors. Where it differed in a value, the state is made with that value.
//!
//! | file | what it does |
//! |---|---|
//! | `policy` | the choices, and named sets of them |
//! | `past` | what a policy takes over from older kernels |
//! | `kernel` | what a cache is built with so that it works by a policy |
//! | `doors` | where the engine calls |
//! | `steps` | the steps of a run of reclaim, of which the next three have the bodies |
//! | `writeback` | file pages written by a reclaimer (before 6.16) |
//! | `caches` | closed files that took their pages along (before 5.16) |
//! | `naps` | waits for congestion (before 5.16) and the first waits for events |
//! | `kswapd` | the life of a kswapd with other rules than today's |
//! | `sleep` | when it slept (before 5.3) |
//! | `zones` | how it balances each zone (before 4.8) |
//! | `foreground` | writers that write themselves (before 3.2) |
//! | `lists` | how the rules of eviction differ |
//! | `s3_fifo` | another rule of eviction |
//!
//! ```
//! use forebay_engine::lab::LabCache;
//! use forebay_engine::settings::Parts;
//! use forebay_engine::{Cache, Settings};
//! use forebay_kernels::Policy;
//!
//! let policy = Policy::preset("linux-3.0").expect("it is one of the presets");
//! let settings = Settings { memory_bytes: 8 << 20, ..Settings::default() };
//! let cache = Cache::of_kernel(settings, Parts::default(), policy.kernel())?;
//! # Ok::<(), forebay_engine::BuildError>(())
//! ```

mod caches;
mod doors;
#[cfg(all(test, not(loom)))]
mod fixtures;
mod foreground;
mod kernel;
mod kswapd;
mod lists;
mod naps;
mod past;
pub mod policy;
mod s3_fifo;
mod sleep;
mod steps;
mod writeback;
mod zones;

pub use self::policy::Policy;

use self::foreground::Foreground;
use self::steps::Older;
