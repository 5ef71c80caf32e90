//! A volume in a bucket: its manifest, keys, records, maps and snapshots. What is done with each of
//! them is in the file of its name; pages have [a client of their own](crate::jobs).

use crate::bucket::Bucket;
use crate::retrying_client::RetryingClient;
use forebay_base::sync::Mutex;
use forebay_rt::thread::Stopwatch;
use std::sync::Arc;

/// Asks for what a volume consists of.
pub(crate) struct VolumeClient {
    pub(crate) client: RetryingClient,
    /// Since when pins were met whenever they were looked for.
    pub(crate) pinned: Mutex<Option<Stopwatch>>,
}

impl VolumeClient {
    pub(crate) fn new(client: RetryingClient) -> Arc<VolumeClient> {
        Arc::new(VolumeClient {
            client,
            pinned: Mutex::default(),
        })
    }

    /// For a task other than serving the volume in `bucket`.
    pub(crate) fn of_task(bucket: Arc<dyn Bucket>) -> Arc<VolumeClient> {
        VolumeClient::new(RetryingClient::of_task(bucket))
    }
}
