//! Forebay itself.

use super::contender::{Contender, Preparation, Sample, Step};
use super::layout::Layout;
use crate::error::CommandError;

/// The contender that is the cache of this repository.
pub(crate) struct Forebay {
    _layout: Layout,
}

impl Forebay {
    pub(crate) fn new(layout: Layout, _seed: u64) -> Forebay {
        Forebay { _layout: layout }
    }
}

impl Contender for Forebay {
    fn prepare(&mut self, _: &Preparation) -> Result<Vec<String>, CommandError> {
        Ok(Vec::new())
    }

    fn run(&mut self, _: &Step) -> Result<Vec<Sample>, CommandError> {
        Ok(Vec::new())
    }
}
