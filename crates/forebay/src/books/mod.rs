//! The books: what is counted, and what follows from it. Nothing here waits.
//!
//! | file | what it says |
//! |---|---|
//! | `records` | counters, marks and events, which it owns |
//! | `accounts` | each transition of a dirty page moves its counters here |
//! | `limits` | what may be dirty: of all pages, of a store, of a zone |
//! | `rates` | how fast a store writes, and the base rate of its writers |
//! | `activity` | who is at work for a store, and who pauses for it |
//! | `size` | what the budget gives the zones, once objects have taken their part |
//! | `drop` | clean pages that go before reclaim comes to them |
//! | `calls` | what a call waits for, and what its end tells |
//! | `why` | whom the ledger blames |
//! | `objects` | what objects take, and which are forgotten |

pub(crate) mod accounts;
pub(crate) mod activity;
pub(crate) mod calls;
pub(crate) mod drop;
pub(crate) mod limits;
pub(crate) mod objects;
pub(crate) mod rates;
pub(crate) mod records;
pub(crate) mod size;
pub(crate) mod why;
