//! `wasi:cli`: no arguments, no environment, no terminal, an input that has ended. What is printed is the plugin's log: by
//! standard output as `info`, by standard error as `warn`.

use tracing::Level;
use wasmtime::component::Resource;

use super::bindings::wasi::cli::{
    environment, exit, stderr, stdin, stdout, terminal_input, terminal_output, terminal_stderr, terminal_stdin,
    terminal_stdout,
};
use super::bindings::wasi::io::streams::{InputStream, OutputStream};
use crate::lines;
use crate::state::CallState;
use crate::text::single_line;
use crate::wasi_state::{Item, Output, WasiError, pieces};

impl environment::Host for CallState {
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        Ok(vec![])
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(vec![])
    }

    fn initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        Ok(None)
    }
}

impl exit::Host for CallState {
    fn exit(&mut self, status: Result<(), ()>) -> wasmtime::Result<()> {
        Err(WasiError::Exit(u8::from(status.is_err())).into())
    }

    fn exit_with_code(&mut self, code: u8) -> wasmtime::Result<()> {
        Err(WasiError::Exit(code).into())
    }
}

impl stdin::Host for CallState {
    fn get_stdin(&mut self) -> wasmtime::Result<Resource<InputStream>> {
        Ok(Resource::new_own(self.wasi().give(Item::Input)?))
    }
}

impl stdout::Host for CallState {
    fn get_stdout(&mut self) -> wasmtime::Result<Resource<OutputStream>> {
        Ok(Resource::new_own(self.wasi().give(Item::Output(Output::Stdout))?))
    }
}

impl stderr::Host for CallState {
    fn get_stderr(&mut self) -> wasmtime::Result<Resource<OutputStream>> {
        Ok(Resource::new_own(self.wasi().give(Item::Output(Output::Stderr))?))
    }
}

impl terminal_input::Host for CallState {}

impl terminal_input::HostTerminalInput for CallState {
    fn drop(&mut self, _: Resource<terminal_input::TerminalInput>) -> wasmtime::Result<()> {
        Err(WasiError::NoHandle.into())
    }
}

impl terminal_output::Host for CallState {}

impl terminal_output::HostTerminalOutput for CallState {
    fn drop(&mut self, _: Resource<terminal_output::TerminalOutput>) -> wasmtime::Result<()> {
        Err(WasiError::NoHandle.into())
    }
}

impl terminal_stdin::Host for CallState {
    fn get_terminal_stdin(&mut self) -> wasmtime::Result<Option<Resource<terminal_input::TerminalInput>>> {
        Ok(None)
    }
}

impl terminal_stdout::Host for CallState {
    fn get_terminal_stdout(&mut self) -> wasmtime::Result<Option<Resource<terminal_output::TerminalOutput>>> {
        Ok(None)
    }
}

impl terminal_stderr::Host for CallState {
    fn get_terminal_stderr(&mut self) -> wasmtime::Result<Option<Resource<terminal_output::TerminalOutput>>> {
        Ok(None)
    }
}

/// The guest writes `bytes` to `output`.
pub(super) fn print(state: &mut CallState, output: Output, bytes: &[u8]) {
    let limit = state.meter.limits().log_line_bytes;
    // Taken out meanwhile: to tell a line takes the whole state.
    let mut unended = std::mem::take(state.wasi().unended(output));
    let config = state.world.call().map(|call| call.config.clone());
    unended.add(bytes, limit, config.as_ref(), |line| tell(state, output, &line));
    *state.wasi().unended(output) = unended;
}

/// The call has ended, and with it the lines that have not.
pub(crate) fn end_lines(state: &mut CallState) {
    for output in [Output::Stdout, Output::Stderr] {
        if let Some(line) = state.used_wasi().and_then(|wasi| wasi.unended(output).end()) {
            tell(state, output, &line);
        }
    }
}

fn tell(state: &mut CallState, output: Output, line: &str) {
    if !state.looks_for_secrets_in(line.len(), output == Output::Stderr) {
        return state.meter.drop_log_line();
    }
    // Before it is cut: a part of a secret is not found.
    let line = state.redacted(line).into_owned();
    let limit = state.meter.limits().log_line_bytes;
    pieces(&line, limit).for_each(|piece| tell_piece(state, output, &single_line(piece, limit)));
}

fn tell_piece(state: &mut CallState, output: Output, line: &str) {
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
