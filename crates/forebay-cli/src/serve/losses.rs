//! Images of which something is lost: their disk took bytes and could not make them durable, or
//! somebody has removed them.
//!
//! The kernel reports such a loss once and calls the bytes written, so every FLUSH fails from then
//! on for whoever is connected: each of them may have had bytes in it. A client that comes when
//! nobody else is there was promised nothing, so its image is opened anew for it.

use crate::daemon::say::say;
use crate::error::CommandError;
use forebay::File;
use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use forebay_rt::Rt;
use forebay_store::{FileStore, ObjectId};
use rustix::fs::FileType;
use std::path::PathBuf;
use std::sync::Arc;

/// Between two looks at whether an image has a name.
const LOOK_INTERVAL: Span = Span::from_secs(5);

/// An image that is served.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) path: PathBuf,
    pub(super) object: ObjectId,
    pub(super) file: File,
    /// Whether something of it may have been lost since the server began.
    pub(super) is_lossy: AtomicBool,
    /// Whether it was said that somebody has removed it.
    pub(super) is_removed: AtomicBool,
}

/// All of them, and the store that has them open.
#[derive(Clone)]
pub(super) struct Losses {
    files: Arc<FileStore>,
    images: Arc<Vec<Image>>,
}

impl Losses {
    pub(super) fn new(files: Arc<FileStore>, images: Vec<Image>) -> Losses {
        Losses {
            files,
            images: Arc::new(images),
        }
    }

    /// A client came and nobody else is there: commits may succeed again.
    pub(super) fn begin_anew(&self) {
        for image in self.lost() {
            match self.files.open_anew(image.object) {
                Ok(_) => say(format_args!(
                    "{}: opened anew; what was written since its last good FLUSH may be lost",
                    image.path.display()
                )),
                // Its FLUSHes go on to fail, and the next client brings the next try.
                Err(error) => say(format_args!("cannot be opened anew: {error}")),
            }
        }
    }

    /// Says, while the server runs, that an image was removed: its clients notice nothing.
    pub(super) fn watch(&self, rt: &Rt) {
        let (losses, timer) = (self.clone(), rt.clone());
        rt.spawn("removed images", async move {
            let mut told = 0;
            while told < losses.images.len() {
                timer.sleep(LOOK_INTERVAL).await;
                for image in losses.removed() {
                    if !image.is_removed.swap(true, Ordering::Relaxed) {
                        told += 1;
                        say(format_args!(
                            "{}: was removed; what is written to it is gone once the server ends",
                            image.path.display()
                        ));
                    }
                }
            }
        });
    }

    fn removed(&self) -> impl Iterator<Item = &Image> {
        self.images.iter().filter(|image| {
            let named = self.files.named(image.object);
            let stat = named.and_then(|file| Ok(rustix::fs::fstat(file)?));
            // A device is there without its name.
            let is_file = |mode| FileType::from_raw_mode(mode) == FileType::RegularFile;
            stat.is_ok_and(|stat| is_file(stat.st_mode) && stat.st_nlink == 0)
        })
    }

    /// The end: nothing more is asked for of what can never be made durable.
    pub(super) fn give_up(&self) {
        for image in self.lost() {
            image.file.waive_commit();
        }
    }

    /// An error that names the images of which something may have been lost, if there are any.
    pub(super) fn report(&self) -> Result<(), CommandError> {
        self.lost();
        let is_lossy = |image: &&Image| image.is_lossy.load(Ordering::Relaxed);
        let lossy = self.images.iter().filter(is_lossy);
        let paths: Vec<_> = lossy
            .map(|image| image.path.display().to_string())
            .collect();
        let removed: Vec<_> = self
            .removed()
            .map(|image| image.path.display().to_string())
            .collect();
        if !removed.is_empty() {
            return Err(CommandError::Served(format!(
                "{}: was removed while it was served; what was written to it is gone",
                removed.join(", ")
            )));
        }
        if paths.is_empty() {
            return Ok(());
        }
        Err(CommandError::Served(format!(
            "{}: the disk took bytes and could not make them durable; what was written since the \
             last good FLUSH before that may be lost: look at the disk, and write it again",
            paths.join(", ")
        )))
    }

    /// The images of which something is lost, which they are marked with.
    fn lost(&self) -> Vec<&Image> {
        let is_lost = |image: &&Image| self.files.commit_failure(image.object).is_some();
        let lost: Vec<_> = self.images.iter().filter(is_lost).collect();
        for image in &lost {
            image.is_lossy.store(true, Ordering::Relaxed);
        }
        lost
    }
}
