//! A look at the cache of a run.

use forebay_base::sync::Arc;
use forebay_engine::Cache;
use std::fmt;

/// A look at the cache when the workload has ended, before what is left dirty is written.
///
/// ```
/// use forebay_lab::run::{Look, Plan, run};
/// use std::sync::{Arc, Mutex};
/// let waited = Arc::new(Mutex::new(None));
/// let into = waited.clone();
/// let look = Look::new(move |cache| {
///     *into.lock().expect("no look panics") = Some(cache.why(None).waited);
/// });
/// let plan = Plan::new("simple-wb", "amd4-512m")?.with("iterations", "1").with("scale", "16");
/// run(&Plan { look: Some(look), ..plan })?;
/// assert!(waited.lock().expect("no look panics").is_some());
/// # Ok::<(), forebay_lab::run::RunError>(())
/// ```
#[derive(Clone)]
pub struct Look(Arc<dyn Fn(&Cache) + Send + Sync>);

impl Look {
    /// A look that calls `look`.
    pub fn new(look: impl Fn(&Cache) + Send + Sync + 'static) -> Look {
        Look(Arc::new(look))
    }

    pub(crate) fn at(&self, cache: &Cache) {
        (self.0)(cache);
    }
}

impl fmt::Debug for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Look")
    }
}
