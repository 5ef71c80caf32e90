//! Tests of whole caches in virtual time.
//!
//! They are one program, because a program takes as long to build as all of these to run. Tests of
//! real threads, of the process's memory and of its end have programs of their own.

#[path = "../support/mod.rs"]
mod support;

mod advice;
mod anonymous;
mod at_risk;
mod bad_input;
mod between;
mod cancel;
mod charges;
mod closed_files;
mod commits_beside;
mod drain;
mod elastic;
mod errors;
mod eviction;
mod forgotten;
mod history_reclaim;
mod history_throttle;
mod idle;
mod idle_anonymous;
mod journeys;
mod many_objects;
mod memory;
mod model;
mod phantom;
mod read_in_order;
mod readahead;
mod reclaim;
mod resize;
mod retries;
mod scattered;
mod shared_syncs;
mod shrinkers;
mod silence;
mod stores;
mod swap_refused;
mod swapahead;
mod sync_range;
mod throttle;
mod troubles;
mod unstable;
mod why;
mod why_advice;
mod write_units;
mod zones;
