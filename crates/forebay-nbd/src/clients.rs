//! The places of a server: its clients, and the strangers that may become clients.

use crate::connection_state::ConnectionState;
use crate::socket::Socket;
use forebay_base::Span;
use forebay_rt::thread::Stopwatch;
use std::net::Shutdown;
use std::sync::Arc;

/// Most connections at once that have yet to show a certificate. Each of them takes a thread and a
/// part of a connection's memory, and nobody vouches for them.
pub(crate) const STRANGERS_LIMIT: usize = 8;
/// A stranger that came less than this ago keeps its place: it may be a client whose first word is
/// on its way.
const GRACE: Span = Span::from_secs(1);

/// A client as the server sees it.
pub(crate) struct Client {
    pub(crate) socket: Socket,
    pub(crate) state: Arc<ConnectionState>,
    /// It has yet to show a certificate, or to say a first word where none is demanded.
    pub(crate) is_stranger: bool,
    pub(crate) since: Stopwatch,
    pub(crate) is_cut: bool,
    /// The export that it agreed on.
    pub(crate) export: Option<usize>,
    /// Whether it had left when the server began to end. After that its socket no longer shows it.
    pub(crate) had_left: Option<bool>,
}

impl Client {
    /// Accepts nothing more from it than what has already come.
    pub(crate) fn drain(&mut self) {
        // The first call counts: a server may be asked to end twice.
        self.had_left = Some(self.has_left());
        self.state.drain();
        self.socket.shut_down(Shutdown::Read);
    }

    /// Whether it closed its side of the connection, or the connection broke.
    pub(crate) fn has_left(&self) -> bool {
        self.had_left.unwrap_or_else(|| self.socket.was_left())
    }

    fn cut(&mut self) {
        self.is_cut = true;
        self.socket.shut_down(Shutdown::Both);
    }
}

/// All clients.
pub(crate) struct Clients {
    /// Most clients at once.
    limit: usize,
    /// Whether strangers have places of their own. Otherwise they have clients' places.
    demands_tls: bool,
    /// Each with the number of clients that came before it. The index is the client's number, which
    /// is used again.
    places: Vec<Option<(u64, Client)>>,
    has_come: u64,
}

impl Clients {
    pub(crate) fn new(limit: usize, demands_tls: bool) -> Clients {
        Clients {
            limit,
            demands_tls,
            places: Vec::new(),
            has_come: 0,
        }
    }

    /// All that are connected, strangers included.
    pub(crate) fn all(&mut self) -> impl Iterator<Item = &mut Client> {
        self.places.iter_mut().flatten().map(|(_, client)| client)
    }

    /// How many of them are not strangers.
    pub(crate) fn count(&self) -> usize {
        let clients = self.places.iter().flatten();
        clients.filter(|(_, client)| !client.is_stranger).count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.iter().all(Option::is_none)
    }

    pub(crate) fn is_stranger(&self, number: usize) -> bool {
        let place = self.places[number].as_ref();
        place.is_some_and(|(_, client)| client.is_stranger)
    }

    /// A place for a new client, or the reason if there is none.
    pub(crate) fn enter(&mut self, client: Client) -> Result<usize, String> {
        if !self.demands_tls && self.places.iter().flatten().count() >= self.limit {
            return Err(self.full());
        }
        let free = self.places.iter().position(Option::is_none);
        let number = free.unwrap_or(self.places.len());
        if free.is_none() {
            self.places.push(None);
        }
        self.has_come += 1;
        self.places[number] = Some((self.has_come, client));
        Ok(number)
    }

    /// Counts the clients up to the one with this number. Unlike the number it is not used again.
    pub(crate) fn arrival(&self, number: usize) -> usize {
        let place = self.places.get(number).and_then(Option::as_ref);
        place.map_or(0, |(arrival, _)| *arrival as usize)
    }

    /// Gives the stranger with this number a client's place, or the reason if there is none.
    pub(crate) fn welcome(&mut self, number: usize) -> Result<(), String> {
        if self.count() >= self.limit {
            return Err(self.full());
        }
        if let Some((_, client)) = &mut self.places[number] {
            client.is_stranger = false;
        }
        Ok(())
    }

    /// Records that the client with this number agreed on `export`. Returns the clients that agreed
    /// on it before and have left, but whose writes are not over.
    pub(crate) fn agree(&mut self, number: usize, export: usize) -> Vec<Arc<ConnectionState>> {
        if let Some((_, client)) = &mut self.places[number] {
            client.export = Some(export);
        }
        let others = self.places.iter().enumerate().filter_map(|(other, place)| {
            let (_, client) = place.as_ref()?;
            (other != number && client.export == Some(export)).then_some(client)
        });
        others
            .filter(|client| !client.state.writes.are_over() && client.has_left())
            .map(|client| client.state.clone())
            .collect()
    }

    /// The connection with this number is over, and so is everything requested over it.
    pub(crate) fn leave(&mut self, number: usize) {
        if let Some((_, client)) = self.places[number].take() {
            client.state.writes.end();
        }
    }

    fn full(&self) -> String {
        let limit = self.limit;
        format!("{limit} clients are connected, which is the limit")
    }

    /// Whether a connection that waits may come in, or be refused. Otherwise a stranger leaves
    /// soon: the one that came first is cut off. It is the least likely to be a client: a client
    /// speaks at once, and must not wait for others that have nothing to say.
    pub(crate) fn makes_room(&mut self) -> bool {
        let (limit, demands_tls) = (self.limit, self.demands_tls);
        let mut taken: Vec<_> = self.places.iter_mut().flatten().collect();
        taken.retain(|(_, client)| client.is_stranger || !demands_tls);
        // A connection that was cut off keeps its thread until the thread has noticed.
        let (cut, mut holding): (Vec<_>, Vec<_>) =
            taken.into_iter().partition(|(_, client)| client.is_cut);
        let places = if demands_tls { STRANGERS_LIMIT } else { limit };
        if holding.len() + cut.len() < places {
            return true;
        }
        holding.retain(|(_, client)| client.is_stranger);
        if cut.is_empty() {
            let Some((_, oldest)) = holding.into_iter().min_by_key(|(came, _)| *came) else {
                return true;
            };
            if oldest.since.elapsed() >= GRACE {
                oldest.cut();
            }
        }
        false
    }

    /// Cuts off the clients that took none of their answers for `patience`, and counts them.
    pub(crate) fn cut_stalled(&mut self, patience: Span) -> usize {
        let stalled = self
            .all()
            .filter(|client| !client.is_cut && client.state.is_stalled(patience));
        stalled.map(Client::cut).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn client() -> (UnixStream, Client) {
        let (peer, socket) = UnixStream::pair().unwrap();
        let client = Client {
            socket: Socket::Unix(socket),
            state: Arc::new(ConnectionState::new()),
            is_stranger: false,
            since: Stopwatch::start(),
            is_cut: false,
            export: None,
            had_left: None,
        };
        (peer, client)
    }

    #[test]
    fn the_end_of_the_server_is_not_taken_for_that_of_the_client() {
        let (peer, mut client) = client();
        client.drain();
        assert!(client.socket.was_left());
        client.drain();
        assert!(!client.has_left());
        drop(peer);
    }

    #[test]
    fn a_client_that_had_left_before_the_end_has_left() {
        let (peer, mut client) = client();
        assert!(!client.has_left());
        peer.shutdown(Shutdown::Write).unwrap();
        assert!(client.has_left());
        client.drain();
        assert!(client.has_left());
    }
}
