//! The limits of a push or a pull.

use std::time::Duration;

use windlass_egress::HttpLimits;

/// The limits of everything that a registry sends.
#[derive(Clone, Debug)]
pub struct RegistryLimits {
    /// The size of a component in bytes: the host's limit for plugins.
    pub component_bytes: u64,
    /// The size of an artefact's manifest in bytes. Those of plugins have less than a kilobyte.
    pub manifest_bytes: u64,
    /// The size of an artefact's configuration in bytes. It has the plugin's documents.
    pub config_bytes: u64,
    /// The size of the answer of a token server in bytes.
    pub token_bytes: u64,
    /// The number of redirects that a request follows.
    pub redirects: u32,
    /// The number of times that a request waits because the server answered 429 or 503.
    pub busy_waits: u32,
    /// The longest such wait, whatever the server asks for.
    pub busy_wait: Duration,
    /// The time for connecting to one address.
    pub connect: Duration,
    /// The time within which the server must send more, and within which it must have sent all headers.
    pub idle: Duration,
    /// The time for a whole exchange, without its bodies.
    pub time: Duration,
    /// The slowest rate of bodies, in bytes per second, beyond `time`. It bounds the time of an exchange.
    pub bytes_per_second: u64,
    /// The size of all headers of a response in bytes.
    pub header_bytes: usize,
    /// The number of headers of a response.
    pub headers: usize,
}

impl Default for RegistryLimits {
    fn default() -> Self {
        Self {
            component_bytes: 64 << 20,
            manifest_bytes: 1 << 20,
            config_bytes: 8 << 20,
            token_bytes: 64 << 10,
            redirects: 3,
            busy_waits: 4,
            busy_wait: Duration::from_secs(30),
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(30),
            time: Duration::from_mins(1),
            bytes_per_second: 32 << 10,
            header_bytes: 64 << 10,
            headers: 100,
        }
    }
}

impl RegistryLimits {
    /// The time for an exchange with bodies of `bytes` in all.
    pub(crate) fn time_for(&self, bytes: u64) -> Duration {
        self.time.saturating_add(Duration::from_secs(bytes / self.bytes_per_second.max(1)))
    }

    /// The limits of one exchange, whose answer has a body of at most `answer_bytes`.
    pub(crate) fn of_exchange(&self, answer_bytes: u64) -> HttpLimits {
        HttpLimits {
            time: self.time_for(answer_bytes),
            connect: self.connect,
            response_bytes: usize::try_from(answer_bytes).unwrap_or(usize::MAX / 4),
            header_bytes: self.header_bytes,
            headers: self.headers,
            ..HttpLimits::default()
        }
    }
}
