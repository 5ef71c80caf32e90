//! A small NBD client: simple replies, and one request at a time unless stated otherwise.

#![allow(dead_code, reason = "each test program uses a part of it")]

use forebay_nbd::wire::{
    OPTION_MAGIC, REQUEST_BYTES, Request, SIMPLE_REPLY_MAGIC, command, command_flag, option,
};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    pub(crate) length_bytes: u64,
}

fn number<const N: usize>(stream: &mut UnixStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

impl Client {
    /// Connects and agrees on the export `name`.
    pub(crate) fn connect(socket: &Path, name: &str) -> io::Result<Client> {
        let mut stream = UnixStream::connect(socket)?;
        number::<18>(&mut stream)?;
        let mut hello = vec![0, 0, 0, 3];
        hello.extend(OPTION_MAGIC.to_be_bytes());
        hello.extend(option::EXPORT_NAME.to_be_bytes());
        hello.extend((name.len() as u32).to_be_bytes());
        hello.extend(name.as_bytes());
        stream.write_all(&hello)?;
        let length_bytes = u64::from_be_bytes(number(&mut stream)?);
        number::<2>(&mut stream)?;
        Ok(Client {
            stream,
            length_bytes,
        })
    }

    pub(crate) fn request(
        kind: u16,
        flags: u16,
        offset_bytes: u64,
        length_bytes: u32,
    ) -> [u8; REQUEST_BYTES] {
        let request = Request {
            flags,
            kind,
            cookie: 0x5eed,
            offset_bytes,
            length_bytes,
        };
        request.encode()
    }

    /// Sends a request and its payload, without waiting for the reply.
    pub(crate) fn send(&mut self, head: [u8; REQUEST_BYTES], payload: &[u8]) -> io::Result<()> {
        self.stream.write_all(&[&head, payload].concat())
    }

    /// The error number of the next reply.
    pub(crate) fn answer(&mut self) -> io::Result<u32> {
        let head: [u8; 16] = number(&mut self.stream)?;
        assert_eq!(head[..4], SIMPLE_REPLY_MAGIC.to_be_bytes());
        Ok(u32::from_be_bytes([head[4], head[5], head[6], head[7]]))
    }

    /// Asks and waits for the answer's error number.
    pub(crate) fn ask(&mut self, head: [u8; REQUEST_BYTES], payload: &[u8]) -> io::Result<u32> {
        self.send(head, payload)?;
        self.answer()
    }

    pub(crate) fn read(&mut self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let error = self.ask(
            Client::request(command::READ, 0, offset, length as u32),
            &[],
        )?;
        assert_eq!(error, 0);
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8], durable: bool) -> io::Result<u32> {
        let flags = if durable { command_flag::FUA } else { 0 };
        let head = Client::request(command::WRITE, flags, offset, bytes.len() as u32);
        self.ask(head, bytes)
    }

    pub(crate) fn flush(&mut self) -> io::Result<u32> {
        self.ask(Client::request(command::FLUSH, 0, 0, 0), &[])
    }
}
