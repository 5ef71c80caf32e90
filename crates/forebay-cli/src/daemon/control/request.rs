//! Requests of HTTP/1.1, as far as the control socket serves them.

use httparse::{EMPTY_HEADER, Status};

/// A request with its body has at most this many bytes.
pub(super) const REQUEST_LIMIT_BYTES: usize = 64 << 10;
/// More headers than any client sends.
const HEADERS_LIMIT: usize = 32;

/// A whole request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    /// The part after the question mark.
    pub(super) query: String,
    pub(super) body: Vec<u8>,
}

/// Why a request is not answered: the status line and a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unserved {
    pub(super) status: &'static str,
    pub(super) text: &'static str,
}

const TOO_LONG: Unserved = Unserved {
    status: "413 Content Too Large",
    text: "a request has at most 64 KiB",
};
const MALFORMED: Unserved = Unserved {
    status: "400 Bad Request",
    text: "this is not HTTP/1.1",
};
const NO_LENGTH: Unserved = Unserved {
    status: "411 Length Required",
    text: "a body needs a Content-Length",
};

/// The request in `bytes`, or `None` while it is not complete.
///
/// # Errors
/// If `bytes` are no request, or too long for one.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<Request>, Unserved> {
    let mut headers = [EMPTY_HEADER; HEADERS_LIMIT];
    let mut head = httparse::Request::new(&mut headers);
    let head_bytes = match head.parse(bytes) {
        Ok(Status::Complete(head_bytes)) => head_bytes,
        Ok(Status::Partial) if bytes.len() < REQUEST_LIMIT_BYTES => return Ok(None),
        Ok(Status::Partial) => return Err(TOO_LONG),
        Err(_) => return Err(MALFORMED),
    };
    let mut body_bytes = 0;
    for header in &*head.headers {
        if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(NO_LENGTH);
        }
        if header.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(header.value).map_err(|_| MALFORMED)?;
            body_bytes = text.trim().parse::<usize>().map_err(|_| MALFORMED)?;
        }
    }
    let room_bytes = REQUEST_LIMIT_BYTES.saturating_sub(head_bytes);
    if body_bytes > room_bytes {
        return Err(TOO_LONG);
    }
    let Some(body) = bytes[head_bytes..].get(..body_bytes) else {
        return Ok(None);
    };
    let (Some(method), Some(target)) = (head.method, head.path) else {
        return Err(MALFORMED);
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Ok(Some(Request {
        method: method.into(),
        path: path.into(),
        query: query.into(),
        body: body.to_vec(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_whole_with_its_last_byte() {
        let text = b"POST /set?x=1 HTTP/1.1\r\nHost: a\r\ncontent-length: 4\r\n\r\nbody";
        for end in 0..text.len() {
            assert_eq!(parse(&text[..end]), Ok(None), "{end}");
        }
        let request = parse(text).unwrap().unwrap();
        assert_eq!((&*request.path, &*request.query), ("/set", "x=1"));
        assert_eq!((&*request.method, &*request.body), ("POST", &b"body"[..]));
    }

    #[test]
    fn what_is_too_long_or_no_request_is_refused_at_once() {
        let head = |length: &str| format!("POST /set HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
        for (text, refused) in [
            (head("65536"), TOO_LONG),
            (head("99999999999999999999"), MALFORMED),
            (head("-1"), MALFORMED),
            ("\u{1}\u{2}\r\n\r\n".into(), MALFORMED),
            (
                "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".into(),
                NO_LENGTH,
            ),
            (
                format!("GET /{} HTTP/1.1\r\n", "a".repeat(REQUEST_LIMIT_BYTES)),
                TOO_LONG,
            ),
            (
                format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(40)),
                MALFORMED,
            ),
        ] {
            assert_eq!(
                parse(text.as_bytes()),
                Err(refused),
                "{}",
                &text[..20.min(text.len())]
            );
        }
    }
}
