//! What the errors of `object_store` mean for a volume.

use crate::bucket::CallError;
use forebay_store::Failure;
use forebay_volume::Call;
use object_store::Error;
use std::io;

/// Whether the answer is that of a server that has no such bucket, rather than no such object.
pub(crate) fn is_bucket_missing(error: &Error) -> bool {
    has_one(&chain(error), &NO_BUCKET)
}

/// Whether another request was under way for the same object. `object_store` has one error for this
/// and for an object that is there.
pub(crate) fn is_conflict(error: &Error) -> bool {
    let signs = [
        "ConditionalRequestConflict",
        "OperationAborted",
        // Azure, of a container and of its account.
        "ContainerBeingDeleted",
        "ContainerDisabled",
        "AccountBeingCreated",
    ];
    has_one(&chain(error), &signs)
}

/// Whether a range was asked for that begins past the end of its object.
pub(crate) fn is_past_the_end(call: &Call, error: &Error) -> bool {
    let signs = [
        "416 Range Not Satisfiable",
        "InvalidRange",
        "Wanted range starting at",
    ];
    matches!(call, Call::Get { range: Some(_), .. }) && has_one(&chain(error), &signs)
}

/// Whether the server does not take the keys.
pub(crate) fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. }
    ) || has_one(&chain(error), &EXPIRED)
}

pub(crate) fn invalid(error: &(dyn std::error::Error + 'static)) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, chain(error))
}

/// The texts of an error and of what caused it, each once.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

fn has_one(text: &str, signs: &[&str]) -> bool {
    signs.iter().any(|sign| text.contains(sign))
}

/// What S3 and Google, and Azure, call a bucket that is not there.
const NO_BUCKET: [&str; 2] = ["NoSuchBucket", "ContainerNotFound"];

/// What S3 and Azure say of keys that have expired and can be renewed.
const EXPIRED: [&str; 4] = [
    "ExpiredToken",
    "TokenRefreshRequired",
    "token is expired",
    "Lifetime validation failed",
];

/// How the client's library words a removal that S3 or Azure refuses, one of many in a request.
const REMOVAL_REFUSED: [&str; 4] = [
    "code: AccessDenied",
    "code: 403",
    "code: BlobImmutable",
    "code: AuthorizationPermissionMismatch",
];

/// What Azure says of a signature that is too old or too young.
const OUT_OF_TIME: &str = "not valid in the specified time frame";

/// What servers call a bucket that takes no more: Ceph, MinIO, and those that answer 507.
const FULL: [&str; 3] = [
    "QuotaExceeded",
    "XMinioStorageFull",
    "507 Insufficient Storage",
];

/// The trouble for an error, in one line.
pub(crate) fn trouble_of(error: &Error) -> CallError {
    let text = chain(error);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match error {
        _ if has_one(&text, &NO_BUCKET) => {
            CallError::lasting("there is no such bucket; make it first", Failure::Gone)
        }
        // Keys of this kind are renewed before their time, and perhaps they are by now.
        _ if has_one(&text, &EXPIRED) => {
            CallError::passing(format!("the server refuses keys that have expired: {text}"))
        }
        // Nobody renews a signature that somebody made.
        _ if text.contains(OUT_OF_TIME) => CallError::lasting(
            format!("the shared access signature (SAS) is not valid at this time: {text}"),
            Failure::Device(13),
        ),
        _ if has_one(&text, &FULL) => {
            CallError::lasting(format!("the bucket is full: {text}"), Failure::NoSpace)
        }
        _ if has_one(&text, &REMOVAL_REFUSED) => CallError::lasting(
            format!("the server refuses to remove objects: {text}"),
            Failure::Device(13),
        ),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => CallError::lasting(
            format!("the server refuses these keys: {text}"),
            Failure::Device(13),
        ),
        Error::NotSupported { .. } | Error::NotImplemented { .. } | Error::InvalidPath { .. } => {
            CallError::lasting(text, Failure::Unsupported)
        }
        _ => CallError::passing(text),
    }
}
