//! What fake-gcs-server lacks of Google's storage: objects are put by Google's XML interface, as
//! `object_store` does, and this server takes them by the JSON one alone. Here the one becomes the
//! other. The server itself decides whether an object is there already, and answers all the rest.

use crate::proxy::{header_of, read_message};
use forebay_rt::thread::spawn;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

/// Stands before the server at `server_port` until the program ends; returns its own port.
pub(crate) fn stand_before(server_port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it has an address").port();
    let accepting = move || {
        for client in listener.incoming().flatten() {
            let served = move || {
                // A client or server that goes away ends its request.
                let _ = serve(&client, server_port);
                let _ = client.shutdown(Shutdown::Both);
            };
            drop(spawn("google", served).expect("a thread can be started"));
        }
    };
    drop(spawn("google-accepts", accepting).expect("a thread can be started"));
    port
}

fn serve(mut client: &TcpStream, server_port: u16) -> io::Result<()> {
    let (head, body) = read_message(client)?;
    let line = head.split("\r\n").next().unwrap_or_default();
    let put = line.strip_prefix("PUT /").and_then(|rest| {
        let (bucket, rest) = rest.split_once('/')?;
        Some((bucket, rest.split([' ', '?']).next()?))
    });
    let Some((bucket, key)) = put else {
        return client.write_all(&ask(server_port, &addressed(&head, server_port), &body)?);
    };
    let condition = header_of(&head, "x-goog-if-generation-match")
        .map(|generation| format!("&ifGenerationMatch={generation}"))
        .unwrap_or_default();
    let mut parts = format!(
        "--part\r\nContent-Type: application/json\r\n\r\n{{\"name\":\"{}\"}}\r\n\
         --part\r\nContent-Type: application/octet-stream\r\n\r\n",
        key.replace("%2F", "/")
    )
    .into_bytes();
    parts.extend(&body);
    parts.extend(b"\r\n--part--\r\n");
    let head = format!(
        "POST /upload/storage/v1/b/{bucket}/o?uploadType=multipart&name={key}{condition} \
         HTTP/1.1\r\n\
         Host: 127.0.0.1\r\nContent-Type: multipart/related; boundary=part\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        parts.len()
    );
    let reply = ask(server_port, &head, &parts)?;
    if !reply.starts_with(b"HTTP/1.1 200") {
        return client.write_all(&reply);
    }
    client.write_all(
        b"HTTP/1.1 200 OK\r\nETag: \"made\"\r\nx-goog-generation: 1\r\nContent-Length: 0\r\n\
          Connection: close\r\n\r\n",
    )
}

/// `head` for the server, which goes by the name that it was called, and closes afterwards.
fn addressed(head: &str, server_port: u16) -> String {
    let lines = head.trim_end().split("\r\n");
    let kept = lines.filter(|line| {
        let line = line.to_ascii_lowercase();
        !line.starts_with("connection:") && !line.starts_with("host:")
    });
    let kept: Vec<_> = kept.collect();
    format!(
        "{}\r\nHost: 127.0.0.1:{server_port}\r\nConnection: close\r\n\r\n",
        kept.join("\r\n")
    )
}

fn ask(server_port: u16, head: &str, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut server = TcpStream::connect(("127.0.0.1", server_port))?;
    server.write_all(head.as_bytes())?;
    server.write_all(body)?;
    let mut reply = Vec::new();
    server.read_to_end(&mut reply)?;
    Ok(reply)
}
