//! Limits the connections to one address. A new client, such as the liveness probe, must always get one: when all
//! places are taken, a new connection replaces one that has never sent a request, or else the one whose last request is
//! the longest ago. Clients that have proven who they are come last.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a new connection cannot be evicted: enough for a real client to send its request. Otherwise, many
/// connections that come at once would evict each other before they are read.
const CONNECTION_GRACE: Duration = Duration::from_millis(20);

/// The places for connections. Clones share them.
#[derive(Clone)]
pub(crate) struct Connections(Arc<Mutex<Places>>);

struct Places {
    most: usize,
    grace: Duration,
    next: u64,
    /// The places, oldest first. Their order is that in which the connections were opened or last sent a request.
    taken: Vec<Place>,
}

struct Place {
    number: u64,
    opened: Instant,
    rank: ConnectionRank,
    closed: CancellationToken,
}

/// The rank of a connection. One of a lower rank is closed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ConnectionRank {
    /// No whole request has arrived.
    Silent,
    /// A whole request has arrived.
    Asked,
    /// The client has proven who it is.
    Proven,
}

/// A connection's place, given back when this is dropped.
pub(crate) struct Connection {
    number: u64,
    closed: CancellationToken,
    places: Connections,
}

impl Connections {
    pub(crate) fn new(most: usize) -> Self {
        Self::with_grace(most, CONNECTION_GRACE)
    }

    /// As [`new`](Self::new), for clients that need `grace` to send their first request.
    pub(crate) fn with_grace(most: usize, grace: Duration) -> Self {
        Self(Arc::new(Mutex::new(Places { most, grace, next: 0, taken: Vec::new() })))
    }

    /// Takes a place for a new connection. Waits at most until another one may be evicted.
    pub(crate) async fn place(&self) -> Connection {
        loop {
            let until = match self.places().place() {
                Ok((number, closed)) => return Connection { number, closed, places: self.clone() },
                Err(until) => until,
            };
            tokio::time::sleep_until(until).await;
        }
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    /// Takes a place, or returns when one can be taken.
    fn place(&mut self) -> Result<(u64, CancellationToken), Instant> {
        if self.taken.len() >= self.most {
            let lowest = self.taken.iter().map(|place| place.rank).min();
            let victim = self.taken.iter().position(|place| Some(place.rank) == lowest).unwrap_or(0);
            let until = self.taken[victim].opened + self.grace;
            if Instant::now() < until {
                return Err(until);
            }
            self.taken.remove(victim).closed.cancel();
        }
        let (number, closed) = (self.next, CancellationToken::new());
        self.next += 1;
        self.taken.push(Place { number, opened: Instant::now(), rank: ConnectionRank::Silent, closed: closed.clone() });
        Ok((number, closed))
    }
}

impl Connection {
    /// Records that a whole request has arrived.
    pub(crate) fn asks(&self) {
        self.rises(ConnectionRank::Asked);
    }

    /// Records that the client has proven who it is.
    pub(crate) fn proves(&self) {
        self.rises(ConnectionRank::Proven);
    }

    fn rises(&self, rank: ConnectionRank) {
        let taken = &mut self.places.places().taken;
        if let Some(at) = taken.iter().position(|place| place.number == self.number) {
            let place = taken.remove(at);
            taken.push(Place { rank: place.rank.max(rank), ..place });
        }
    }

    /// Completes when a new connection has taken the place.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.places.places().taken.retain(|place| place.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_open(connection: &Connection) -> bool {
        !connection.closed.is_cancelled()
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_evicts_a_silent_one_or_else_the_longest_idle() {
        let places = Connections::new(3);
        let (asked, silent, late) = (places.place().await, places.place().await, places.place().await);
        asked.asks();
        let first = places.place().await;
        assert!(is_open(&asked) && !is_open(&silent) && is_open(&late) && is_open(&first));
        late.asks();
        first.asks();
        let second = places.place().await;
        assert!(!is_open(&asked) && is_open(&late) && is_open(&first) && is_open(&second));
        drop(late);
        let third = places.place().await;
        assert!(is_open(&first) && is_open(&second) && is_open(&third));
    }

    #[tokio::test(start_paused = true)]
    async fn a_proven_client_is_closed_last() {
        let places = Connections::new(2);
        let (proven, asked) = (places.place().await, places.place().await);
        proven.asks();
        proven.proves();
        asked.asks();
        for _ in 0..3 {
            places.place().await.asks();
            assert!(is_open(&proven) && !is_open(&asked));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_keeps_its_place_long_enough_to_ask() {
        let places = Connections::new(1);
        let began = Instant::now();
        let first = places.place().await;
        let second = places.place().await;
        assert!(!is_open(&first) && is_open(&second));
        assert_eq!(began.elapsed().as_millis(), CONNECTION_GRACE.as_millis());
    }
}
