//! What older kernels did, for the policies that ask for it. Nothing here runs under today's:
//! a flow asks `policy/past.rs` first.
//!
//! | file | what it does |
//! |---|---|
//! | `writeback` | file pages written by a reclaimer (before 6.16) |
//! | `naps` | waits for congestion (before 5.16) and the first waits for events |
//! | `sleep` | when kswapd slept (before 5.3) |
//! | `zones` | kswapd that balances each zone (before 4.8) |
//! | `foreground` | writers that write themselves (before 3.2) |

mod foreground;
mod naps;
pub(crate) mod sleep;
mod writeback;
mod zones;
