//! What is asked of a store, without the pages.

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IoKind {
    /// Fill the pages from the range; what the object does not have is zeros, and so is the rest
    /// of the last page.
    Read,
    /// Write the pages to the range. The object grows if the range ends past its end.
    Write,
    /// Make every finished write and length of the object durable. The range is ignored.
    Commit,
    /// The range is no longer needed and reads as zeros from now on.
    Discard,
    /// The object's length becomes `offset_bytes`; the bytes past it are gone.
    SetLength,
}

/// The number by which a store knows one of its objects (a file, a device, an export).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u64);

/// What is asked of a store, without the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is asked.
    pub kind: IoKind,
    /// Of which object.
    pub object: ObjectId,
    /// First byte of the range.
    pub offset_bytes: u64,
    /// Bytes of the range.
    pub length_bytes: u64,
}
