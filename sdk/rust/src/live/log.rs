//! The logs of Pods.

use crate::bindings::windlass::plugin::live;
use crate::error::Error;
use crate::native::live as host;
use crate::object::ObjectRef;

/// A part of a log, from the first line that is meant.
#[derive(Debug, Clone)]
#[must_use = "nothing is read before `read`"]
pub struct Log(live::LogQuery);

impl Log {
    pub(super) fn of(pod: ObjectRef) -> Self {
        let target = ObjectRef { uid: None, ..pod };
        let (container, previous) = (None, false);
        Self(live::LogQuery { target, container, previous, tail_lines: None, since_ms: None, limit_bytes: None })
    }

    /// That of this container.
    pub fn container(mut self, name: impl Into<String>) -> Self {
        self.0.container = Some(name.into());
        self
    }

    /// That of the container before this one, which has ended.
    pub fn previous(mut self) -> Self {
        self.0.previous = true;
        self
    }

    /// Only so many of the last lines.
    pub fn tail_lines(mut self, lines: u32) -> Self {
        self.0.tail_lines = Some(lines);
        self
    }

    /// Only what is no older, rounded up to whole seconds.
    pub fn since_ms(mut self, milliseconds: u32) -> Self {
        self.0.since_ms = Some(milliseconds);
        self
    }

    /// Reads at most so many bytes, instead of as many as the host returns.
    pub fn limit_bytes(mut self, bytes: u32) -> Self {
        self.0.limit_bytes = Some(bytes);
        self
    }

    /// Reads it. What is not UTF-8 is U+FFFD.
    pub fn read(&self) -> Result<String, Error> {
        Ok(host::log(&self.0)?)
    }
}
