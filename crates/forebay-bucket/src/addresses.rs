//! Addresses of servers that a person set, looked at before they are used: the clients' library
//! panics over some, and asks at others for as long as it is told to.

use reqwest::Url;
use std::io;

/// Refuses `address` if no client can use it. `found_by` tells by the name of a variable whether it
/// is one that holds such an address; `plain_variable` allows addresses without TLS, and does so
/// already if `allows_plain`.
pub(crate) fn check_address(
    address: &str,
    found_by: impl Fn(&str) -> bool,
    plain_variable: &str,
    allows_plain: bool,
) -> io::Result<()> {
    let Some(wrong) = fault_of(address, plain_variable, allows_plain) else {
        return Ok(());
    };
    let mut variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    // An address may be a part of a variable, or made of it.
    let holds = |value: &str| value.contains(address) || address.contains(value);
    let variable = variables.find(|(name, value)| found_by(name) && holds(value));
    let name = variable.map_or_else(|| "the endpoint".to_owned(), |(name, _)| name);
    let text = format!("{name} has the address \"{address}\": {wrong}");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// What is wrong with `address`.
fn fault_of(address: &str, plain_variable: &str, allows_plain: bool) -> Option<String> {
    let form = || Some("write http://HOST:PORT or https://HOST[:PORT]".to_owned());
    if address.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Some("there is a blank in it".to_owned());
    }
    let Ok(url) = Url::parse(address) else {
        return form();
    };
    match url.scheme() {
        _ if !url.has_host() => form(),
        "https" => None,
        "http" if allows_plain => None,
        "http" => Some(format!(
            "keys and data would be sent without TLS; write https://, or set {plain_variable}=true"
        )),
        _ => form(),
    }
}

/// Whether `text` is what the clients' library takes for yes.
pub(crate) fn is_yes(text: &str) -> bool {
    ["1", "true", "on", "yes", "y"].contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_no_client_can_use_is_refused() {
        for address in [
            "",
            "localhost",
            "localhost:9000",
            "127.0.0.1:9000",
            "//127.0.0.1:9000",
            "ftp://127.0.0.1",
            "http://",
            "http://:9000",
            "http://127.0.0.1:99999",
            "http://127.0.0.1:9000 ",
            "http://127.0.0.1:9000\n",
            "https://[::1",
        ] {
            let refused = check_address(address, |_| false, "AWS_ALLOW_HTTP", true);
            let text = refused.expect_err(address).to_string();
            assert!(text.starts_with("the endpoint has the address"), "{text}");
        }
        for address in [
            "http://127.0.0.1:9000",
            "https://[::1]:9000/a",
            "https://s3.example",
        ] {
            check_address(address, |_| false, "AWS_ALLOW_HTTP", true).expect(address);
        }
    }

    #[test]
    fn an_address_without_tls_needs_a_word() {
        let plain = fault_of("http://127.0.0.1:9000", "AWS_ALLOW_HTTP", false);
        let text = plain.expect("it is refused");
        assert!(text.contains("AWS_ALLOW_HTTP=true"), "{text}");
        assert_eq!(
            fault_of("https://s3.example", "AWS_ALLOW_HTTP", false),
            None
        );
    }
}
