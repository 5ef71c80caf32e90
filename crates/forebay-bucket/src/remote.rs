//! Buckets of other machines, through `object_store`.
//!
//! That crate wants a runtime of its own kind. It gets one thread with one, which only moves bytes;
//! a caller blocks until the answer is there. So nothing of that runtime reaches the rest of
//! the program.

use crate::answers::{
    invalid, is_bucket_missing, is_conflict, is_past_the_end, is_refusal, trouble_of,
};
use crate::bucket::{Bucket, CallError};
use crate::patience::{Patience, unless_silent};
use crate::services::{self, Keys, Service};
use crate::silence::Silence;
use bytes::Bytes;
use forebay_base::sync::{Mutex, lock};
use forebay_rt::block_on;
use forebay_rt::thread::{Joiner, spawn};
use forebay_volume::{Call, MANIFEST_KEY, Reply};
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
};
use std::fmt;
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Keys that a service of the machine or of the cloud hands out: longest wait for them.
const KEYS_TIMEOUT: Duration = Duration::from_secs(5);

/// Sets up the client of a service for one bucket.
type Serve = fn(&str, &[(&str, &str)]) -> io::Result<Service>;

/// The bytes of an object that is made. The request that sends them shares them with the next try.
struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A folder of a bucket at a server.
pub struct RemoteBucket {
    store: Arc<Mutex<Arc<dyn ObjectStore>>>,
    keys: Keys,
    /// Sets the client up again, with the keys as they are then.
    make: Box<dyn Fn() -> io::Result<Service> + Send + Sync>,
    /// As it was given: `object_store` escapes what it makes a path of, each time.
    prefix: String,
    patience: Arc<Patience>,
    silence: Arc<Silence>,
    handle: Handle,
    /// Ends the thread when it is dropped.
    ending: Mutex<Option<oneshot::Sender<()>>>,
    joiner: Option<Joiner>,
}

impl fmt::Debug for RemoteBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteBucket")
            .field("store", &*lock(&self.store))
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
        RemoteBucket::new(services::s3, bucket, prefix, options)
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
        RemoteBucket::new(services::azure, container, prefix, options)
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
        RemoteBucket::new(services::google, bucket, prefix, options)
    }

    fn new(
        serve: Serve,
        bucket: &str,
        prefix: &str,
        options: &[(&str, &str)],
    ) -> io::Result<RemoteBucket> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let (bucket, options) = (
            bucket.to_owned(),
            options.iter().map(owned).collect::<Vec<_>>(),
        );
        let make = move || {
            let options = options.iter();
            let options = options.map(|(key, value)| (key.as_str(), value.as_str()));
            serve(&bucket, &options.collect::<Vec<_>>())
        };
        let service = make()?;
        // What is no path is refused.
        let _ = Path::parse(prefix).map_err(|error| invalid(&error))?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (ending, asked) = oneshot::channel();
        let joiner = spawn("forebay-remote", move || {
            // A sender that is dropped asks for the end too.
            let _ = runtime.block_on(asked);
        })?;
        let bucket = RemoteBucket {
            store: Arc::new(Mutex::new(service.store)),
            keys: service.keys,
            make: Box::new(make),
            prefix: prefix.to_owned(),
            patience: Arc::default(),
            silence: Arc::default(),
            handle,
            ending: Mutex::new(Some(ending)),
            joiner: Some(joiner),
        };
        bucket.listen();
        Ok(bucket)
    }

    /// Asks a server that is silent for the manifest, until it is there again.
    fn listen(&self) {
        let (silence, store) = (self.silence.clone(), self.store.clone());
        let path = self.path_of(MANIFEST_KEY);
        let listening = async move {
            let probe = || {
                let store = lock(&store).clone();
                let path = path.clone();
                async move { store.head(&path).await }
            };
            silence.listen(probe).await;
        };
        drop(self.handle.spawn(listening));
    }

    /// The server refuses the keys: perhaps there are others by now, in the files that the
    /// environment names.
    fn renew(&self) {
        // If they are of no use, the next try says so again.
        if let Ok(service) = (self.make)() {
            *lock(&self.store) = service.store;
        }
    }

    fn path_of(&self, key: &str) -> Path {
        Path::from(format!("{}/{key}", self.prefix))
    }

    /// Runs `future` on the thread and waits for it. If it panics, so does this.
    fn wait<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let ended = block_on(self.handle.spawn(future));
        ended.unwrap_or_else(|unfinished| resume_unwind(unfinished.into_panic()))
    }

    /// The answer of `request`, if the server gives one.
    fn answer_of<T: Send + 'static>(
        &self,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> object_store::Result<T> {
        let silence = self.silence.clone();
        self.wait(async move { silence.end_or(request).await })
    }

    /// Finds out whether there are keys, so that a machine that has none says so at once and not
    /// after all the tries of a first request.
    pub(crate) fn check_keys(&self) -> io::Result<()> {
        let asked = (self.keys.ask)();
        // A timer can be made on the thread of the runtime alone.
        let asked = async { tokio::time::timeout(KEYS_TIMEOUT, asked).await };
        let cause = match self.wait(asked) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => invalid(&error).to_string(),
            Err(_) => format!("no answer in {} s", KEYS_TIMEOUT.as_secs()),
        };
        let text = format!("there are no keys: set {} ({cause})", self.keys.variables);
        Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
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

/// Takes all of `pieces`, unless the server is silent before one of them.
async fn for_each_piece<T>(
    pieces: impl Stream<Item = object_store::Result<T>>,
    mut take: impl FnMut(T),
) -> object_store::Result<()> {
    let mut pieces = std::pin::pin!(pieces);
    while let Some(piece) = unless_silent(pieces.try_next()).await? {
        take(piece);
    }
    Ok(())
}

impl Bucket for RemoteBucket {
    fn uploads_at_once(&self, object_bytes: u64) -> usize {
        self.patience.uploads_at_once(object_bytes)
    }

    fn ask(&self, call: &Call) -> Result<Reply, CallError> {
        let store = lock(&self.store).clone();
        let answered = match call {
            Call::Make { key, bytes } => {
                let path = self.path_of(key);
                // A copy of a chunk would be fresh memory, which costs more than the copy.
                let bytes = Bytes::from_owner(Shared(bytes.clone()));
                let options = PutOptions::from(PutMode::Create);
                let (patience, length_bytes) = (self.patience.clone(), bytes.len() as u64);
                self.answer_of(async move {
                    let put = store.put_opts(&path, bytes.into(), options);
                    patience.with_upload(length_bytes, put).await
                })
                .map(|_| Reply::Done)
            }
            Call::Get { key, range } => {
                let path = self.path_of(key);
                let options = GetOptions {
                    range: range.clone().map(GetRange::Bounded),
                    ..GetOptions::default()
                };
                let got = async move {
                    let found = unless_silent(store.get_opts(&path, options)).await?;
                    let mut bytes = Vec::new();
                    for_each_piece(found.into_stream(), |piece| bytes.extend(piece)).await?;
                    Ok(bytes)
                };
                self.answer_of(got).map(Reply::Bytes)
            }
            Call::List { prefix } => self.list(prefix),
            Call::Remove { key } => {
                let path = self.path_of(key);
                self.answer_of(async move { unless_silent(store.delete(&path)).await })
                    .map(|()| Reply::Done)
            }
        };
        if answered.as_ref().is_err_and(is_refusal) {
            self.renew();
        }
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

    fn remove_all(&self, keys: &[String]) -> Result<(), CallError> {
        self.delete(keys).map_err(|error| {
            if is_refusal(&error) {
                self.renew();
            }
            trouble_of(&error)
        })
    }
}

impl RemoteBucket {
    /// Many in one request, where the service has that.
    fn delete(&self, keys: &[String]) -> Result<(), Error> {
        let store = lock(&self.store).clone();
        let paths: Vec<_> = keys.iter().map(|key| Ok(self.path_of(key))).collect();
        let deleted = async move {
            let mut deleted = store.delete_stream(stream::iter(paths).boxed());
            let mut failed = None;
            while let Some(result) = unless_silent(async { Ok(deleted.next().await) }).await? {
                match result {
                    Ok(_) | Err(Error::NotFound { .. }) => {}
                    Err(error) => failed = Some(error),
                }
            }
            failed.map_or(Ok(()), Err)
        };
        self.answer_of(deleted)
    }

    fn list(&self, prefix: &str) -> Result<Reply, Error> {
        let store = lock(&self.store).clone();
        // The listing has the names under which `path_of` makes objects.
        let above = format!("{}/", Path::from(self.prefix.as_str()));
        let path = self.path_of(prefix.trim_end_matches('/'));
        let listed = async move {
            let key_of = |meta: ObjectMeta| match meta.location.as_ref().strip_prefix(&above) {
                Some(key) => Ok((key.to_owned(), meta.size)),
                // To leave it out would be to say that it is not there.
                None => Err(Error::Generic {
                    store: "bucket",
                    source: format!("{} was listed, and is not below {above}", meta.location)
                        .into(),
                }),
            };
            let mut keys = Vec::new();
            let listed = store.list(Some(&path)).map(|meta| meta.and_then(key_of));
            for_each_piece(listed, |key| keys.push(key)).await?;
            Ok(keys)
        };
        self.answer_of(listed).map(Reply::Keys)
    }
}
