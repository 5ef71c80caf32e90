//! The arguments of `forebay serve`, and their meaning.

use crate::config::{Tuning, export_key};
use crate::daemon::address::Address;
use crate::daemon::budget::{MemoryRange, memory_range};
use crate::daemon::flags::{ServerFlags, socket_path};
use crate::daemon::headings::{BUCKETS, MEMORY, SECURITY, WHERE};
use crate::refusal::refusal;
use clap::error::ErrorKind;
use clap::{ArgAction, Args, CommandFactory, Subcommand};
use forebay_base::Span;
use forebay_base::units::{parse_size, show_bytes};
use forebay_bucket::{SnapshotName, is_chunk_size};
use forebay_control::time::parse_time;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// The words that were typed.
#[derive(Args)]
pub(crate) struct TypedServe {
    #[command(subcommand)]
    front: TypedFront,
}

#[derive(Subcommand)]
enum TypedFront {
    /// Serve disk images, devices and bucket volumes over NBD
    ///
    /// Serves each PATH through a cache of a fixed size, to qemu, the kernel, fio, nbdcopy and
    /// other NBD clients. Writes return once they are in memory and are written back in the
    /// background; FLUSH and FUA make them durable. On SIGTERM, SIGHUP or SIGINT the server
    /// finishes pending requests, writes everything back, and reports how much is left. A second
    /// SIGINT makes it give up and report what was not written.
    #[command(after_help = "\
Examples:
  forebay serve nbd disk.img --create 20G --memory 512M --socket disk.sock
  forebay serve nbd /dev/sdb --memory 1G -p 10809 --at-risk 2s
  forebay serve nbd s3://backups/vm1 --create 2T --memory 4G --socket vm1.sock
  forebay serve nbd nbd://server/disk --memory 256M..4G --socket near.sock")]
    Nbd(TypedNbd),
}

#[derive(Args)]
struct TypedNbd {
    /// What to serve: an image file, a block device, an export of another NBD server
    /// (nbd://HOST[:PORT]/EXPORT, nbd+unix:///EXPORT?socket=SOCK, or nbds for TLS), or a bucket
    /// volume (s3://BUCKET/PREFIX, az://CONTAINER/PREFIX, gs://BUCKET/PREFIX, folder:///DIR). The
    /// first PATH is the default export
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Listen on a Unix socket that only this user can connect to. Without --socket and --listen,
    /// use the socket passed by systemd or by a client (LISTEN_FDS)
    #[arg(short = 'U', long, value_name = "SOCK", value_parser = socket_path(),
          help_heading = WHERE)]
    socket: Option<PathBuf>,
    /// Listen on a TCP address: HOST:PORT, or only PORT for this machine. If HOST has several
    /// addresses, the first that can be used is taken. An address that other machines can reach
    /// requires TLS
    #[arg(short = 'p', long, value_name = "ADDR", conflicts_with = "socket",
          help_heading = WHERE)]
    listen: Option<Address>,
    /// Export name, once for each PATH in the same order. By default a single PATH has the empty
    /// name, and several have their file names
    #[arg(short = 'x', long = "export", value_name = "NAME", help_heading = WHERE)]
    names: Vec<String>,
    /// Refuse all changes
    #[arg(short = 'r', long, action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = false, default_missing_value = "true",
          hide_default_value = true, hide_possible_values = true, help_heading = WHERE)]
    read_only: bool,
    /// Create PATH with this length if it does not exist; an existing one must have this length
    #[arg(long, value_name = "SIZE", value_parser = image_size, conflicts_with = "read_only",
          help_heading = WHERE)]
    create: Option<u64>,
    /// Memory of the server: cached pages, client buffers, threads. The program code takes up to
    /// 16 MiB more. With FLOOR..SIZE the cache shrinks, down to FLOOR, while other programs need
    /// memory
    #[arg(long, value_name = "SIZE", value_parser = memory_range, help_heading = MEMORY)]
    memory: MemoryRange,
    /// Maximum number of clients at once [default: 16, fewer if they would take more than a
    /// quarter of the memory]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024),
          help_heading = MEMORY)]
    clients: Option<u16>,
    /// Read settings from FILE; flags override it. "forebay config print --defaults" lists the keys
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    tls: TypedTls,
    #[command(flatten)]
    bucket: TypedBucket,
    #[command(flatten)]
    flags: ServerFlags,
}

/// Flags for volumes in buckets.
#[derive(Args)]
#[command(next_help_heading = BUCKETS)]
struct TypedBucket {
    /// Object size of a volume that --create makes: a power of two from 64K to 8M
    #[arg(long, value_name = "SIZE", value_parser = chunk_size, requires = "create",
          default_value = "1M")]
    chunk: u32,
    /// Answer each FLUSH at once and record them together after TIME (10ms to 60s): a crash of the
    /// server loses the last ones [default: a FLUSH is answered once it is recorded]
    #[arg(long, value_name = "TIME", value_parser = commit_interval,
          conflicts_with = "read_only")]
    commit_interval: Option<Span>,
    /// Serve the volume as it was when the snapshot NAME was taken, read-only
    #[arg(long, value_name = "NAME", conflicts_with_all = ["create", "commit_interval"])]
    snapshot: Option<SnapshotName>,
    /// Serve the volume read-only while another server writes it, and look for its changes every
    /// TIME (100ms to 1h)
    #[arg(long, value_name = "TIME", value_parser = follow_interval,
          conflicts_with_all = ["create", "commit_interval", "snapshot"])]
    follow: Option<Span>,
    /// Open the volume although its last writer did not close it, for example after a crash. If
    /// that writer still runs, it can no longer write
    #[arg(long, action = ArgAction::Set, value_name = "BOOL", num_args = 0..=1,
          require_equals = true, default_value_t = false, default_missing_value = "true",
          hide_default_value = true, hide_possible_values = true)]
    take_over: bool,
    /// Remove objects that this server's writes have replaced, once they take more than PERCENT of
    /// the space of the current ones: a percentage, or off
    #[arg(long, value_name = "PERCENT", value_parser = dead_percent, default_value = "off")]
    garbage: Garbage,
    /// Key of an encrypted volume; with --create the new volume is encrypted with it [default: the
    /// variable FOREBAY_VOLUME_KEY]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

#[derive(Args)]
#[command(next_help_heading = SECURITY)]
struct TypedTls {
    /// Require TLS and a client certificate; DIR has server-cert.pem, server-key.pem and
    /// ca-cert.pem
    #[arg(long = "tls-certificates", value_name = "DIR",
          conflicts_with_all = ["socket", "certificate", "key", "client_authority"])]
    folder: Option<PathBuf>,
    /// Certificate of the server, in PEM
    #[arg(long = "tls-cert", value_name = "FILE",
          requires_all = ["key", "client_authority"], conflicts_with = "socket")]
    certificate: Option<PathBuf>,
    /// Private key of that certificate, in PEM
    #[arg(
        long = "tls-key",
        value_name = "FILE",
        requires = "certificate",
        conflicts_with = "socket"
    )]
    key: Option<PathBuf>,
    /// Certificates of the authorities that sign client certificates, in PEM
    #[arg(
        long = "tls-client-ca",
        value_name = "FILE",
        requires = "certificate",
        conflicts_with = "socket"
    )]
    client_authority: Option<PathBuf>,
}

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP address.
    Tcp(Address),
    /// A TCP address, for clients that use TLS.
    Tls(Address, TlsFiles),
    /// The socket that the starting program made, perhaps for clients that use TLS.
    Given(Option<TlsFiles>),
}

/// Where the credentials for TLS are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TlsFiles {
    /// Under their usual names in a folder.
    Folder(PathBuf),
    /// Each as a separate file.
    Each {
        certificate: PathBuf,
        key: PathBuf,
        client_authority: PathBuf,
    },
}

/// An image and the name of its export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImageArguments {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
}

/// The arguments of `forebay serve nbd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServeArguments {
    pub(crate) images: Vec<ImageArguments>,
    pub(crate) listen: ListenAddress,
    pub(crate) memory_bytes: u64,
    /// What it keeps of that when others need memory, if it gives any.
    pub(crate) floor_bytes: Option<u64>,
    pub(crate) read_only: bool,
    /// Length of images that do not exist yet.
    pub(crate) create_bytes: Option<u64>,
    /// Bytes of a chunk of a volume in a bucket that does not exist yet.
    pub(crate) chunk_bytes: u32,
    /// How long a FLUSH of a volume in a bucket may be in no record although it was answered.
    pub(crate) commit_interval: Option<Span>,
    /// The key of volumes in buckets that are encrypted.
    pub(crate) key_file: Option<PathBuf>,
    /// The snapshot that is served, read-only, of a volume in a bucket.
    pub(crate) snapshot: Option<SnapshotName>,
    /// How often what another server has written to a volume in a bucket is looked for.
    pub(crate) follow_interval: Option<Span>,
    /// Whether a volume in a bucket is opened although another writer has it.
    pub(crate) take_over: bool,
    /// What a volume in a bucket may have of objects of no use, in percent of the others.
    pub(crate) dead_percent: Option<u32>,
    pub(crate) flags: ServerFlags,
    /// Most clients at once, if it was given.
    pub(crate) clients: Option<u64>,
    /// Knobs of the file that was given.
    pub(crate) tuning: Tuning,
}

impl TypedServe {
    /// Checks them; `C` is the command line that they are a part of.
    ///
    /// # Errors
    /// A bad call, reported by clap.
    pub(crate) fn checked<C: CommandFactory>(self) -> Result<ServeArguments, clap::Error> {
        let TypedFront::Nbd(typed) = self.front;
        let refuse = |key: &str, kind, text: &str| refusal::<C>(&["serve", "nbd"], key, kind, text);
        let listen = match (typed.socket, typed.listen, typed.tls.files()) {
            (_, Some(address), Some(files)) => ListenAddress::Tls(address, files),
            (_, Some(address), None) => ListenAddress::Tcp(address),
            (Some(_), None, Some(_)) => {
                let text = "--tls-certificates and --tls-cert are for --listen";
                return Err(refuse("nbd.socket", ErrorKind::ArgumentConflict, text));
            }
            (Some(path), None, None) => ListenAddress::Unix(path),
            (None, None, files) if is_given_socket() => ListenAddress::Given(files),
            (None, None, _) => {
                let text = "give --socket or --listen, or pass a socket (LISTEN_FDS)";
                return Err(refuse(
                    "nbd.socket",
                    ErrorKind::MissingRequiredArgument,
                    text,
                ));
            }
        };
        let images = name_images(typed.paths, typed.names)
            .map_err(|(at, text)| refuse(&export_key(at), ErrorKind::WrongNumberOfValues, &text))?;
        Ok(ServeArguments {
            images,
            listen,
            memory_bytes: typed.memory.most_bytes,
            floor_bytes: typed.memory.floor_bytes,
            read_only: typed.read_only
                || typed.bucket.snapshot.is_some()
                || typed.bucket.follow.is_some(),
            create_bytes: typed.create,
            chunk_bytes: typed.bucket.chunk,
            commit_interval: typed.bucket.commit_interval,
            key_file: typed.bucket.key_file,
            snapshot: typed.bucket.snapshot,
            follow_interval: typed.bucket.follow,
            take_over: typed.bucket.take_over,
            dead_percent: typed.bucket.garbage.0,
            flags: typed.flags,
            clients: typed.clients.map(u64::from),
            tuning: Tuning::default(),
        })
    }
}

/// Whether the program that started this one says that it hands a socket over.
fn is_given_socket() -> bool {
    std::env::var_os("LISTEN_FDS").is_some()
}

impl TypedTls {
    fn files(self) -> Option<TlsFiles> {
        if let Some(folder) = self.folder {
            return Some(TlsFiles::Folder(folder));
        }
        Some(TlsFiles::Each {
            certificate: self.certificate?,
            key: self.key?,
            client_authority: self.client_authority?,
        })
    }
}

/// A percentage; none is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Garbage(Option<u32>);

fn dead_percent(text: &str) -> Result<Garbage, String> {
    if text == "off" {
        return Ok(Garbage(None));
    }
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    let percent = number.filter(|&percent| percent <= 10_000);
    let percent = percent.ok_or("write a percentage up to 10000%, or off")?;
    Ok(Garbage(Some(percent)))
}

fn commit_interval(text: &str) -> Result<Span, String> {
    let allowed = Span::from_millis(10)..=Span::from_secs(60);
    time_within(text, &allowed, "10ms to 60s")
}

fn follow_interval(text: &str) -> Result<Span, String> {
    let allowed = Span::from_millis(100)..=Span::from_secs(3_600);
    time_within(text, &allowed, "100ms to 1h")
}

fn time_within(text: &str, allowed: &RangeInclusive<Span>, words: &str) -> Result<Span, String> {
    let time = parse_time(text)?;
    if allowed.contains(&time) {
        return Ok(time);
    }
    Err(format!("write a time from {words}"))
}

/// The length of an image.
fn image_size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if (1..=forebay::LONGEST_BYTES).contains(&bytes) {
        return Ok(bytes);
    }
    let most = show_bytes(forebay::LONGEST_BYTES);
    Err(format!(
        "an image has at least one byte, and at most {most}"
    ))
}

/// The size of a chunk.
fn chunk_size(text: &str) -> Result<u32, String> {
    let refused = || "write a power of two from 64K to 8M".to_owned();
    let bytes = u32::try_from(parse_size(text)?).map_err(|_| refused())?;
    if is_chunk_size(bytes) {
        Ok(bytes)
    } else {
        Err(refused())
    }
}

/// Names the export of each image. A refusal says which image it is about.
fn name_images(
    paths: Vec<PathBuf>,
    names: Vec<String>,
) -> Result<Vec<ImageArguments>, (usize, String)> {
    let names = if !names.is_empty() {
        names
    } else if paths.len() == 1 {
        vec![String::new()]
    } else {
        let file_name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into());
        let named: Option<Vec<String>> = paths.iter().map(file_name).collect();
        let unnamed = paths.iter().position(|path| path.file_name().is_none());
        let text = "a PATH has no file name: give --export NAME for each PATH".to_owned();
        named.ok_or((unnamed.unwrap_or(0), text))?
    };
    if names.len() != paths.len() {
        let text = format!(
            "{} PATHs and {} names: give --export NAME once for each PATH, in the same order",
            paths.len(),
            names.len()
        );
        return Err((0, text));
    }
    if let Some(at) = names.iter().position(|name| name.len() > 4096) {
        let length = names[at].len();
        let text = format!("an export's name has at most 4096 bytes, not {length}");
        return Err((at, text));
    }
    if let Some(at) = (1..names.len()).find(|&at| names[..at].contains(&names[at])) {
        let name = &names[at];
        let text = format!("two exports are called '{name}': give each its own --export NAME");
        return Err((at, text));
    }
    let images = paths.into_iter().zip(names);
    Ok(images
        .map(|(path, name)| ImageArguments { path, name })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use forebay_bucket::CHUNK_BYTES;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        serve: TypedServe,
    }

    fn typed(words: &[&str]) -> Result<ServeArguments, clap::Error> {
        let words = [&["forebay", "nbd"], words].concat();
        Line::try_parse_from(words)?.serve.checked::<Line>()
    }

    #[test]
    fn one_image_has_the_empty_name() {
        let expected = ServeArguments {
            images: vec![ImageArguments {
                path: "disk.img".into(),
                name: String::new(),
            }],
            listen: ListenAddress::Unix("s".into()),
            memory_bytes: 64 << 20,
            floor_bytes: None,
            read_only: false,
            create_bytes: None,
            chunk_bytes: CHUNK_BYTES,
            commit_interval: None,
            key_file: None,
            snapshot: None,
            follow_interval: None,
            take_over: false,
            dead_percent: None,
            flags: ServerFlags::default(),
            clients: None,
            tuning: Tuning::default(),
        };
        let words = ["disk.img", "--socket", "s", "--memory", "64M"];
        assert_eq!(typed(&words).unwrap(), expected);
    }

    #[test]
    fn garbage_is_a_percentage_or_off() {
        let percent = |more: &[&str]| {
            let common = ["a", "--socket", "s", "--memory", "64M"];
            typed(&[&common, more].concat()).map(|arguments| arguments.dead_percent)
        };
        assert_eq!(percent(&[]).unwrap(), None);
        assert_eq!(percent(&["--garbage", "0"]).unwrap(), Some(0));
        assert_eq!(percent(&["--garbage", "200%"]).unwrap(), Some(200));
        assert_eq!(percent(&["--garbage", "off"]).unwrap(), None);
        for refused in ["-1", "half", "10001%", "%"] {
            assert!(percent(&["--garbage", refused]).is_err(), "{refused}");
        }
    }

    #[test]
    fn several_images_have_their_file_names_or_given_ones() {
        let common = [
            "/x/a.img",
            "/y/b.img",
            "--listen",
            "127.0.0.1:0",
            "--memory",
            "8M",
        ];
        let names = |more: &[&str]| -> Vec<String> {
            let arguments = typed(&[&common, more].concat()).unwrap();
            let named = arguments.images.into_iter().map(|image| image.name);
            named.collect()
        };
        assert_eq!(names(&[]), ["a.img", "b.img"]);
        assert_eq!(
            names(&["--export", "one", "--export", "two"]),
            ["one", "two"]
        );
    }

    #[test]
    fn credentials_for_tls_are_a_folder_or_single_files() {
        let place = |more: &[&str]| {
            let common = ["a", "--listen", "[::]:10809", "--memory", "64M"];
            typed(&[&common, more].concat()).map(|arguments| arguments.listen)
        };
        let address: Address = "[::]:10809".parse().unwrap();
        let folder = TlsFiles::Folder("pki".into());
        assert_eq!(
            place(&["--tls-certificates", "pki"]).unwrap(),
            ListenAddress::Tls(address.clone(), folder)
        );
        let each = ["--tls-cert", "c", "--tls-key", "k", "--tls-client-ca", "a"];
        let files = TlsFiles::Each {
            certificate: "c".into(),
            key: "k".into(),
            client_authority: "a".into(),
        };
        assert_eq!(place(&each).unwrap(), ListenAddress::Tls(address, files));
        assert_eq!(place(&each[..4]).unwrap_err().exit_code(), 2);
        let both = [&each[..], &["--tls-certificates", "pki"]].concat();
        assert_eq!(place(&both).unwrap_err().exit_code(), 2);
        let unix = [
            "a",
            "--socket",
            "s",
            "--memory",
            "64M",
            "--tls-certificates",
            "pki",
        ];
        assert_eq!(typed(&unix).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn bad_calls_exit_with_2() {
        let bad: [&[&str]; 10] = [
            &["a", "--socket", "s", "--memory", "64M", "--drain", "5"],
            &[
                "a",
                "--socket",
                "s",
                "--memory",
                "64M",
                "--read-only",
                "--drain",
                "5s",
            ],
            &["a", "--memory", "64M"],
            &["a", "--socket", "s"],
            &["--socket", "s", "--memory", "64M"],
            &[
                "a",
                "--socket",
                "s",
                "--listen",
                "127.0.0.1:1",
                "--memory",
                "64M",
            ],
            &["a", "--socket", "s", "--memory", "1M"],
            &[
                "a", "--socket", "s", "--memory", "64M", "--export", "x", "--export", "y",
            ],
            &["x/a", "y/a", "--socket", "s", "--memory", "64M"],
            &[
                "a",
                "--socket",
                "s",
                "--memory",
                "64M",
                "--read-only",
                "--create",
                "1G",
            ],
        ];
        for words in bad {
            assert_eq!(typed(words).unwrap_err().exit_code(), 2, "{words:?}");
        }
    }
}
