//! `wasi:io`: streams to the log, an input that has ended, and waits for the clock. A stream is always ready.

use wasmtime::component::Resource;

use super::bindings::wasi::io::error::{self, Error};
use super::bindings::wasi::io::poll::{self, Pollable};
use super::bindings::wasi::io::streams::{self, InputStream, OutputStream, StreamError};
use super::cli::print;
use super::clocks::wait_until;
use crate::state::CallState;
use crate::wasi_state::{Item, MOST_HANDLES, Output, WRITTEN_AT_ONCE, WasiError};

/// A piece of the zeroes that a guest has written.
const ZEROES: [u8; 4_096] = [0; 4_096];

type Written = wasmtime::Result<Result<(), StreamError>>;

impl CallState {
    fn output(&mut self, stream: &Resource<OutputStream>) -> Result<Output, WasiError> {
        match self.wasi().item(stream.rep())? {
            Item::Output(output) => Ok(output),
            _ => Err(WasiError::NoHandle),
        }
    }

    /// When `pollable` is ready.
    fn due(&mut self, pollable: &Resource<Pollable>) -> Result<u64, WasiError> {
        match self.wasi().item(pollable.rep())? {
            Item::Pollable(when) => Ok(when),
            _ => Err(WasiError::NoHandle),
        }
    }

    fn always_ready(&mut self) -> wasmtime::Result<Resource<Pollable>> {
        Ok(Resource::new_own(self.wasi().give(Item::Pollable(0))?))
    }
}

impl error::Host for CallState {}

impl error::HostError for CallState {
    fn to_debug_string(&mut self, _: Resource<Error>) -> wasmtime::Result<String> {
        Err(WasiError::NoHandle.into())
    }

    fn drop(&mut self, _: Resource<Error>) -> wasmtime::Result<()> {
        Err(WasiError::NoHandle.into())
    }
}

impl poll::Host for CallState {
    async fn poll(&mut self, pollables: Vec<Resource<Pollable>>) -> wasmtime::Result<Vec<u32>> {
        if pollables.len() > MOST_HANDLES {
            return Err(WasiError::Handles.into());
        }
        let due: Vec<u64> = pollables.iter().map(|pollable| self.due(pollable)).collect::<Result<_, _>>()?;
        let first = due.iter().copied().min().ok_or(WasiError::EmptyPoll)?;
        wait_until(self, first).await?;
        let now = self.monotonic().max(first);
        Ok((0..).zip(due).filter(|(_, due)| *due <= now).map(|(index, _)| index).collect())
    }
}

impl poll::HostPollable for CallState {
    fn ready(&mut self, pollable: Resource<Pollable>) -> wasmtime::Result<bool> {
        Ok(self.due(&pollable)? <= self.monotonic())
    }

    async fn block(&mut self, pollable: Resource<Pollable>) -> wasmtime::Result<()> {
        let due = self.due(&pollable)?;
        wait_until(self, due).await
    }

    fn drop(&mut self, pollable: Resource<Pollable>) -> wasmtime::Result<()> {
        Ok(self.wasi().take_back(pollable.rep())?)
    }
}

impl streams::Host for CallState {}

impl streams::HostInputStream for CallState {
    fn read(&mut self, _: Resource<InputStream>, _: u64) -> wasmtime::Result<Result<Vec<u8>, StreamError>> {
        Ok(Err(StreamError::Closed))
    }

    fn blocking_read(
        &mut self,
        stream: Resource<InputStream>,
        length: u64,
    ) -> wasmtime::Result<Result<Vec<u8>, StreamError>> {
        self.read(stream, length)
    }

    fn skip(&mut self, _: Resource<InputStream>, _: u64) -> wasmtime::Result<Result<u64, StreamError>> {
        Ok(Err(StreamError::Closed))
    }

    fn blocking_skip(
        &mut self,
        stream: Resource<InputStream>,
        length: u64,
    ) -> wasmtime::Result<Result<u64, StreamError>> {
        self.skip(stream, length)
    }

    fn subscribe(&mut self, _: Resource<InputStream>) -> wasmtime::Result<Resource<Pollable>> {
        self.always_ready()
    }

    fn drop(&mut self, stream: Resource<InputStream>) -> wasmtime::Result<()> {
        Ok(self.wasi().take_back(stream.rep())?)
    }
}

impl streams::HostOutputStream for CallState {
    fn check_write(&mut self, _: Resource<OutputStream>) -> wasmtime::Result<Result<u64, StreamError>> {
        Ok(Ok(WRITTEN_AT_ONCE as u64))
    }

    fn write(&mut self, stream: Resource<OutputStream>, contents: Vec<u8>) -> Written {
        let output = self.output(&stream)?;
        if contents.len() > WRITTEN_AT_ONCE {
            return Err(WasiError::TooMuch.into());
        }
        print(self, output, &contents);
        Ok(Ok(()))
    }

    fn blocking_write_and_flush(&mut self, stream: Resource<OutputStream>, contents: Vec<u8>) -> Written {
        self.write(stream, contents)
    }

    fn flush(&mut self, _: Resource<OutputStream>) -> Written {
        Ok(Ok(()))
    }

    fn blocking_flush(&mut self, _: Resource<OutputStream>) -> Written {
        Ok(Ok(()))
    }

    fn subscribe(&mut self, _: Resource<OutputStream>) -> wasmtime::Result<Resource<Pollable>> {
        self.always_ready()
    }

    fn write_zeroes(&mut self, stream: Resource<OutputStream>, length: u64) -> Written {
        let output = self.output(&stream)?;
        let mut left = usize::try_from(length).unwrap_or(usize::MAX);
        if left > WRITTEN_AT_ONCE {
            return Err(WasiError::TooMuch.into());
        }
        while left > 0 {
            let piece = left.min(ZEROES.len());
            print(self, output, &ZEROES[..piece]);
            left -= piece;
        }
        Ok(Ok(()))
    }

    fn blocking_write_zeroes_and_flush(&mut self, stream: Resource<OutputStream>, length: u64) -> Written {
        self.write_zeroes(stream, length)
    }

    /// The only stream to read from has ended.
    fn splice(
        &mut self,
        _: Resource<OutputStream>,
        _: Resource<InputStream>,
        _: u64,
    ) -> wasmtime::Result<Result<u64, StreamError>> {
        Ok(Err(StreamError::Closed))
    }

    fn blocking_splice(
        &mut self,
        stream: Resource<OutputStream>,
        source: Resource<InputStream>,
        length: u64,
    ) -> wasmtime::Result<Result<u64, StreamError>> {
        self.splice(stream, source, length)
    }

    fn drop(&mut self, stream: Resource<OutputStream>) -> wasmtime::Result<()> {
        Ok(self.wasi().take_back(stream.rep())?)
    }
}
