//! S3 servers of other projects, each with one bucket, started for a test and killed at its end.

#![allow(dead_code, reason = "each test file uses a part")]

use forebay_base::Span;
use forebay_bucket::RemoteBucket;
use forebay_rt::thread::pause_current;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

const BUCKET: &str = "backups";

/// A server that runs.
pub(crate) struct Far {
    pub(crate) name: &'static str,
    process: Child,
    pub(crate) port: u16,
    folder: tempfile::TempDir,
}

impl Far {
    /// Every server that is installed.
    pub(crate) fn all() -> Vec<Far> {
        let moto = Far::start("moto_server", |command, port, _| {
            command.args(["-H", "127.0.0.1", "-p", port]);
        });
        let versitygw = Far::start("versitygw", |command, port, folder| {
            command
                .env("ROOT_ACCESS_KEY", "k")
                .env("ROOT_SECRET_KEY", "secretsecret")
                .args(["--port", &format!("127.0.0.1:{port}"), "posix"])
                .arg(folder);
        });
        [moto, versitygw].into_iter().flatten().collect()
    }

    fn start(
        name: &'static str,
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
            name,
            process,
            port,
            folder,
        };
        if far.make_bucket() {
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
        for _ in 0..600 {
            if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
                let request = format!(
                    "PUT /{BUCKET} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\
                     Connection: close\r\n\r\n"
                );
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
        reach(self.port, name, prefix, &KEYS)
    }

    /// The same folder as [`Far::bucket`] has, asked for at another port: that of a proxy.
    pub(crate) fn bucket_through(port: u16, prefix: &str) -> Arc<RemoteBucket> {
        Arc::new(reach(port, BUCKET, prefix, &KEYS))
    }

    /// The same, with other keys.
    pub(crate) fn bucket_with(port: u16, prefix: &str, keys: &[(&str, &str)]) -> Arc<RemoteBucket> {
        Arc::new(reach(port, BUCKET, prefix, keys))
    }
}

const KEYS: [(&str, &str); 2] = [
    ("aws_access_key_id", "k"),
    ("aws_secret_access_key", "secretsecret"),
];

fn reach(port: u16, name: &str, prefix: &str, keys: &[(&str, &str)]) -> RemoteBucket {
    let endpoint = format!("http://127.0.0.1:{port}");
    let mut options = vec![
        ("aws_endpoint", endpoint.as_str()),
        ("aws_allow_http", "true"),
        ("aws_region", "us-east-1"),
    ];
    options.extend(keys);
    RemoteBucket::s3(name, prefix, &options).expect("the options make sense")
}

impl Drop for Far {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
