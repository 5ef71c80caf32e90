//! Servers of other projects for S3, Azure and Google, each with one bucket, started for a test and
//! killed at its end.

#![allow(dead_code, reason = "each test file uses a part")]

#[path = "google.rs"]
mod google;

use forebay_base::Span;
use forebay_bucket::RemoteBucket;
use forebay_rt::thread::pause_current;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

const BUCKET: &str = "backups";

/// What a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    S3,
    Azure,
    Google,
}

/// A server that runs.
pub(crate) struct Far {
    pub(crate) service: Service,
    pub(crate) name: &'static str,
    process: Child,
    pub(crate) port: u16,
    folder: tempfile::TempDir,
}

impl Far {
    /// Every server that is installed.
    pub(crate) fn all() -> Vec<Far> {
        let moto = Far::start("moto_server", Service::S3, |command, port, _| {
            command.args(["-H", "127.0.0.1", "-p", port]);
        });
        let versitygw = Far::start("versitygw", Service::S3, |command, port, folder| {
            command
                .env("ROOT_ACCESS_KEY", "k")
                .env("ROOT_SECRET_KEY", "secretsecret")
                .args(["--port", &format!("127.0.0.1:{port}"), "posix"])
                .arg(folder);
        });
        let azurite = Far::start("azurite-blob", Service::Azure, |command, port, folder| {
            command
                .args(["--inMemoryPersistence", "--silent", "--disableTelemetry"])
                .args(["--skipApiVersionCheck", "--blobHost", "127.0.0.1"])
                .args(["--blobPort", port])
                .current_dir(folder);
        });
        let google = Far::start("fake-gcs-server", Service::Google, |command, port, _| {
            let host = format!("127.0.0.1:{port}");
            command
                .args([
                    "-scheme",
                    "http",
                    "-backend",
                    "memory",
                    "-host",
                    "127.0.0.1",
                ])
                .args(["-port", port, "-public-host", &host]);
        });
        let all = [moto, versitygw, azurite, google];
        all.into_iter().flatten().collect()
    }

    /// One for each service: of two the one that answers faster.
    pub(crate) fn one_of_each() -> Vec<Far> {
        let mut all = Far::all();
        all.reverse();
        all.dedup_by_key(|far| far.service);
        all
    }

    /// Those that speak S3.
    pub(crate) fn all_s3() -> Vec<Far> {
        let mut all = Far::all();
        all.retain(|far| far.service == Service::S3);
        all
    }

    fn start(
        name: &'static str,
        service: Service,
        arguments: impl Fn(&mut Command, &str, &std::path::Path),
    ) -> Option<Far> {
        let folder = tempfile::tempdir().expect("there is room");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = free.local_addr().expect("it has an address").port();
        drop(free);
        let mut command = Command::new(name);
        arguments(&mut command, &port.to_string(), folder.path());
        let started = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(process) = started else {
            eprintln!("ignored: {name} is not installed");
            return None;
        };
        let mut far = Far {
            service,
            name,
            process,
            port,
            folder,
        };
        if far.make_bucket() {
            if service == Service::Google {
                far.port = google::stand_before(far.port);
            }
            return Some(far);
        }
        eprintln!("ignored: {name} does not start");
        None
    }

    /// Makes the bucket, once the server listens.
    fn make_bucket(&mut self) -> bool {
        // A folder is a bucket there.
        if self.name == "versitygw" {
            let made = std::fs::create_dir(self.folder.path().join(BUCKET));
            made.expect("there is room");
        }
        let (line, body) = match self.service {
            Service::S3 => (format!("PUT /{BUCKET}"), String::new()),
            Service::Azure => (
                format!("PUT /{ACCOUNT}/{BUCKET}?restype=container&{SAS}"),
                String::new(),
            ),
            Service::Google => (
                "POST /storage/v1/b?project=test".to_owned(),
                format!("{{\"name\":\"{BUCKET}\"}}"),
            ),
        };
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\
             Content-Type: application/json\r\nConnection: close\r\n\r\n{body}"
        );
        for _ in 0..600 {
            if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
                let mut answer = String::new();
                let asked = stream.write_all(request.as_bytes());
                if asked.is_ok() && stream.read_to_string(&mut answer).is_ok() {
                    return true;
                }
            }
            if !matches!(self.process.try_wait(), Ok(None)) {
                return false;
            }
            pause_current(Span::from_millis(100));
        }
        false
    }

    /// A folder of the bucket.
    pub(crate) fn bucket(&self, prefix: &str) -> Arc<RemoteBucket> {
        Arc::new(self.bucket_called(BUCKET, prefix))
    }

    /// A folder of the bucket `name`, which may not be there.
    pub(crate) fn bucket_called(&self, name: &str, prefix: &str) -> RemoteBucket {
        self.reach(self.port, name, prefix, self.keys())
    }

    /// The same folder as [`Far::bucket`] has, asked for at another port: that of a proxy.
    pub(crate) fn bucket_through(&self, port: u16, prefix: &str) -> Arc<RemoteBucket> {
        self.bucket_with(port, prefix, self.keys())
    }

    /// The same, with other keys.
    pub(crate) fn bucket_with(
        &self,
        port: u16,
        prefix: &str,
        keys: &[(&str, &str)],
    ) -> Arc<RemoteBucket> {
        Arc::new(self.reach(port, BUCKET, prefix, keys))
    }

    fn keys(&self) -> &'static [(&'static str, &'static str)] {
        match self.service {
            Service::S3 => &[
                ("aws_access_key_id", "k"),
                ("aws_secret_access_key", "secretsecret"),
            ],
            Service::Azure => &[("azure_storage_account_key", ACCOUNT_KEY)],
            Service::Google => &[("google_bearer_token", "t")],
        }
    }

    fn reach(&self, port: u16, name: &str, prefix: &str, keys: &[(&str, &str)]) -> RemoteBucket {
        let address = format!("http://127.0.0.1:{port}");
        let in_account = format!("{address}/{ACCOUNT}");
        let mut options = match self.service {
            Service::S3 => vec![
                ("aws_endpoint", address.as_str()),
                ("aws_allow_http", "true"),
                ("aws_region", "us-east-1"),
            ],
            Service::Azure => vec![
                ("azure_storage_account_name", ACCOUNT),
                ("azure_storage_endpoint", in_account.as_str()),
                ("azure_allow_http", "true"),
            ],
            Service::Google => vec![("google_base_url", address.as_str())],
        };
        options.extend(keys);
        let reached = match self.service {
            Service::S3 => RemoteBucket::s3(name, prefix, &options),
            Service::Azure => RemoteBucket::azure(name, prefix, &options),
            Service::Google => RemoteBucket::google(name, prefix, &options),
        };
        reached.expect("the options make sense")
    }
}

/// The account that every emulator of Azure has, and its key, which is no secret.
const ACCOUNT: &str = "devstoreaccount1";
const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A signature by that key that allows everything until 2099, except to remove objects, which are
/// removed by the batch: Azurite takes no batch with a signature of this kind.
pub(crate) const SAS: &str = "sv=2021-06-08&ss=b&srt=sco&sp=rwdlacup&se=2099-01-01T00%3A00%3A00Z\
    &spr=https,http&sig=uvq9cKvAedHVLgfXDS545qGZOJKjAjnDjo5WmVsFEjw%3D";

impl Drop for Far {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
