//! All connections to a server, made together, and whether it is still the same server.

use super::address::Address;
use super::dialing::GoesOn;
use super::greeting::Facts;
use super::link::Link;
use super::refusal::ClientError;
use super::trust::Trust;
use crate::wire::transmission_flag;
use forebay_base::Span;

/// Most connections to one server.
pub(crate) const LINKS: usize = 4;

const FIRST_WAIT: Span = Span::from_millis(100);
const LONGEST_WAIT: Span = Span::from_secs(5);

/// What a server must fulfil.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demands {
    /// The client will write to it.
    pub(crate) writes: bool,
    /// The facts when it was first opened.
    pub(crate) known: Option<Facts>,
}

/// Connects to `address`, as often as the server allows. No request is sent on one of the
/// connections before all of them are there: two of them could lead to two servers, of which the
/// first ended in between, and a flush to the second one would not cover writes to the first.
///
/// During a wait for the server `goes_on` is called again and again, and says whether to go on.
pub(crate) fn connect_all(
    address: &Address,
    demands: Demands,
    goes_on: &mut GoesOn<'_>,
) -> Result<Vec<Link>, ClientError> {
    // Certificates that were renewed are read with each try.
    let trust = match &address.tls {
        Some(wishes) => Some(Trust::read(wishes, &address.place)?),
        None => None,
    };
    let first = Link::open(address, trust.as_ref(), goes_on)?;
    demands.check(&first.facts)?;
    let facts = first.facts;
    let mut links = vec![first];
    if !facts.can(transmission_flag::CAN_MULTI_CONN) {
        return Ok(links);
    }
    while links.len() < LINKS {
        match Link::open(address, trust.as_ref(), goes_on) {
            Ok(link) if link.facts == facts => links.push(link),
            // Another server has taken its place; the next try finds only that one.
            Ok(_) => return Err(ClientError::Changing),
            // It may limit the connections of a client.
            Err(ClientError::Away(_)) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(links)
}

impl Demands {
    fn check(&self, facts: &Facts) -> Result<(), ClientError> {
        if facts.length_bytes == 0 {
            return Err(ClientError::Empty);
        }
        if self.writes && facts.flags & transmission_flag::READ_ONLY != 0 {
            return Err(ClientError::ReadOnly);
        }
        if self.writes && !facts.can(transmission_flag::SEND_FLUSH) {
            return Err(ClientError::NoFlush);
        }
        let Some(known) = &self.known else {
            return Ok(());
        };
        if facts.length_bytes != known.length_bytes {
            return Err(ClientError::Length {
                found_bytes: facts.length_bytes,
                known_bytes: known.length_bytes,
            });
        }
        // Requests are cut by the limits that it reported first.
        let fits = facts.least_block_bytes <= known.least_block_bytes
            && facts.payload_limit_bytes >= known.payload_limit_bytes;
        if fits {
            Ok(())
        } else {
            Err(ClientError::Blocks)
        }
    }
}

/// How long to wait before the next try to connect.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BackOff {
    wait: Span,
    /// When the latest try ended.
    tried_at: Span,
}

impl BackOff {
    /// The time that is left at `now` before the next try. The first try after an answer is made at
    /// once.
    pub(crate) fn left(self, now: Span) -> Span {
        let waited = now.saturating_sub(self.tried_at);
        self.wait.saturating_sub(waited)
    }

    /// A try ended at `now`.
    pub(crate) fn tried(&mut self, now: Span) {
        self.tried_at = now;
        self.wait = self.wait.saturating_mul(2).clamp(FIRST_WAIT, LONGEST_WAIT);
    }

    /// The server has answered a request.
    pub(crate) fn answered(&mut self) {
        self.wait = Span::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(length_bytes: u64, flags: u16) -> Facts {
        Facts {
            length_bytes,
            flags: flags | transmission_flag::HAS_FLAGS,
            least_block_bytes: 512,
            payload_limit_bytes: 1 << 20,
            is_structured: true,
            allocation: None,
        }
    }

    #[test]
    fn a_server_that_is_not_what_it_was_is_refused_by_name() {
        let known = facts(1 << 30, transmission_flag::SEND_FLUSH);
        let demands = Demands {
            writes: true,
            known: Some(known),
        };
        let refusal = |facts: Facts| demands.check(&facts).map_err(|error| error.to_string());
        assert_eq!(refusal(known), Ok(()));
        let can_more = facts(
            1 << 30,
            transmission_flag::SEND_FLUSH | transmission_flag::SEND_FUA,
        );
        assert_eq!(refusal(can_more), Ok(()));
        for (now, text) in [
            (facts(1 << 29, transmission_flag::SEND_FLUSH), "536870912"),
            (facts(0, transmission_flag::SEND_FLUSH), "no bytes"),
            (facts(1 << 30, 0), "FLUSH"),
            (
                facts(
                    1 << 30,
                    transmission_flag::SEND_FLUSH | transmission_flag::READ_ONLY,
                ),
                "read-only",
            ),
            (
                Facts {
                    least_block_bytes: 4096,
                    ..known
                },
                "blocks",
            ),
            (
                Facts {
                    payload_limit_bytes: 4096,
                    ..known
                },
                "blocks",
            ),
        ] {
            let refused = refusal(now).expect_err("it is another server");
            assert!(refused.contains(text), "{refused}");
        }
    }

    #[test]
    fn a_reader_needs_no_flush() {
        let demands = Demands {
            writes: false,
            known: None,
        };
        assert!(
            demands
                .check(&facts(1, transmission_flag::READ_ONLY))
                .is_ok()
        );
    }

    #[test]
    fn tries_come_ever_more_seldom_until_an_answer() {
        let mut back_off = BackOff::default();
        let (mut now, mut tries_ms) = (Span::ZERO, Vec::new());
        for _ in 0..10 {
            now = now + back_off.left(now);
            tries_ms.push(now.as_millis());
            back_off.tried(now);
        }
        assert_eq!(
            tries_ms,
            [
                0, 100, 300, 700, 1_500, 3_100, 6_300, 11_300, 16_300, 21_300
            ]
        );
        back_off.answered();
        assert_eq!(back_off.left(now), Span::ZERO);
    }
}
