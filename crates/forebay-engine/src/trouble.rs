//! What a store refuses, and for how long it has been silent: what an operator is told of it once
//! when it begins and once when it ends.

use forebay_base::units::{byte_of, show_bytes};
use forebay_base::{Instant, Span};
use forebay_store::{Failure, IoKind};
use std::fmt;

/// Kinds of requests, in the order in which they are counted.
pub const KINDS: [IoKind; 5] = [
    IoKind::Read,
    IoKind::Write,
    IoKind::Commit,
    IoKind::Discard,
    IoKind::SetLength,
];

/// Reasons for which a store refuses requests, in the order in which they are counted.
pub const REASONS: [&str; 12] = [
    "no_space",
    "device",
    "gone",
    "read_only",
    "out_of_range",
    "unsupported",
    "no_answer",
    "forgotten",
    "fenced",
    "dropped",
    "panicked",
    "over_quota",
];

/// The place of `failure` in [`REASONS`].
pub(crate) fn reason_of(failure: Failure) -> usize {
    match failure {
        Failure::NoSpace => 0,
        Failure::Device(_) => 1,
        Failure::Gone => 2,
        Failure::ReadOnly => 3,
        Failure::OutOfRange => 4,
        Failure::Unsupported => 5,
        Failure::NoAnswer => 6,
        Failure::Forgotten => 7,
        Failure::Fenced => 8,
        Failure::Dropped => 9,
        Failure::Panicked => 10,
        Failure::OverQuota => 11,
    }
}

/// What a kind of requests is called.
pub fn kind_name(kind: IoKind) -> &'static str {
    match kind {
        IoKind::Read => "read",
        IoKind::Write => "write",
        IoKind::Commit => "commit",
        IoKind::Discard => "discard",
        IoKind::SetLength => "set_length",
    }
}

/// How many requests a store has refused since the start, by kind and reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused(pub(crate) [[u64; REASONS.len()]; KINDS.len()]);

impl Refused {
    /// Those that are not 0, with the names of kind and reason.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        let kinds = KINDS.into_iter().zip(&self.0);
        let each = kinds.flat_map(|(kind, counts)| {
            let reasons = REASONS.into_iter().zip(counts);
            reasons.map(move |(reason, count)| (kind_name(kind), reason, *count))
        });
        each.filter(|(.., count)| *count > 0)
    }

    /// Requests of `kind` that were refused.
    pub fn of_kind(&self, kind: IoKind) -> u64 {
        self.0[kind as usize].iter().sum()
    }
}

/// A time in which a store refused requests of one kind. It begins with the first that failed and
/// is over when such a request went well, none has failed for ten seconds, and, of writes, nothing
/// is left that was refused. Without such a success it is over after a minute, except for commits:
/// they may have lost bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What was refused.
    pub kind: IoKind,
    /// Why the last one was.
    pub failure: Failure,
    /// How many were.
    pub requests: u64,
    /// When the first one failed.
    pub since: Instant,
    /// How long ago that was; if it is over, how long it went on.
    pub lasted: Span,
    /// It is over.
    pub is_over: bool,
}

impl Trouble {
    /// The trouble that goes on, for people: what `store` refuses, what is kept of it, of which
    /// `kept_pages` pages were refused, and what to do.
    pub fn text(&self, store: &str, kept_pages: u64) -> String {
        let (lasted, failure, advice) = (Seconds(self.lasted), self.failure, self.failure.advice());
        let requests = match self.requests {
            1 => "1 request".to_owned(),
            count => format!("{count} requests"),
        };
        let kept = match (self.kind, self.failure) {
            (IoKind::Write, Failure::Fenced) => "nothing more of it will be written".to_owned(),
            (IoKind::Write, _) => {
                let kept = show_bytes(byte_of(kept_pages));
                format!("{kept} are kept in memory and tried again")
            }
            (IoKind::Commit, _) => "syncs fail, and what was written may not be durable".into(),
            (IoKind::Read, _) => "readers get the error".into(),
            (IoKind::Discard | IoKind::SetLength, _) => "callers get the error".into(),
        };
        let what = plural(self.kind);
        format!("{store} has refused {what} for {lasted} ({requests}): {failure}; {kept}; {advice}")
    }

    /// The same once it is over.
    pub fn end_text(&self, store: &str) -> String {
        let (what, lasted) = (plural(self.kind), Seconds(self.lasted));
        let kept = match self.kind {
            IoKind::Write => "; everything that it had refused is written or dropped",
            _ => "",
        };
        let requests = self.requests;
        format!("{store} no longer refuses {what}; {requests} failed within {lasted}{kept}")
    }
}

fn plural(kind: IoKind) -> &'static str {
    match kind {
        IoKind::Read => "reads",
        IoKind::Write => "writes",
        IoKind::Commit => "commits",
        IoKind::Discard => "discards",
        IoKind::SetLength => "new lengths",
    }
}

/// What is wrong with a store now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreTrouble {
    /// Number of the store.
    pub bdi: usize,
    /// `store 0`, with the name of the store if it was given one.
    pub name: String,
    /// For how long it has had requests and answered none; zero below a second.
    pub silent: Span,
    /// What it refuses.
    pub refused: Vec<Trouble>,
    /// Pages that it refused and that are kept.
    pub kept_pages: u64,
}

impl StoreTrouble {
    /// A sentence for each trouble.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let silence = (self.silent > Span::ZERO).then(|| silence_text(&self.name, self.silent));
        let refused = self.refused.iter();
        let refused = refused.map(|trouble| trouble.text(&self.name, self.kept_pages));
        silence.into_iter().chain(refused)
    }
}

/// That `store` has been silent for `silent`, for people.
pub fn silence_text(store: &str, silent: Span) -> String {
    let silent = Seconds(silent);
    format!("{store} has not answered for {silent}; requests that need it wait")
}

/// That `store` answers again, after it was silent for `lasted`.
pub fn silence_end_text(store: &str, lasted: Span) -> String {
    format!("{store} answers again, after {}", Seconds(lasted))
}

/// A span for people: seconds with one digit, or milliseconds if it is shorter than a second.
pub(crate) struct Seconds(pub(crate) Span);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.0.as_micros();
        match us {
            0 => write!(f, "0 s"),
            1..1_000_000 => write!(f, "{}.{} ms", us / 1_000, us % 1_000 / 100),
            _ => write!(f, "{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_stand_in_the_order_of_their_numbers() {
        for (at, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
        }
    }

    #[test]
    fn a_trouble_says_what_is_refused_and_kept_and_what_to_do() {
        let trouble = Trouble {
            kind: IoKind::Write,
            failure: Failure::NoSpace,
            requests: 3,
            since: Instant::ZERO,
            lasted: Span::from_millis(20_300),
            is_over: false,
        };
        let text = trouble.text("store 0 (disk.img)", 256);
        let expected = "store 0 (disk.img) has refused writes for 20.3 s (3 requests): no space is \
                        left; 1 MiB are kept in memory and tried again; make room and try again";
        assert_eq!(text, expected);
        let text = trouble.end_text("store 0");
        assert!(text.starts_with("store 0 no longer refuses writes; 3 failed within 20.3 s"));
    }
}
