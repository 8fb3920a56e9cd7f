//! The logs of Pods.

use crate::bindings::windlass::plugin::live;
use crate::error::Error;
use crate::native::live as host;
use crate::object::ObjectRef;

/// A part of a log.
#[derive(Debug, Clone)]
#[must_use = "nothing is read before `read`"]
pub struct Log(live::LogQuery);

impl Log {
    pub(super) fn of(pod: ObjectRef) -> Self {
        let target = ObjectRef { uid: None, ..pod };
        let (container, previous) = (None, false);
        Self(live::LogQuery { target, container, previous, tail_lines: None, since_ms: None, limit_bytes: None })
    }

    /// Selects this container's log.
    pub fn container(mut self, name: impl Into<String>) -> Self {
        self.0.container = Some(name.into());
        self
    }

    /// Selects the log of the container's previous, terminated run.
    pub fn previous(mut self) -> Self {
        self.0.previous = true;
        self
    }

    /// Reads only this many of the last lines.
    pub fn tail_lines(mut self, lines: u32) -> Self {
        self.0.tail_lines = Some(lines);
        self
    }

    /// Reads only lines that are at most this old, rounded up to whole seconds.
    pub fn since_ms(mut self, milliseconds: u32) -> Self {
        self.0.since_ms = Some(milliseconds);
        self
    }

    /// Reads at most this many bytes, instead of as many as the host returns.
    pub fn limit_bytes(mut self, bytes: u32) -> Self {
        self.0.limit_bytes = Some(bytes);
        self
    }

    /// Reads the log. Bytes that are not UTF-8 become U+FFFD.
    pub fn read(&self) -> Result<String, Error> {
        Ok(host::log(&self.0)?)
    }
}
