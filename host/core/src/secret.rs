//! Values that no log line, status or recording may show.

pub mod confidential;
pub mod credentials;
pub mod known_secrets;
