//! The store at servers of other projects that answer badly: each stands behind a proxy.

#![allow(clippy::unwrap_used)]

#[path = "servers/far.rs"]
mod far;
#[path = "servers/proxy.rs"]
mod proxy;
#[path = "../../forebay-store/tests/support/mod.rs"]
mod support;
mod volumes;

use far::{Far, SAS, Service};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{PAGE_BYTES, Prng, Span};
use forebay_bucket::{Bucket, BucketError, BucketSettings, BucketStore, RemoteBucket, check};
use forebay_rt::thread::{Stopwatch, pause_current};
use forebay_store::{Failure, IoKind};
use forebay_volume::{Call, Reply, VolumeFault};
use proxy::{Deed, Proxy, header_of};
use std::sync::Arc;
use support::Driver;
use volumes::{CHUNK, MIB, pattern, writing};

const PAGE: u64 = PAGE_BYTES as u64;
/// The part of the volume that is used.
const SPAN: u64 = MIB / 2;
const SETTINGS: BucketSettings = BucketSettings {
    memory_bytes: 8 << 20,
    answer_timeout: Span::from_secs(60),
    ..BucketSettings::USUAL
};
const HASTY: BucketSettings = BucketSettings {
    answer_timeout: Span::from_millis(300),
    ..SETTINGS
};

fn commit(driver: &Driver) -> Result<(), Failure> {
    driver.order(IoKind::Commit, BucketStore::OBJECT, 0, 0)
}

/// Writes pages, as many at a time as a request takes.
fn write(driver: &Driver, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
    for (index, part) in bytes.chunks(CHUNK as usize).enumerate() {
        driver.write(BucketStore::OBJECT, offset + index as u64 * CHUNK, part)?;
    }
    Ok(())
}

fn open(
    far: &Far,
    port: u16,
    take_over: bool,
    settings: BucketSettings,
) -> Result<Arc<BucketStore>, BucketError> {
    let bucket = far.bucket_through(port, "v");
    BucketStore::open(bucket, "v", writing(take_over), settings)
}

/// Asserts that the volume behind the proxy is whole and has these bytes.
fn assert_holds(far: &Far, expected: &[u8]) {
    let next = Driver::new(open(far, far.port, true, SETTINGS).unwrap(), 64);
    for at in (0..expected.len()).step_by(CHUNK as usize) {
        let read = next.read(BucketStore::OBJECT, at as u64, CHUNK);
        assert!(
            read == expected[at..at + CHUNK as usize],
            "{}: {at}",
            far.name
        );
    }
    assert_eq!(
        check(far.bucket("v")).unwrap().faults,
        [""; 0],
        "{}",
        far.name
    );
}

#[test]
fn lost_replies_refusals_and_resets_lose_nothing() {
    for far in Far::all() {
        let proxy = Proxy::before(far.port);
        let mut expected = vec![0; SPAN as usize];
        let seed = 1;
        proxy.spoil_by(seed);
        let driver = Driver::new(open(&far, proxy.port, true, SETTINGS).unwrap(), 64);
        let mut prng = Prng::from_seed(seed);
        for round in 0..6 {
            let most = if round % 3 == 0 { 32 } else { 4 };
            let pages = 1 + prng.below(most);
            let at = PAGE * prng.below(SPAN / PAGE - pages);
            let bytes = pattern(round, (pages * PAGE) as usize);
            write(&driver, at, &bytes).unwrap();
            expected[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
            assert_eq!(commit(&driver), Ok(()), "{}", far.name);
        }
        assert_holds(&far, &expected);
    }
}

#[test]
fn a_server_that_answers_503_for_a_while_is_waited_for() {
    for far in Far::all() {
        let proxy = Proxy::before(far.port);
        let store = open(&far, proxy.port, false, SETTINGS).unwrap();
        let driver = Driver::new(store, 64);
        let mut expected = vec![0; SPAN as usize];
        for (round, pages) in [1_u64, 40].into_iter().enumerate() {
            let bytes = pattern(pages, (pages * PAGE) as usize);
            write(&driver, 0, &bytes).unwrap();
            expected[..bytes.len()].copy_from_slice(&bytes);
            let (clock, refused) = (Stopwatch::start(), Arc::new(Mutex::new(0)));
            let counted = refused.clone();
            proxy.rule(move |_| {
                if clock.elapsed() > Span::from_millis(1_000) {
                    return Deed::Pass;
                }
                *lock(&counted) += 1;
                Deed::error(503, "SlowDown")
            });
            assert_eq!(commit(&driver), Ok(()), "{}, round {round}", far.name);
            // Each of the three that make an object waits longer each time.
            let refused = *lock(&refused);
            assert!((2..=24).contains(&refused), "{refused} tries");
        }
        assert_holds(&far, &expected);
    }
}

/// Clients wait while somebody renews the keys, brings the bucket back, or repairs a line that cuts
/// answers short.
#[test]
fn what_passes_is_waited_for_once_the_volume_is_open() {
    for far in Far::all() {
        let proxy = Proxy::before(far.port);
        let store = open(&far, proxy.port, false, SETTINGS).unwrap();
        let driver = Driver::new(store, 64);
        let bytes = pattern(7, CHUNK as usize);
        write(&driver, 0, &bytes).unwrap();
        assert_eq!(commit(&driver), Ok(()), "{}", far.name);
        let missing = match far.service {
            Service::S3 | Service::Google => "NoSuchBucket",
            Service::Azure => "ContainerNotFound",
        };
        for (status, code) in [(403, "AccessDenied"), (404, missing), (404, "NoSuchKey")] {
            let clock = Stopwatch::start();
            proxy.rule(move |_| {
                if clock.elapsed() > Span::from_millis(700) {
                    Deed::Pass
                } else {
                    Deed::error(status, code)
                }
            });
            let context = format!("{}: {code}", far.name);
            let read = driver.try_read(BucketStore::OBJECT, 0, CHUNK);
            assert!(read.as_deref() == Ok(&bytes[..]), "{context}");
        }
        let clock = Stopwatch::start();
        proxy.rule(move |head| {
            let is_over = clock.elapsed() > Span::from_millis(700);
            if head.starts_with("GET") && !is_over {
                Deed::Answer(206, "short".to_owned())
            } else {
                Deed::Pass
            }
        });
        let read = driver.try_read(BucketStore::OBJECT, 0, CHUNK);
        assert!(read.as_deref() == Ok(&bytes[..]), "{}: short", far.name);
    }
}

/// Answers that servers of `service` give, and what they mean.
fn refusals(service: Service) -> &'static [(u16, &'static str, Failure)] {
    match service {
        Service::S3 => &[
            (503, "SlowDown", Failure::NoAnswer),
            (409, "ConditionalRequestConflict", Failure::NoAnswer),
            (403, "QuotaExceeded", Failure::NoSpace),
            (507, "XMinioStorageFull", Failure::NoSpace),
            (403, "InvalidAccessKeyId", Failure::Device(13)),
            (403, "ExpiredToken", Failure::NoAnswer),
        ],
        Service::Azure => &[
            (503, "ServerBusy", Failure::NoAnswer),
            (409, "ContainerBeingDeleted", Failure::NoAnswer),
            (507, "Insufficient Storage", Failure::NoSpace),
            (403, "AuthorizationPermissionMismatch", Failure::Device(13)),
            (
                403,
                "Signature not valid in the specified time frame",
                Failure::Device(13),
            ),
            (
                401,
                "Lifetime validation failed. The token is expired.",
                Failure::NoAnswer,
            ),
        ],
        Service::Google => &[
            (503, "ServiceUnavailable", Failure::NoAnswer),
            (429, "SlowDown", Failure::NoAnswer),
            (507, "Insufficient Storage", Failure::NoSpace),
            (403, "AccessDenied", Failure::Device(13)),
        ],
    }
}

#[test]
fn a_server_that_takes_no_writes_fails_commits_and_loses_nothing() {
    for far in Far::all() {
        let proxy = Proxy::before(far.port);
        let store = open(&far, proxy.port, false, HASTY).unwrap();
        let driver = Driver::new(store, 64);
        let mut expected = vec![0; SPAN as usize];
        let answers = refusals(far.service);
        for (salt, &(status, code, failure)) in answers.iter().enumerate() {
            let pages = [1, 20][salt % 2];
            let bytes = pattern(salt as u64, pages * PAGE_BYTES);
            write(&driver, CHUNK, &bytes).unwrap();
            expected[CHUNK as usize..][..bytes.len()].copy_from_slice(&bytes);
            proxy.rule(move |head| {
                if head.starts_with("PUT") {
                    Deed::error(status, code)
                } else {
                    Deed::Pass
                }
            });
            assert_eq!(commit(&driver), Err(failure), "{}, {code}", far.name);
            // What cannot be written can be read.
            let read = driver.read(BucketStore::OBJECT, CHUNK, PAGE);
            assert!(read == bytes[..PAGE_BYTES], "{}, {code}", far.name);
            proxy.rule(|_| Deed::Pass);
            // The store is hasty, and a server may be slow.
            let mut tries = (0..100).map(|_| commit(&driver));
            let end = tries.find(|end| *end != Err(Failure::NoAnswer));
            assert_eq!(end, Some(Ok(())), "{}, after {code}", far.name);
        }
        assert_holds(&far, &expected);
    }
}

#[test]
fn a_server_without_put_if_absent_is_refused_by_name() {
    for far in Far::all() {
        // This one demands that the signature covers the header.
        if far.name == "versitygw" {
            continue;
        }
        let proxy = Proxy::before(far.port);
        let header = match far.service {
            Service::S3 | Service::Azure => "if-none-match",
            Service::Google => "x-goog-if-generation-match",
        };
        proxy.rule(move |_| Deed::PassWithout(header));
        // The key of an account of Azure signs the header too.
        let bucket = match far.service {
            Service::Azure => far.bucket_with(proxy.port, "v", &[("azure_storage_sas_key", SAS)]),
            Service::S3 | Service::Google => far.bucket_through(proxy.port, "v"),
        };
        let refused = BucketStore::open(bucket, "v", writing(false), SETTINGS);
        let refused = refused.map(drop).unwrap_err();
        let is_named = matches!(&refused, BucketError::Volume(VolumeFault::NoPutIfAbsent));
        assert!(is_named, "{}: {refused}", far.name);
        assert!(refused.to_string().contains("put-if-absent"), "{refused}");
    }
}

#[test]
fn names_that_do_not_resolve_are_said() {
    let options = [
        ("aws_endpoint", "http://no-such-host.invalid:9000"),
        ("aws_allow_http", "true"),
        ("aws_access_key_id", "k"),
        ("aws_secret_access_key", "s"),
    ];
    let bucket = RemoteBucket::s3("b", "v", &options).unwrap();
    let refused = BucketStore::open(Arc::new(bucket), "v", writing(false), HASTY);
    let text = refused.map(drop).unwrap_err().to_string();
    assert!(text.contains("no-such-host.invalid"), "{text}");
}

/// Credentials that last for a moment, as machines of a cloud get them. The proxy hands them out,
/// and refuses all but the newest.
#[test]
fn keys_that_expire_are_renewed_in_the_middle() {
    for far in Far::all_s3() {
        // This one knows one pair of keys.
        if far.name == "versitygw" {
            continue;
        }
        let proxy = Proxy::before(far.port);
        let issued = Arc::new(Mutex::new(0_u64));
        proxy.rule(move |head| {
            let mut issued = lock(&issued);
            if head.starts_with("GET /keys") {
                assert_eq!(header_of(head, "authorization"), Some("a token"));
                *issued += 1;
                // It has expired, so that the next request asks anew; the server takes each
                // for as long as it is the newest.
                return Deed::Answer(
                    200,
                    format!(
                        "{{\"AccessKeyId\":\"key{issued}\",\"SecretAccessKey\":\"s\",\
                         \"Token\":\"t\",\"Expiration\":\"2020-01-01T00:00:00Z\"}}"
                    ),
                );
            }
            let key = format!("Credential=key{issued}/");
            match header_of(head, "authorization") {
                Some(signed) if signed.contains(&key) => Deed::Pass,
                _ => Deed::error(400, "ExpiredToken"),
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, "a token").unwrap();
        let address = format!("http://127.0.0.1:{}/keys", proxy.port);
        let keys = [
            ("aws_container_credentials_full_uri", address.as_str()),
            (
                "aws_container_authorization_token_file",
                token.to_str().unwrap(),
            ),
        ];
        work_on(&far, far.bucket_with(proxy.port, "v", &keys));
    }
}

/// Writes and commits a few times through `bucket`, and looks at what `far` has then.
fn work_on(far: &Far, bucket: Arc<RemoteBucket>) {
    let store = BucketStore::open(bucket, "v", writing(false), SETTINGS).unwrap();
    let driver = Driver::new(store, 64);
    let mut expected = vec![0; SPAN as usize];
    for round in 0..4 {
        let bytes = pattern(round, 2 * CHUNK as usize);
        write(&driver, 2 * CHUNK * round, &bytes).unwrap();
        expected[(2 * CHUNK * round) as usize..][..bytes.len()].copy_from_slice(&bytes);
        assert_eq!(commit(&driver), Ok(()), "{}", far.name);
        pause_current(Span::from_millis(10));
    }
    assert_holds(far, &expected);
}

/// Tokens of a machine of Azure. The proxy hands them out, refuses all except the newest, and knows
/// the key of the account.
#[test]
fn tokens_of_azure_that_expire_are_renewed_in_the_middle() {
    for far in Far::all() {
        if far.service != Service::Azure {
            continue;
        }
        let proxy = Proxy::before(far.port);
        let counted = Arc::new(Mutex::new(0_u64));
        let issued = counted.clone();
        proxy.rule(move |head| {
            let mut issued = lock(&issued);
            if head.starts_with("GET /tokens?") {
                assert_eq!(header_of(head, "metadata"), Some("true"));
                *issued += 1;
                return Deed::Answer(
                    200,
                    format!(
                        "{{\"access_token\":\"token{issued}\",\"expires_on\":\"1577836800\",\
                         \"resource\":\"storage\",\"token_type\":\"Bearer\"}}"
                    ),
                );
            }
            let newest = format!("Bearer token{issued}");
            if header_of(head, "authorization") == Some(&newest) {
                Deed::PassSigned(SAS)
            } else {
                Deed::error(401, "Lifetime validation failed. The token is expired.")
            }
        });
        let address = format!("http://127.0.0.1:{}/tokens", proxy.port);
        let keys = [("azure_msi_endpoint", address.as_str())];
        let bucket = far.bucket_with(proxy.port, "v", &keys);
        for round in 0..4 {
            let (key, bytes) = (format!("log/{round}"), pattern(round, 1_000));
            let made = Call::Make {
                key: key.clone(),
                bytes: Arc::new(bytes.clone()),
            };
            assert_eq!(bucket.ask(&made), Ok(Reply::Done), "{}", far.name);
            let found = bucket.ask(&Call::Get { key, range: None });
            assert_eq!(found, Ok(Reply::Bytes(bytes)), "{}", far.name);
        }
        assert!(*lock(&counted) > 1, "one token is not renewed");
    }
}
