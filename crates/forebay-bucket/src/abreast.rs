//! Many questions to a bucket at a time, where one after the other would take as many round trips.

use forebay_base::sync::{Mutex, lock};
use forebay_store::Crew;
use std::io;
use std::sync::Arc;

/// Questions that are under way at a time.
pub(crate) const ABREAST: usize = 16;

/// What the threads share: what is left to be done, and what was found.
struct Line<T, R> {
    left: std::vec::IntoIter<T>,
    found: Vec<R>,
}

/// Does `work` for each of `items`, and returns what it returned in any order. It runs on as many
/// threads as are worth it.
///
/// # Errors
/// If the system has no thread to give.
pub(crate) fn abreast<T, R>(
    items: Vec<T>,
    work: impl Fn(T) -> R + Send + Sync + 'static,
) -> io::Result<Vec<R>>
where
    T: Send + 'static,
    R: Send + 'static,
{
    let threads = items.len().min(ABREAST);
    let line = Arc::new(Mutex::new(Line {
        left: items.into_iter(),
        found: Vec::new(),
    }));
    let work = Arc::new(work);
    let mut crew = Crew::default();
    for _ in 0..threads {
        let (line, work) = (line.clone(), work.clone());
        crew.start("forebay-bucket", move || {
            while let Some(item) = { lock(&line).left.next() } {
                let found = work(item);
                lock(&line).found.push(found);
            }
        })?;
    }
    crew.join();
    Ok(std::mem::take(&mut lock(&line).found))
}
