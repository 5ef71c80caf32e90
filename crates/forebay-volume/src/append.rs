//! One object that is made by put-if-absent, although replies are lost.
//!
//! - invariant VB3: an append ends well only if the object has exactly these bytes. Records carry
//!   their writer's number, so equal bytes are one's own.

use crate::call::{Call, Progress, Reply};
use std::sync::Arc;

/// Makes one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    key: String,
    bytes: Arc<Vec<u8>>,
    is_in_doubt: bool,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The object is there with these bytes.
    Ours,
    /// The object is there with other bytes.
    Theirs,
}

impl Append {
    /// Makes `key` with `bytes`.
    ///
    /// ```
    /// use forebay_volume::{Append, Appended, Call, Progress, Reply};
    /// let mut append = Append::new("log/7".into(), b"mine".to_vec());
    /// assert!(matches!(append.next(), Call::Make { .. }));
    /// // The bucket has acted and its reply is lost; the second try finds the first's object.
    /// assert_eq!(append.answer(Reply::Unknown), Progress::More);
    /// assert!(matches!(append.next(), Call::Get { .. }));
    /// let found = Reply::Bytes(b"mine".to_vec());
    /// assert_eq!(append.answer(found), Progress::Done(Appended::Ours));
    /// ```
    pub fn new(key: String, bytes: Vec<u8>) -> Append {
        Append::of(key, Arc::new(bytes))
    }

    /// Makes `key` with bytes that others share.
    pub(crate) fn of(key: String, bytes: Arc<Vec<u8>>) -> Append {
        Append {
            key,
            bytes,
            is_in_doubt: false,
        }
    }

    /// Makes `key` with the same bytes, which both share.
    pub(crate) fn again_as(&self, key: String) -> Append {
        Append::of(key, self.bytes.clone())
    }

    /// Where it makes it.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What it makes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its bytes, to be used for something else; none if somebody shares them still.
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        Arc::into_inner(self.bytes)
    }

    /// What to ask now.
    pub fn next(&self) -> Call {
        let key = self.key.clone();
        if self.is_in_doubt {
            return Call::Get { key, range: None };
        }
        Call::Make {
            key,
            bytes: self.bytes.clone(),
        }
    }

    /// Takes the answer to [`Append::next`].
    pub fn answer(&mut self, reply: Reply) -> Progress<Appended> {
        match reply {
            Reply::Done if !self.is_in_doubt => Progress::Done(Appended::Ours),
            Reply::Bytes(found) if self.is_in_doubt => Progress::Done(if found == *self.bytes {
                Appended::Ours
            } else {
                Appended::Theirs
            }),
            // Not there, although it was asked for: it is asked for again.
            Reply::Missing => {
                self.is_in_doubt = false;
                Progress::More
            }
            // Somebody made it, or nobody knows: a lost reply to the making begins the doubt, and a
            // lost reply to the question leaves it.
            _ => {
                self.is_in_doubt = true;
                Progress::More
            }
        }
    }
}
