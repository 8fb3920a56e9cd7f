//! `wasi:cli`: text that a guest prints goes to the plugin's log, from standard output as `info`, from standard error
//! as `warn`. The rest comes from the crate `wasmtime-wasi`: no arguments, no environment, no terminal, and an input
//! that has ended.

use bytes::Bytes;
use tracing::Level;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::cli::{stderr, stdout};
use wasmtime_wasi::p2::{DynOutputStream, OutputStream, Pollable, StreamError, StreamResult};

use crate::lines;
use crate::state::CallState;
use crate::text::single_line;
use crate::wasi_state::{Output, Printed, WASI_WRITE_BYTES_MAX, WasiError, pieces};

impl stdout::Host for CallState {
    fn get_stdout(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        self.output_stream(Output::Stdout)
    }
}

impl stderr::Host for CallState {
    fn get_stderr(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        self.output_stream(Output::Stderr)
    }
}

impl CallState {
    fn output_stream(&mut self, output: Output) -> wasmtime::Result<Resource<DynOutputStream>> {
        let printed = self.wasi().printed.clone();
        let stream: DynOutputStream = Box::new(LogStream { output, printed });
        Ok(self.table().push(stream)?)
    }

    /// Logs the text that was written since the last call.
    pub(super) fn log_printed(&mut self) {
        for (output, bytes) in self.wasi().printed.take() {
            print(self, output, &bytes);
        }
    }
}

/// A stream to the log. It is always ready.
struct LogStream {
    output: Output,
    printed: Printed,
}

#[async_trait::async_trait]
impl Pollable for LogStream {
    async fn ready(&mut self) {}
}

impl OutputStream for LogStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > WASI_WRITE_BYTES_MAX {
            return Err(StreamError::Trap(WasiError::TooMuch.into()));
        }
        self.printed.add(self.output, bytes);
        Ok(())
    }

    fn write_zeroes(&mut self, length: usize) -> StreamResult<()> {
        // Any length beyond the limit is refused, so one byte more than the limit stands for it.
        self.write(vec![0; length.min(WASI_WRITE_BYTES_MAX + 1)].into())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WASI_WRITE_BYTES_MAX)
    }
}

/// The guest writes `bytes` to `output`.
fn print(state: &mut CallState, output: Output, bytes: &[u8]) {
    let limit = state.meter.limits().log_line_bytes;
    // The unfinished line is taken out temporarily, because logging a line needs the whole state.
    let mut unended = std::mem::take(state.wasi().unended(output));
    let config = state.world.call().map(|call| call.config.clone());
    unended.add(bytes, limit, config.as_ref(), |line| log_line(state, output, &line));
    *state.wasi().unended(output) = unended;
}

/// Logs the unfinished lines of a call that has ended.
pub(crate) fn end_lines(state: &mut CallState) {
    for output in [Output::Stdout, Output::Stderr] {
        if let Some(line) = state.used_wasi().and_then(|wasi| wasi.unended(output).end()) {
            log_line(state, output, &line);
        }
    }
}

fn log_line(state: &mut CallState, output: Output, line: &str) {
    let may_explain = output == Output::Stderr || state.world.call().is_none();
    let is_kept = may_explain || state.meter.has_log_budget();
    if !is_kept || !state.looks_for_secrets_in(line.len(), may_explain) {
        return state.meter.drop_log_line();
    }
    // Secrets are redacted before the line is truncated, because a part of a secret would not be found.
    let line = state.redacted(line).into_owned();
    let limit = state.meter.limits().log_line_bytes;
    pieces(&line, limit).for_each(|piece| log_piece(state, output, &single_line(piece, limit)));
}

fn log_piece(state: &mut CallState, output: Output, line: &str) {
    let (import, level) = match output {
        Output::Stdout => ("wasi:cli/stdout", Level::INFO),
        Output::Stderr => ("wasi:cli/stderr", Level::WARN),
    };
    if state.world.call().is_none() {
        return state.note_said(import, line);
    }
    if output == Output::Stderr {
        state.note_stderr(line);
    }
    lines::log(state, level, line, &[]);
}
