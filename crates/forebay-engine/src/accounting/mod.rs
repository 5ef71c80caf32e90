//! Accounting: what is counted and what follows from the counts. Nothing here waits.
//!
//! | file | what it says |
//! |---|---|
//! | `records` | counters, marks and events |
//! | `transitions` | each transition of a dirty page moves its counters here |
//! | `limits` | how many pages may be dirty: in all, of a store, in a zone |
//! | `drain` | how many pages of a store may be dirty for its promise in seconds |
//! | `elastic` | a budget that follows the memory of the machine |
//! | `rates` | how fast a store writes, and the base rate of its writers |
//! | `activity` | what is at work for a store, and which writers pause for it |
//! | `size` | what the budget gives the zones, once objects have taken their part |
//! | `drop` | clean pages that go before reclaim reaches them |
//! | `calls` | what a call waits for, and what its end reports |
//! | `why` | which suspect the ledger blames |
//! | `advice` | which knob would help a caller that waits |
//! | `objects` | the memory that objects take, and which of them are forgotten |

pub(crate) mod activity;
pub(crate) mod advice;
pub(crate) mod at_risk;
pub mod calls;
pub(crate) mod drain;
pub mod drop;
pub(crate) mod elastic;
pub(crate) mod limits;
pub(crate) mod objects;
pub(crate) mod rates;
pub(crate) mod records;
pub(crate) mod size;
pub(crate) mod transitions;
pub(crate) mod why;
