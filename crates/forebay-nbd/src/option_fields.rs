//! The fields that options and their answers consist of, as bytes.

use crate::wire::{
    ALLOCATION_CONTEXT, OPTION_REPLY_MAGIC, PAYLOAD_LIMIT_BYTES, option_reply, u16_at, u32_at,
};
use forebay_base::PAGE_BYTES;

/// Longest name that the protocol allows.
pub(crate) const NAME_LIMIT_BYTES: usize = 4096;

/// The smallest, preferred and largest block of every export.
pub(crate) fn block_sizes() -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&1_u32.to_be_bytes());
    bytes[4..8].copy_from_slice(&(PAGE_BYTES as u32).to_be_bytes());
    bytes[8..].copy_from_slice(&PAYLOAD_LIMIT_BYTES.to_be_bytes());
    bytes
}

/// Splits `data` into a text that is preceded by its length, and the rest.
pub(crate) fn split_text(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32_at(data.get(..4)?, 0) as usize;
    let text = data[4..].get(..length)?;
    (length <= NAME_LIMIT_BYTES).then_some((text, &data[4 + length..]))
}

/// Splits `data` into a name and the kinds of facts asked for after it, two bytes each.
pub(crate) fn split_infos(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, rest) = split_text(data)?;
    let count = usize::from(u16_at(rest.get(..2)?, 0));
    (rest.len() == 2 + 2 * count).then_some((name, &rest[2..]))
}

/// Whether one of the queries in `data` asks for the allocation context; `None` if the lengths do
/// not add up. In a listing, a client may send no query at all, or a whole namespace.
pub(crate) fn asks_for_allocation(data: &[u8], lists: bool) -> Option<bool> {
    let count = u32_at(data.get(..4)?, 0);
    let mut rest = &data[4..];
    let mut wanted = lists && count == 0;
    for _ in 0..count {
        let (query, after) = split_text(rest)?;
        wanted |= query == ALLOCATION_CONTEXT.as_bytes() || (lists && query == b"base:");
        rest = after;
    }
    rest.is_empty().then_some(wanted)
}

pub(crate) fn push_text(output: &mut Vec<u8>, text: &str) {
    output.extend((text.len() as u32).to_be_bytes());
    output.extend(text.as_bytes());
}

pub(crate) fn push_invalid(output: &mut Vec<u8>, option: u32, why: &str) {
    push_reply(output, option, option_reply::ERR_INVALID, why.as_bytes());
}

pub(crate) fn push_reply(output: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    output.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    output.extend(option.to_be_bytes());
    output.extend(kind.to_be_bytes());
    output.extend((data.len() as u32).to_be_bytes());
    output.extend(data);
}
