//! Many questions to a bucket at a time, where one after the other would take as many round trips.

use forebay_base::sync::{Mutex, lock};
use forebay_store::ThreadGroup;
use std::io;
use std::sync::Arc;

/// Questions that are under way at a time.
pub(crate) const ABREAST: usize = 16;

/// What the threads share: what is left to be done, and what was found.
struct Line<T, R, E> {
    left: std::vec::IntoIter<T>,
    found: Vec<R>,
    failed: Option<E>,
}

/// Does `work` for each of `items`, and returns what it returned in any order. It runs on as many
/// threads as are worth it. The first that fails ends it: nothing is begun after that.
///
/// # Errors
/// That of the first that failed, or the system's, if it has no thread to give.
pub(crate) fn abreast<T, R, E>(
    items: Vec<T>,
    work: impl Fn(T) -> Result<R, E> + Send + Sync + 'static,
) -> Result<Vec<R>, E>
where
    T: Send + 'static,
    R: Send + 'static,
    E: From<io::Error> + Send + 'static,
{
    let threads = items.len().min(ABREAST);
    let line = Arc::new(Mutex::new(Line {
        left: items.into_iter(),
        found: Vec::new(),
        failed: None,
    }));
    let work = Arc::new(work);
    let mut group = ThreadGroup::default();
    for _ in 0..threads {
        let (line, work) = (line.clone(), work.clone());
        group.start("forebay-bucket", move || {
            while let Some(item) = next_of(&line) {
                let found = work(item);
                let mut line = lock(&line);
                match found {
                    Ok(found) => line.found.push(found),
                    Err(error) => line.failed = line.failed.take().or(Some(error)),
                }
            }
        })?;
    }
    group.join();
    let mut line = lock(&line);
    match line.failed.take() {
        Some(error) => Err(error),
        None => Ok(std::mem::take(&mut line.found)),
    }
}

fn next_of<T, R, E>(line: &Mutex<Line<T, R, E>>) -> Option<T> {
    let mut line = lock(line);
    if line.failed.is_some() {
        return None;
    }
    line.left.next()
}
