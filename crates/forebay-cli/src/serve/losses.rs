//! Images that have lost something: their disk accepted bytes and could not make them durable, or
//! somebody removed the image.
//!
//! The kernel reports such a loss once and then calls the bytes written. So every FLUSH fails from
//! then on for every connected client, because each may have had bytes in it. A client that comes
//! when no other client is connected was promised nothing, so the image is reopened for it.

use crate::daemon::ending::RETRY_AFTER;
use crate::daemon::say::say;
use crate::error::CommandError;
use forebay::{Cache, File, Statistics, StoreKey};
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use forebay_rt::Rt;
use forebay_rt::wait::Gate;
use forebay_store::{Failure, Figure, Medium};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// An image that is served.
#[derive(Debug)]
pub(super) struct Image {
    /// The name of its export.
    pub(super) export: String,
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) medium: Arc<dyn Medium>,
    /// It was reopened after a loss, and the store has forgotten the loss.
    pub(super) was_lost: AtomicBool,
    /// Somebody has cut it while it was served; writes may have made it longer again.
    pub(super) was_cut: AtomicBool,
}

impl Image {
    fn is_lost(&self) -> bool {
        self.medium.loss().is_some()
    }

    /// Says that it was cut, once.
    fn look_for_cut(&self) {
        if self.medium.is_cut() && !self.was_cut.swap(true, Ordering::Relaxed) {
            say(format_args!(
                "{}: was truncated by another program; data past its new end is zeros now, except \
                 where the cache has it",
                self.path.display()
            ));
        }
    }

    /// Whether another server has taken it over.
    fn is_fenced(&self) -> bool {
        self.medium.loss() == Some(Failure::Fenced)
    }
}

/// All of them.
#[derive(Clone)]
pub(super) struct Losses {
    images: Arc<Vec<Image>>,
}

impl Losses {
    pub(super) fn new(images: Vec<Image>) -> Losses {
        Losses {
            images: Arc::new(images),
        }
    }

    /// Gives each store of `cache` the names of its images.
    pub(super) fn name_stores(&self, cache: &Cache) {
        let mut names: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for image in self.images.iter() {
            let of_store = names.entry(image.file.store_number()).or_default();
            of_store.push(image.path.display().to_string());
        }
        for (bdi, paths) in names {
            let named = cache.name_store(StoreKey::numbered(bdi), &paths.join(", "));
            named.expect("each image is in a store of this cache");
        }
    }

    /// A client has come and no other client is connected: commits may succeed again.
    pub(super) fn begin_anew(&self) {
        for image in self.images.iter().filter(|image| image.is_lost()) {
            image.was_lost.store(true, Ordering::Relaxed);
            match image.medium.open_anew() {
                Ok(()) => say(format_args!(
                    "{}: reopened; data written since the last successful FLUSH may be lost",
                    image.path.display()
                )),
                // Its FLUSHes keep failing, and the next client causes the next try.
                Err(error) => say(format_args!("cannot be reopened: {error}")),
            }
        }
    }

    /// Reports, while the server runs, that an image was cut or removed: clients notice nothing.
    pub(super) fn report_harm(&self) -> impl FnMut(&Statistics) -> bool + use<> {
        let images = self.images.clone();
        let mut left: Vec<usize> = (0..images.len()).collect();
        move |_| {
            images.iter().for_each(Image::look_for_cut);
            for at in left.extract_if(.., |at| images[*at].medium.is_removed()) {
                say(format_args!(
                    "{}: was removed; everything written to it is lost once the server ends",
                    images[at].path.display()
                ));
            }
            !images.is_empty()
        }
    }

    /// Opens `ending` once another server has an image: what this one serves is no longer what lies
    /// there.
    pub(super) fn end_if_fenced(
        &self,
        ending: Arc<Gate>,
    ) -> impl FnMut(&Statistics) -> bool + use<> {
        let images = self.images.clone();
        move |_| {
            let fenced = images.iter().find(|image| image.is_fenced());
            if let Some(image) = fenced {
                let path = image.path.display();
                say(format_args!(
                    "{path}: another server has taken it over; this server ends"
                ));
                ending.open();
            }
            fenced.is_none()
        }
    }

    /// The end: data that can never be made durable is no longer asked for.
    pub(super) async fn give_up(&self) {
        for image in self.images.iter().filter(|image| image.is_lost()) {
            image.file.waive_commit();
            if image.is_fenced() {
                // Its writes all fail from now on. What cannot be dropped now can be at the next
                // try.
                let _ = image.file.abandon().await;
            }
        }
    }

    /// What the volumes say of themselves, by their exports.
    pub(super) fn figures(&self) -> Vec<(String, Vec<Figure>)> {
        let images = self.images.iter();
        images
            .map(|image| (image.export.clone(), image.medium.figures()))
            .collect()
    }

    /// Makes durable what FLUSHes were answered for before. It is tried again until it is done,
    /// another server has the image, or the user gives up.
    pub(super) async fn settle(&self, rt: &Rt) {
        for image in self.images.iter() {
            while let Err(error) = image.medium.settle() {
                if image.is_fenced() {
                    break;
                }
                say(format_args!(
                    "{error}; trying again, interrupt twice to give up"
                ));
                rt.sleep(RETRY_AFTER).await;
            }
        }
    }

    /// Says which images have FLUSHes that were answered and are not durable.
    pub(super) fn say_unsettled(&self) {
        let unsettled = self.paths_of(|image| !image.medium.is_settled());
        if !unsettled.is_empty() {
            say(format_args!(
                "{unsettled}: FLUSHes that were answered since its last record are lost \
                 (--commit-interval)"
            ));
        }
    }

    /// Everything is written that can be. Returns what was lost, if something was; the images that
    /// have lost nothing are left to others all the same.
    pub(super) fn conclude(&self) -> Result<(), CommandError> {
        self.say_unsettled();
        let reported = self.report();
        self.close();
        reported
    }

    /// Everything is written: leaves the images to others.
    pub(super) fn close(&self) {
        for image in self.images.iter() {
            if let Err(error) = image.medium.close() {
                say(error);
            }
        }
    }

    /// An error that names the images that may have lost something, if there are any.
    pub(super) fn report(&self) -> Result<(), CommandError> {
        let removed = self.paths_of(|image| image.medium.is_removed());
        if !removed.is_empty() {
            return Err(CommandError::Served(format!(
                "{removed}: was removed while it was served; everything written to it is lost"
            )));
        }
        let cut = self.paths_of(|image| {
            image.look_for_cut();
            image.was_cut.load(Ordering::Relaxed)
        });
        if !cut.is_empty() {
            return Err(CommandError::Served(format!(
                "{cut}: was truncated while it was served; bytes not written since then are zeros"
            )));
        }
        let fenced = self.paths_of(Image::is_fenced);
        if !fenced.is_empty() {
            return Err(CommandError::Served(format!(
                "{fenced}: another server has taken it over; data written since the last FLUSH \
                 before that is not in it"
            )));
        }
        let lost = self.paths_of(|image| image.is_lost() || image.was_lost.load(Ordering::Relaxed));
        if lost.is_empty() {
            return Ok(());
        }
        Err(CommandError::Served(format!(
            "{lost}: the disk accepted data and could not make it durable; data written since the \
             last successful FLUSH may be lost: check the disk, and write it again"
        )))
    }

    fn paths_of(&self, is_meant: impl Fn(&Image) -> bool) -> String {
        let meant = self.images.iter().filter(|image| is_meant(image));
        let paths: Vec<_> = meant
            .map(|image| image.path.display().to_string())
            .collect();
        paths.join(", ")
    }
}
