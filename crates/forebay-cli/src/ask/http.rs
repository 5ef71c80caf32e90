//! One request to a control socket and its answer.

use crate::error::CommandError;
use forebay_control::place;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A server that says nothing for this long is given up. It usually answers within a moment.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a server answered.
#[derive(Debug)]
pub(super) struct Reply {
    /// The number of the HTTP status.
    pub(super) status: u16,
    pub(super) body: String,
}

impl Reply {
    /// The body, if the server did what was asked.
    ///
    /// # Errors
    /// The server's reason why not.
    pub(super) fn ok(self, socket: &Path) -> Result<String, CommandError> {
        if self.status == 200 {
            return Ok(self.body);
        }
        let answer: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        let reason = answer["error"].as_str().unwrap_or(self.body.trim());
        let text = format!("{}: {reason}", socket.display());
        Err(match self.status {
            422 => CommandError::BadCall(text),
            _ => CommandError::Served(text),
        })
    }
}

/// The socket that was named, or the only one at which a server answers.
///
/// # Errors
/// A bad call if there is not exactly one.
pub(super) fn socket_of(named: Option<&Path>) -> Result<PathBuf, CommandError> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    let mut found = place::answering();
    if found.len() == 1 {
        return Ok(found.remove(0));
    }
    let listed = found.iter().map(|path| format!("\n  {}", path.display()));
    Err(CommandError::BadCall(match found.len() {
        0 => "no server answers in $XDG_RUNTIME_DIR/forebay or /run/forebay: give the control \
              socket that it was started with, as -s SOCK"
            .into(),
        count => format!(
            "{count} servers answer; give the socket of one, as -s SOCK:{}",
            listed.collect::<String>()
        ),
    }))
}

/// Asks for `target` with GET.
pub(super) fn get(socket: &Path, target: &str) -> Result<Reply, CommandError> {
    ask(
        socket,
        &format!("GET {target} HTTP/1.1\r\nHost: forebay\r\n\r\n"),
    )
}

/// Sends `body` to `target` with POST.
pub(super) fn post(socket: &Path, target: &str, body: &str) -> Result<Reply, CommandError> {
    let length = body.len();
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: forebay\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    ask(socket, &(head + body))
}

fn ask(socket: &Path, request: &str) -> Result<Reply, CommandError> {
    let reply = exchange(socket, request).map_err(CommandError::advised("ask", socket, advice))?;
    read_reply(&reply).ok_or_else(|| {
        let text = format!(
            "{}: the answer is not that of a forebay server",
            socket.display()
        );
        CommandError::Served(text)
    })
}

fn exchange(socket: &Path, request: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    Ok(reply)
}

fn read_reply(reply: &str) -> Option<Reply> {
    let (head, body) = reply.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some(Reply {
        status,
        body: body.into(),
    })
}

/// What to do about a socket that cannot be asked.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            "; no server answers there: give the socket of its --control as -s SOCK"
        }
        io::ErrorKind::PermissionDenied => "; the server belongs to another user",
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "; the server answers its own user and root only"
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "; the server does not answer",
        _ => "",
    }
}
