//! Numbers that nobody else has.

use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// A number that nobody else has or will have, on any machine: 128 bits of the system's chance.
/// It is for names that last, and no simulation uses it.
///
/// # Errors
/// If the system has no chance to give.
///
/// ```
/// assert_ne!(forebay_rt::fresh_number()?, forebay_rt::fresh_number()?);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn fresh_number() -> io::Result<u128> {
    let mut bytes = [0; 16];
    // So few bytes come in one piece, once the system has been started.
    let count = rustix::io::retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty()))?;
    if count < bytes.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(u128::from_le_bytes(bytes))
}
