//! The clients of `object_store`: one for each service, set up from the environment.

use crate::addresses::{check_address, is_yes};
use crate::answers::invalid;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{ClientConfigKey, CredentialProvider, ObjectStore, RetryConfig};
use std::io;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

/// A service, and the keys with which it is asked.
pub(crate) struct Service {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) keys: Keys,
}

/// Where the keys of a service come from.
pub(crate) struct Keys {
    /// What a person sets who has none.
    pub(crate) variables: &'static str,
    pub(crate) ask: Box<dyn Fn() -> Pin<Box<Asking>> + Send + Sync>,
}

type Asking = dyn Future<Output = object_store::Result<()>> + Send;

impl Keys {
    fn of<T: Send + Sync + 'static>(
        provider: &Arc<dyn CredentialProvider<Credential = T>>,
        variables: &'static str,
        is_unsigned: bool,
    ) -> Keys {
        let provider = provider.clone();
        let ask = move || {
            let provider = provider.clone();
            let asked = async move {
                if is_unsigned {
                    return Ok(());
                }
                provider.get_credential().await.map(drop)
            };
            Box::pin(asked) as Pin<Box<Asking>>
        };
        Keys {
            variables,
            ask: Box::new(ask),
        }
    }
}

/// The caller counts and repeats tries, because it knows what may be done twice.
fn once() -> RetryConfig {
    // Another part of the program may have installed it, or another one: both can be used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    }
}

/// The time for a whole request that the client's library has by itself, in its words.
const USUAL_TIMEOUT: &str = "30s";

/// The time for a whole request: what was set, or a day, because only silence is bounded.
fn timeout_of(set: Option<String>) -> String {
    let set = set.filter(|text| text != USUAL_TIMEOUT);
    set.unwrap_or_else(|| "1 day".to_owned())
}

/// The key by the name that `object_store` has for it.
fn key_of<K: FromStr<Err = object_store::Error>>(name: &str) -> io::Result<K> {
    name.parse().map_err(|error| invalid(&error))
}

/// Refuses those of the addresses under `keys` that no client can use. `plain` allows addresses
/// without TLS, and people call it `plain_variable`.
fn check_addresses<K: FromStr + PartialEq>(
    value_of: impl Fn(&K) -> Option<String>,
    keys: &[K],
    plain: &K,
    plain_variable: &str,
) -> io::Result<()> {
    let allows_plain = is_set(value_of(plain));
    for key in keys {
        let Some(address) = value_of(key) else {
            continue;
        };
        let found_by = |name: &str| {
            let is_key = name
                .to_ascii_lowercase()
                .parse()
                .is_ok_and(|found: K| found == *key);
            is_key || OTHER_TOOLS.contains(&name)
        };
        check_address(&address, found_by, plain_variable, allows_plain)?;
    }
    Ok(())
}

fn is_set(value: Option<String>) -> bool {
    value.is_some_and(|text| is_yes(&text))
}

/// Variables with addresses that other tools read and `object_store` does not.
const OTHER_TOOLS: [&str; 2] = ["AZURE_STORAGE_CONNECTION_STRING", "STORAGE_EMULATOR_HOST"];

pub(crate) fn s3(bucket: &str, options: &[(&str, &str)]) -> io::Result<Service> {
    let mut builder = AmazonS3Builder::from_env();
    for (key, value) in options {
        builder = builder.with_config(key_of(key)?, *value);
    }
    let addresses = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
    let plain = AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp);
    let value_of = |key: &_| builder.get_config_value(key);
    check_addresses(value_of, &addresses, &plain, "AWS_ALLOW_HTTP")?;
    let is_unsigned = is_set(value_of(&AmazonS3ConfigKey::SkipSignature));
    let timeout = AmazonS3ConfigKey::Client(ClientConfigKey::Timeout);
    let timeout_text = timeout_of(value_of(&timeout));
    let built = builder
        .with_config(timeout, timeout_text)
        .with_bucket_name(bucket)
        .with_retry(once())
        .build();
    let store = built.map_err(|error| invalid(&error))?;
    let variables = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
    Ok(Service {
        keys: Keys::of(store.credentials(), variables, is_unsigned),
        store: Arc::new(store),
    })
}

pub(crate) fn azure(container: &str, options: &[(&str, &str)]) -> io::Result<Service> {
    let variable = |name: &str| std::env::var(name).ok();
    azure_of(
        MicrosoftAzureBuilder::from_env(),
        variable,
        container,
        options,
    )
}

/// Azure as `builder`, the variables of its own tools and `options` say, each over those before.
fn azure_of(
    mut builder: MicrosoftAzureBuilder,
    variable: impl Fn(&str) -> Option<String>,
    container: &str,
    options: &[(&str, &str)],
) -> io::Result<Service> {
    for (key, value) in azure_settings(variable)? {
        builder = builder.with_config(key, value);
    }
    for (key, value) in options {
        builder = builder.with_config(key_of(key)?, *value);
    }
    let value_of = |key: &AzureConfigKey| builder.get_config_value(key);
    let is_emulator = is_set(value_of(&AzureConfigKey::UseEmulator));
    if value_of(&AzureConfigKey::AccountName).is_none() && !is_emulator {
        return refused("no account is named; set AZURE_STORAGE_ACCOUNT");
    }
    let plain = AzureConfigKey::Client(ClientConfigKey::AllowHttp);
    check_addresses(
        value_of,
        &[AzureConfigKey::Endpoint],
        &plain,
        "AZURE_ALLOW_HTTP",
    )?;
    let is_unsigned = is_set(value_of(&AzureConfigKey::SkipSignature));
    let timeout = AzureConfigKey::Client(ClientConfigKey::Timeout);
    let timeout_text = timeout_of(value_of(&timeout));
    let built = builder
        .with_config(timeout, timeout_text)
        .with_container_name(container)
        .with_retry(once())
        .build();
    let store = built.map_err(|error| invalid(&error))?;
    Ok(Service {
        keys: Keys::of(
            store.credentials(),
            "AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN",
            is_unsigned,
        ),
        store: Arc::new(store),
    })
}

pub(crate) fn google(bucket: &str, options: &[(&str, &str)]) -> io::Result<Service> {
    let mut builder = GoogleCloudStorageBuilder::from_env();
    for (key, value) in google_settings(|name| std::env::var(name).ok()) {
        builder = builder.with_config(key, value);
    }
    for (key, value) in options {
        builder = builder.with_config(key_of(key)?, *value);
    }
    let plain = GoogleConfigKey::Client(ClientConfigKey::AllowHttp);
    let value_of = |key: &_| builder.get_config_value(key);
    check_addresses(
        value_of,
        &[GoogleConfigKey::BaseUrl],
        &plain,
        "GOOGLE_ALLOW_HTTP",
    )?;
    let is_unsigned = is_set(value_of(&GoogleConfigKey::SkipSignature));
    let timeout = GoogleConfigKey::Client(ClientConfigKey::Timeout);
    let timeout_text = timeout_of(value_of(&timeout));
    let built = builder
        .with_config(timeout, timeout_text)
        .with_bucket_name(bucket)
        .with_retry(once())
        .build();
    let store = built.map_err(|error| invalid(&error))?;
    Ok(Service {
        keys: Keys::of(
            store.credentials(),
            "GOOGLE_APPLICATION_CREDENTIALS",
            is_unsigned,
        ),
        store: Arc::new(store),
    })
}

/// What other tools of Azure read from the environment and `object_store` does not.
fn azure_settings(
    variable: impl Fn(&str) -> Option<String>,
) -> io::Result<Vec<(AzureConfigKey, String)>> {
    let mut settings = Vec::new();
    if let Some(text) = variable("AZURE_STORAGE_CONNECTION_STRING") {
        settings.extend(connection(&text)?);
    }
    for (name, key) in [
        ("AZURE_STORAGE_ACCOUNT", AzureConfigKey::AccountName),
        ("AZURE_STORAGE_KEY", AzureConfigKey::AccessKey),
    ] {
        settings.extend(variable(name).map(|value| (key, value)));
    }
    Ok(settings)
}

/// The settings in a connection string of Azure.
fn connection(text: &str) -> io::Result<Vec<(AzureConfigKey, String)>> {
    let parts = text.split(';').filter(|part| !part.trim().is_empty());
    let parts: Option<Vec<_>> = parts.map(|part| part.trim().split_once('=')).collect();
    let Some(parts) = parts else {
        return refused("AZURE_STORAGE_CONNECTION_STRING is not NAME=VALUE;NAME=VALUE");
    };
    let value_of = |name: &str| {
        let found = parts
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| (*value).to_owned())
    };
    if value_of("UseDevelopmentStorage").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(vec![(AzureConfigKey::UseEmulator, "true".to_owned())]);
    }
    let mut settings: Vec<_> = [
        ("AccountName", AzureConfigKey::AccountName),
        ("AccountKey", AzureConfigKey::AccessKey),
        ("SharedAccessSignature", AzureConfigKey::SasKey),
    ]
    .into_iter()
    .filter_map(|(name, key)| Some((key, value_of(name)?)))
    .collect();
    let scheme = value_of("DefaultEndpointsProtocol").unwrap_or_else(|| "https".to_owned());
    let endpoint = value_of("BlobEndpoint").or_else(|| {
        let (account, suffix) = (value_of("AccountName")?, value_of("EndpointSuffix")?);
        Some(format!("{scheme}://{account}.blob.{suffix}"))
    });
    if let Some(endpoint) = endpoint {
        if endpoint.starts_with("http://") {
            let key = AzureConfigKey::Client(ClientConfigKey::AllowHttp);
            settings.push((key, "true".to_owned()));
        }
        settings.push((AzureConfigKey::Endpoint, endpoint));
    }
    Ok(settings)
}

/// What other tools of Google read from the environment and `object_store` does not: an emulator,
/// which takes no keys.
fn google_settings(variable: impl Fn(&str) -> Option<String>) -> Vec<(GoogleConfigKey, String)> {
    let Some(host) = variable("STORAGE_EMULATOR_HOST").filter(|host| !host.is_empty()) else {
        return Vec::new();
    };
    let address = if host.contains("://") {
        host
    } else {
        format!("http://{host}")
    };
    vec![
        (
            GoogleConfigKey::BaseUrl,
            address.trim_end_matches('/').to_owned(),
        ),
        // Without one, the machine is asked for its own keys.
        (GoogleConfigKey::BearerToken, "emulator".to_owned()),
    ]
}

fn refused<T>(text: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::InvalidInput, text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_of(name: &'static str, value: &'static str) -> Vec<(String, String)> {
        let settings = azure_settings(|asked| (asked == name).then(|| value.to_owned()));
        let settings = settings.expect("it makes sense");
        let named = |(key, value): (AzureConfigKey, String)| (key.as_ref().to_owned(), value);
        settings.into_iter().map(named).collect()
    }

    #[test]
    fn the_variables_of_the_tools_of_azure_are_read() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            read_of("AZURE_STORAGE_ACCOUNT", "ours"),
            [pair("azure_storage_account_name", "ours")]
        );
        assert_eq!(
            read_of("AZURE_STORAGE_KEY", "a2V5"),
            [pair("azure_storage_account_key", "a2V5")]
        );
        let text = "DefaultEndpointsProtocol=https;AccountName=ours;AccountKey=a2V5==;\
                    EndpointSuffix=core.windows.net;";
        assert_eq!(
            read_of("AZURE_STORAGE_CONNECTION_STRING", text),
            [
                pair("azure_storage_account_name", "ours"),
                pair("azure_storage_account_key", "a2V5=="),
                pair(
                    "azure_storage_endpoint",
                    "https://ours.blob.core.windows.net"
                ),
            ]
        );
        let text = "BlobEndpoint=http://127.0.0.1:10000/a;SharedAccessSignature=sv=1&sig=x%3D";
        assert_eq!(
            read_of("AZURE_STORAGE_CONNECTION_STRING", text),
            [
                pair("azure_storage_sas_key", "sv=1&sig=x%3D"),
                pair("allow_http", "true"),
                pair("azure_storage_endpoint", "http://127.0.0.1:10000/a"),
            ]
        );
        assert_eq!(
            read_of(
                "AZURE_STORAGE_CONNECTION_STRING",
                "UseDevelopmentStorage=true"
            ),
            [pair("azure_storage_use_emulator", "true")]
        );
        assert!(connection("nonsense").is_err());
    }

    #[test]
    fn an_emulator_of_google_is_asked_without_keys() {
        for (host, address) in [
            ("localhost:4443", "http://localhost:4443"),
            ("https://localhost:4443/", "https://localhost:4443"),
        ] {
            let settings = google_settings(|name| {
                assert_eq!(name, "STORAGE_EMULATOR_HOST");
                Some(host.to_owned())
            });
            let expected = (GoogleConfigKey::BaseUrl, address.to_owned());
            assert_eq!(settings[0], expected);
            assert_eq!(settings[1].0, GoogleConfigKey::BearerToken);
        }
        assert_eq!(google_settings(|_| Some(String::new())), []);
    }

    #[test]
    fn an_account_that_is_missing_is_asked_for_by_name() {
        // Whatever the environment of the test names.
        let account = |asked: &str| (asked == "AZURE_STORAGE_ACCOUNT").then(|| "ours".to_owned());
        let plain = MicrosoftAzureBuilder::new;
        let unnamed = azure_of(plain(), |_| None, "backups", &[]);
        let text = unnamed.map(drop).unwrap_err().to_string();
        assert!(text.contains("AZURE_STORAGE_ACCOUNT"), "{text}");
        assert!(azure_of(plain(), account, "backups", &[]).is_ok());
        let emulator = [("azure_storage_use_emulator", "true")];
        assert!(azure("backups", &emulator).is_ok());
        let options = [("no_such_option", "1")];
        assert!(azure("b", &options).is_err());
        assert!(google("b", &options).is_err());
    }

    #[test]
    fn a_request_that_goes_on_has_no_end_unless_somebody_sets_one() {
        let usual = ClientConfigKey::Timeout;
        let options = object_store::ClientOptions::new();
        assert_eq!(
            options.get_config_value(&usual).as_deref(),
            Some(USUAL_TIMEOUT)
        );
        assert_eq!(timeout_of(options.get_config_value(&usual)), "1 day");
        assert_eq!(timeout_of(Some("9 seconds".to_owned())), "9 seconds");
    }
}
