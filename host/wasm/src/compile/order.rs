//! The protocol between the host and its compiler over pipes: one line of JSON and the component's bytes in one
//! direction, and one answer in the other. The answer begins with its length, so that an incomplete answer is
//! recognised.

use std::io::{self, BufRead, Read as _, Write};

use serde::{Deserialize, Serialize};

use crate::engine::{CompileEffort, TABLE_ELEMENTS_MAX};
use crate::limits::{Limits, Metering};

use super::size::TooMuch;

const ORDER_BYTES: u64 = 4096;
const ARTEFACT: u8 = b'A';
const REFUSAL: u8 = b'R';
const HEADER_BYTES: usize = 9;

/// The component to compile, and the limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Order {
    pub(super) memory_bytes: u64,
    pub(super) cpu_seconds: u64,
    pub(super) effort: CompileEffort,
    pub(super) haste: Haste,
    /// The stack of calls, which is part of the engine's configuration.
    pub(super) stack_bytes: usize,
    /// How processor time is measured, which is part of the engine's configuration too.
    pub(super) metering: Metering,
    pub(super) functions: u32,
    pub(super) function_bytes: u32,
    pub(super) definitions: u32,
    /// The maximum number of memories of all modules together. Each has an image, whether or not the module is
    /// instantiated.
    pub(super) memories: u32,
    pub(super) tables: u32,
    /// The maximum initial size of a memory.
    pub(super) memory_of_calls: u64,
    /// The maximum initial number of elements of a table.
    pub(super) table_elements: u64,
    /// The size of the component, which follows.
    bytes: usize,
}

/// Whether a caller waits for the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Haste {
    /// The plugin cannot run until it has the code.
    Awaited,
    /// The code is an improvement for a running plugin. Other work has precedence.
    Unhurried,
}

impl Order {
    pub(super) fn new(limits: &Limits, (effort, haste): (CompileEffort, Haste), bytes: usize) -> Self {
        Self {
            memory_bytes: limits.compile_memory_bytes,
            cpu_seconds: limits.compile_cpu.as_secs().max(1),
            effort,
            haste,
            stack_bytes: limits.stack_bytes,
            metering: limits.metering,
            functions: limits.functions,
            function_bytes: limits.function_bytes,
            definitions: limits.definitions,
            memories: limits.memories,
            tables: limits.instances,
            memory_of_calls: limits.memory_bytes as u64,
            table_elements: limits.table_elements.min(TABLE_ELEMENTS_MAX) as u64,
            bytes,
        }
    }

    pub(super) fn line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("numbers are JSON");
        line.push('\n');
        line
    }

    pub(super) fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let mut line = Vec::new();
        from.take(ORDER_BYTES).read_until(b'\n', &mut line)?;
        serde_json::from_slice(&line).map_err(io::Error::from)
    }

    /// Reads the component. Also fails if the host is gone, because the rest of the bytes will not come.
    pub(super) fn read_component(&self, from: &mut impl BufRead) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.bytes];
        from.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

/// The reason why there is no code, from the compiler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Refusal {
    Invalid(String),
    TooMuch(TooMuch),
    Memory,
    Crashed(String),
}

pub(super) fn answer(to: &mut impl Write, answer: &Result<Vec<u8>, Refusal>) -> io::Result<()> {
    let refusal;
    let (kind, body) = match answer {
        Ok(artefact) => (ARTEFACT, artefact),
        Err(reason) => {
            refusal = serde_json::to_vec(reason).map_err(io::Error::from)?;
            (REFUSAL, &refusal)
        }
    };
    to.write_all(&[kind])?;
    to.write_all(&(body.len() as u64).to_le_bytes())?;
    to.write_all(body)?;
    to.flush()
}

/// The compiler's answer, if `received` contains all of it.
pub(super) fn answered(mut received: Vec<u8>) -> Option<Result<Vec<u8>, Refusal>> {
    let (header, body) = received.split_at_checked(HEADER_BYTES)?;
    let length = u64::from_le_bytes(header[1..].try_into().ok()?);
    if body.len() as u64 != length {
        return None;
    }
    match header[0] {
        ARTEFACT => {
            received.drain(..HEADER_BYTES);
            Some(Ok(received))
        }
        REFUSAL => serde_json::from_slice(body).ok().map(Err),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_order_is_read_back_with_the_component_after_it() {
        let order = Order::new(&Limits::default(), (CompileEffort::Quick, Haste::Awaited), 3);
        let received = [order.line().as_bytes(), b"abc"].concat();
        let mut from = received.as_slice();
        assert_eq!(Order::read(&mut from).expect("an order"), order);
        assert_eq!(order.read_component(&mut from).expect("all of it"), b"abc");
    }

    #[test]
    fn a_truncated_component_is_refused() {
        let order = Order::new(&Limits::default(), (CompileEffort::Quick, Haste::Awaited), 3);
        assert!(order.read_component(&mut b"ab".as_slice()).is_err());
    }

    #[test]
    fn a_cut_answer_is_no_answer() {
        for given in [Ok(b"code".to_vec()), Err(Refusal::Invalid("no".to_owned())), Err(Refusal::Memory)] {
            let mut received = Vec::new();
            answer(&mut received, &given).expect("written");
            assert_eq!(answered(received.clone()), Some(given));
            for cut in 0..received.len() {
                assert_eq!(answered(received[..cut].to_vec()), None, "{cut} of {}", received.len());
            }
        }
    }
}
