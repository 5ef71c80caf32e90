//! Settings with which no bucket can be reached: a person hears at once which one, and nothing
//! waits for a machine that does not exist.

use forebay_base::Span;
use forebay_rt::thread::{Stopwatch, pause_current};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

/// As long as an idle machine takes, many times over; a request for keys that is repeated takes
/// longer.
const BOUND: Span = Span::from_secs(15);

/// `forebay volume info` about `address` with these variables and no others.
fn command(address: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command
        .args(["volume", "info", address])
        .env_clear()
        .envs(variables.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// The error of `forebay volume info` about `address` with these variables and no others.
fn refusal(address: &str, variables: &[(&str, &str)]) -> String {
    let mut child = command(address, variables)
        .spawn()
        .expect("the program starts");
    let started = Stopwatch::start();
    while child.try_wait().expect("it can be asked").is_none() {
        if started.elapsed() > BOUND {
            child.kill().expect("it runs");
            panic!("{address} with {variables:?} still waits");
        }
        pause_current(Span::from_millis(20));
    }
    let output = child.wait_with_output().expect("it has ended");
    assert_eq!(
        output.status.code(),
        Some(1),
        "{address} with {variables:?}"
    );
    String::from_utf8(output.stderr).expect("its words are UTF-8")
}

/// The first line that the same command says, which goes on.
fn first_word(address: &str, variables: &[(&str, &str)]) -> String {
    let mut child = command(address, variables)
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    let stderr = child.stderr.take().expect("it is piped");
    BufReader::new(stderr)
        .read_line(&mut line)
        .expect("it is UTF-8");
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    line
}

#[test]
fn an_address_without_a_scheme_or_a_host_is_refused_by_the_name_of_its_variable() {
    let s3 = [("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s")];
    let azure = [
        ("AZURE_STORAGE_ACCOUNT", "a"),
        ("AZURE_STORAGE_KEY", "a2V5"),
    ];
    for value in ["", "127.0.0.1:9000", "http://", "http://127.0.0.1:9000 "] {
        for (address, keys, variable) in [
            ("s3://b/v", &s3[..], "AWS_ENDPOINT"),
            ("s3://b/v", &s3, "AWS_ENDPOINT_URL"),
            ("s3://b/v", &s3, "AWS_ENDPOINT_URL_S3"),
            ("az://b/v", &azure, "AZURE_STORAGE_ENDPOINT"),
            ("gs://b/v", &[], "GOOGLE_BASE_URL"),
        ] {
            let text = refusal(address, &[keys, &[(variable, value)]].concat());
            let named = format!("{variable} has the address \"{value}\"");
            assert!(text.contains(&named), "{variable}: {text}");
        }
    }
}

#[test]
fn a_connection_string_and_an_emulator_are_looked_at_too() {
    let connection = "AccountName=a;AccountKey=a2V5;BlobEndpoint=127.0.0.1:10000";
    let text = refusal(
        "az://b/v",
        &[("AZURE_STORAGE_CONNECTION_STRING", connection)],
    );
    assert!(
        text.contains("AZURE_STORAGE_CONNECTION_STRING has the address"),
        "{text}"
    );
    let text = refusal("gs://b/v", &[("STORAGE_EMULATOR_HOST", "no host:1")]);
    assert!(
        text.contains("STORAGE_EMULATOR_HOST has the address"),
        "{text}"
    );
}

#[test]
fn an_address_without_tls_is_refused_until_somebody_allows_it() {
    let closed = closed_address();
    let keys = [("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s")];
    let variables = [&keys[..], &[("AWS_ENDPOINT", closed.as_str())]].concat();
    let text = refusal("s3://b/v", &variables);
    assert!(text.contains("AWS_ALLOW_HTTP=true"), "{text}");
}

#[test]
fn whoever_has_no_keys_is_told_which_variables_to_set() {
    let closed = closed_address();
    let text = refusal("s3://b/v", &[("AWS_METADATA_ENDPOINT", &closed)]);
    assert!(
        text.contains("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        "{text}"
    );
    let host = closed.trim_start_matches("http://");
    let google = [("GCE_METADATA_HOST", host), ("GCE_METADATA_IP", host)];
    let text = refusal("gs://b/v", &google);
    assert!(
        text.contains("set GOOGLE_APPLICATION_CREDENTIALS"),
        "{text}"
    );
    let azure = [
        ("AZURE_STORAGE_ACCOUNT", "a"),
        ("IDENTITY_ENDPOINT", closed.as_str()),
    ];
    let text = refusal("az://b/v", &azure);
    assert!(text.contains("set AZURE_STORAGE_KEY"), "{text}");
}

#[test]
fn a_bucket_that_is_open_to_all_needs_no_keys() {
    let closed = closed_address();
    let variables = [
        ("AWS_METADATA_ENDPOINT", closed.as_str()),
        ("AWS_ENDPOINT", "https://127.0.0.1:1"),
        ("AWS_SKIP_SIGNATURE", "true"),
    ];
    let text = first_word("s3://b/v", &variables);
    assert!(!text.contains("AWS_ACCESS_KEY_ID"), "{text}");
    assert!(text.contains("asked again for up to 30"), "{text}");
}

/// An address at which nothing listens.
fn closed_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    format!("http://{address}")
}
