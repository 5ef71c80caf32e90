//! Orders of the steps of threads on whole small caches, drawn by the explorer of forebay-rt:
//! callers, daemons, the runtime's own threads and a store's change at each lock, atomic and
//! wake-up. Run by
//! `RUSTFLAGS="--cfg shuttle" cargo test -p forebay-engine --test schedules`.
//!
//! Time passes only when no thread can go on, and the store answers without delay. So if time
//! passes, it is in a pause that a law made or in a wait that was not ended by its event.
#![cfg(shuttle)]

#[path = "schedules/armed.rs"]
mod armed;
#[path = "schedules/bench.rs"]
mod bench;
#[path = "schedules/callers.rs"]
mod callers;
#[path = "schedules/durable.rs"]
mod durable;
#[path = "schedules/limits.rs"]
mod limits;
#[path = "schedules/short.rs"]
mod short;
#[path = "schedules/store.rs"]
mod store;
#[path = "support/versions.rs"]
mod versions;
#[path = "schedules/whole.rs"]
mod whole;

const PAGE: usize = 4096;
