//! The name of a timer.

/// A timer of a body. `sequence` is used once, `place` again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerId {
    pub(crate) sequence: u64,
    pub(crate) place: u32,
}
