//! What older kernels did, for the policies that ask for it. Nothing here runs under today's
//! policies: `doors.rs` is the only way in.
//!
//! | file | what it does |
//! |---|---|
//! | `steps` | the steps of a run of reclaim, of which the next three have the bodies |
//! | `writeback` | file pages written by a reclaimer (before 6.16) |
//! | `caches` | closed files that took their pages along (before 5.16) |
//! | `naps` | waits for congestion (before 5.16) and the first waits for events |
//! | `kswapd` | the life of a kswapd with other rules than today's |
//! | `sleep` | when it slept (before 5.3) |
//! | `zones` | how it balances each zone (before 4.8) |
//! | `foreground` | writers that write themselves (before 3.2) |

mod caches;
mod foreground;
mod kswapd;
mod naps;
mod sleep;
mod steps;
mod writeback;
mod zones;

pub(crate) use self::foreground::Foreground;
pub(crate) use self::steps::Older;
