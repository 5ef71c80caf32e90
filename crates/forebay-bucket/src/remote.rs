//! Buckets of other machines, through `object_store`.
//!
//! That crate wants a runtime of its own kind. It gets one thread with one, which only moves bytes;
//! whoever asks blocks until the answer is there. So nothing of that runtime reaches the rest of
//! the program.

use crate::answers::{invalid, is_bucket_missing, is_conflict, is_past_the_end, trouble_of};
use crate::bucket::{Bucket, Trouble};
use crate::services;
use bytes::Bytes;
use forebay_base::sync::{Mutex, lock};
use forebay_rt::block_on;
use forebay_rt::thread::{Joiner, spawn};
use forebay_rt::wait::Slot;
use forebay_volume::{Call, Reply};
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use std::fmt;
use std::io;
use std::sync::Arc;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// The bytes of an object that is made. Whoever sends them shares them with whoever may try again.
struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A folder of a bucket at a server.
pub struct RemoteBucket {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    handle: Handle,
    /// Ends the thread when it is dropped.
    ending: Mutex<Option<oneshot::Sender<()>>>,
    joiner: Option<Joiner>,
}

impl fmt::Debug for RemoteBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteBucket")
            .field("store", &self.store)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl RemoteBucket {
    /// The folder `prefix` of `bucket` at the S3 server that the environment names, as other tools
    /// of S3 have it: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT`,
    /// `AWS_ALLOW_HTTP`. `options` come after that, by the names of `object_store`.
    ///
    /// ```
    /// let options = [("aws_region", "eu-north-1")];
    /// let bucket = forebay_bucket::RemoteBucket::s3("backups", "vm1", &options)?;
    /// drop(bucket);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// What of the environment makes no sense, or what the system says.
    pub fn s3(bucket: &str, prefix: &str, options: &[(&str, &str)]) -> io::Result<RemoteBucket> {
        RemoteBucket::new(services::s3(bucket, options)?, prefix)
    }

    /// The folder `prefix` of `container` at Azure. The environment names the account and its keys,
    /// as for other tools of Azure: `AZURE_STORAGE_ACCOUNT`, `AZURE_STORAGE_KEY`,
    /// `AZURE_STORAGE_SAS_TOKEN`, `AZURE_STORAGE_CONNECTION_STRING`, `AZURE_CLIENT_ID` and its
    /// like. `options` come after that, by the names of `object_store`.
    ///
    /// ```
    /// let options = [("account_name", "ours"), ("account_key", "a2V5")];
    /// let bucket = forebay_bucket::RemoteBucket::azure("backups", "vm1", &options)?;
    /// drop(bucket);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`RemoteBucket::s3`].
    pub fn azure(
        container: &str,
        prefix: &str,
        options: &[(&str, &str)],
    ) -> io::Result<RemoteBucket> {
        RemoteBucket::new(services::azure(container, options)?, prefix)
    }

    /// The folder `prefix` of `bucket` at Google. The environment names the keys, as for other
    /// tools of Google: `GOOGLE_APPLICATION_CREDENTIALS`, `GOOGLE_SERVICE_ACCOUNT_KEY`; on a
    /// machine of Google its own keys are used. `STORAGE_EMULATOR_HOST` names an emulator.
    /// `options` come after that, by the names of `object_store`.
    ///
    /// ```
    /// let options = [("google_bearer_token", "TOKEN")];
    /// let bucket = forebay_bucket::RemoteBucket::google("backups", "vm1", &options)?;
    /// drop(bucket);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`RemoteBucket::s3`].
    pub fn google(
        bucket: &str,
        prefix: &str,
        options: &[(&str, &str)],
    ) -> io::Result<RemoteBucket> {
        RemoteBucket::new(services::google(bucket, options)?, prefix)
    }

    fn new(store: Arc<dyn ObjectStore>, prefix: &str) -> io::Result<RemoteBucket> {
        let prefix = Path::parse(prefix).map_err(|error| invalid(&error))?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (ending, asked) = oneshot::channel();
        let joiner = spawn("forebay-remote", move || {
            // A sender that is dropped asks for the end too.
            let _ = runtime.block_on(asked);
        })?;
        Ok(RemoteBucket {
            store,
            prefix,
            handle,
            ending: Mutex::new(Some(ending)),
            joiner: Some(joiner),
        })
    }

    fn path_of(&self, key: &str) -> Path {
        Path::from(format!("{}/{key}", self.prefix))
    }

    /// Runs `future` on the thread and waits for it.
    fn wait<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let slot = Arc::new(Slot::new());
        let answer = slot.clone();
        let task = self.handle.spawn(async move { answer.set(future.await) });
        // It runs on by itself.
        drop(task);
        block_on(slot.take())
    }
}

impl Drop for RemoteBucket {
    fn drop(&mut self) {
        drop(lock(&self.ending).take());
        if let Some(joiner) = self.joiner.take() {
            joiner.join();
        }
    }
}

impl Bucket for RemoteBucket {
    fn ask(&self, call: &Call) -> Result<Reply, Trouble> {
        let store = self.store.clone();
        let answered = match call {
            Call::Make { key, bytes } => {
                let path = self.path_of(key);
                // A copy of a chunk would be fresh memory, which costs more than the copy.
                let bytes = Bytes::from_owner(Shared(bytes.clone()));
                let options = PutOptions::from(PutMode::Create);
                self.wait(async move { store.put_opts(&path, bytes.into(), options).await })
                    .map(|_| Reply::Done)
            }
            Call::Get { key, range } => {
                let path = self.path_of(key);
                let options = GetOptions {
                    range: range.clone().map(GetRange::Bounded),
                    ..GetOptions::default()
                };
                let got = async move { store.get_opts(&path, options).await?.bytes().await };
                self.wait(got).map(|bytes| Reply::Bytes(bytes.into()))
            }
            Call::List { prefix } => self.list(prefix),
            Call::Remove { key } => {
                let path = self.path_of(key);
                self.wait(async move { store.delete(&path).await })
                    .map(|()| Reply::Done)
            }
        };
        match answered {
            // It may have been made or not, and must not be asked for again at once.
            Err(error) if is_conflict(&error) => Err(trouble_of(&error)),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. })
                if matches!(call, Call::Make { .. }) =>
            {
                Ok(Reply::Exists)
            }
            // The object is shorter than it was: it has none of these bytes.
            Err(error) if is_past_the_end(call, &error) => Ok(Reply::Bytes(Vec::new())),
            Err(error @ Error::NotFound { .. }) if !is_bucket_missing(&error) => Ok(Reply::Missing),
            Err(error) => Err(trouble_of(&error)),
            Ok(reply) => Ok(reply),
        }
    }
}

impl RemoteBucket {
    fn list(&self, prefix: &str) -> Result<Reply, Error> {
        let (store, above) = (self.store.clone(), format!("{}/", self.prefix));
        let path = self.path_of(prefix.trim_end_matches('/'));
        let listed = async move {
            let key_of = |path: &Path| path.as_ref().strip_prefix(&above).map(str::to_owned);
            store
                .list(Some(&path))
                .try_filter_map(|meta| {
                    let key = key_of(&meta.location).map(|key| (key, meta.size));
                    std::future::ready(Ok(key))
                })
                .try_collect()
                .await
        };
        self.wait(listed).map(Reply::Keys)
    }
}
