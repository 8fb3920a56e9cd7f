//! `wasi:io`: as in the crate `wasmtime-wasi`, except that each wait is a wait of the call: it returns the CPU permit,
//! counts against the deadline, and passes at once if time stands still. Written text goes to the log at once.

use std::time::Duration;

use futures::FutureExt as _;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::io::poll::{self, HostPollable};
use wasmtime_wasi::p2::bindings::io::streams::{self, HostInputStream, HostOutputStream};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable, Pollable, StreamError, StreamResult};

use crate::state::CallState;
use crate::wasi_state::{WASI_HANDLES_MAX, WASI_WRITE_BYTES_MAX, WasiError};

/// The bytes that the host is charged for reading one pollable of a `poll`, if fuel measures the processor time.
const POLLED_BYTES: usize = 64;

/// A recording contains every reading of the monotonic clock, and a replay returns them one by one. So the number of
/// readings of each function here must not change: `poll` twice, `block` and `ready` once, streams never.
impl CallState {
    /// Waits until one of `pollables` is ready, and returns the time at which this is the case. Reads the clock once.
    async fn wait_for(&mut self, pollables: &[Resource<DynPollable>]) -> wasmtime::Result<u64> {
        self.ask_ready_requests()?;
        let now = self.monotonic();
        let is_ready = self.ready_at(now, pollables)?.is_some();
        let due = self.wasi().timer.due();
        let left = due.map(|due| Duration::from_nanos(due.saturating_sub(now)));
        let (requests, has_open_bodies) = self.wasi().http.requests.awaited();
        let is_answered = if requests.is_empty() {
            false
        } else {
            let patience = if is_ready { Some(Duration::ZERO) } else { left };
            self.see_answers(&requests, patience).await?
        };
        if is_ready || is_answered {
            return Ok(now);
        }
        let never = if has_open_bodies { WasiError::OpenBody } else { WasiError::NeverReady };
        let (due, left) = due.zip(left).ok_or(never)?;
        // If the call has waited for requests, it has already waited for `left`.
        if !self.passes_at_once(left) && requests.is_empty() {
            self.rest(left).await?;
        }
        Ok(due)
    }

    /// The indices of the `pollables` that are ready when the clock shows `now`. `None` if no pollable is ready.
    fn ready_at(&mut self, now: u64, pollables: &[Resource<DynPollable>]) -> wasmtime::Result<Option<Vec<u32>>> {
        let wasi = self.wasi();
        wasi.timer.show(now);
        wasi.http.requests.forget_awaited();
        let pollables = pollables.iter().map(|pollable| Resource::new_borrow(pollable.rep())).collect();
        at_once(poll::Host::poll(&mut wasi.table, pollables)).transpose()
    }

    /// Sleeps for `time`, as the guest has requested.
    async fn rest(&mut self, time: Duration) -> wasmtime::Result<()> {
        // Each wait counts as a host call. Afterwards the call queues for its CPU permit with its clock suspended, so
        // many short waits could otherwise outlast the deadline by far.
        self.meter.host_call()?;
        if self.meter.memory().has_kept_back() {
            return Err(WasiError::Rests.into());
        }
        let call_time = self.meter.time().clone();
        self.waiting_in = Some("wasi:io/poll");
        let mut requests = self.take_requests();
        let rest = tokio::time::sleep(time);
        match &mut requests {
            Some(requests) => call_time.resting_for(requests.go_on_beside(rest)).await,
            None => call_time.resting_for(rest).await,
        }
        self.give_back(requests);
        self.waiting_in = None;
        Ok(())
    }

    /// Checks that `stream` is ready. All input and output streams of this host always are.
    fn check_ready<S: Pollable>(&mut self, stream: &Resource<S>) -> StreamResult<()> {
        let stream = self.table().get_mut(&Resource::<S>::new_borrow(stream.rep()));
        let is_ready = at_once(stream.map_err(|error| StreamError::Trap(error.into()))?.ready());
        is_ready.ok_or_else(|| StreamError::Trap(WasiError::NeverReady.into()))
    }
}

/// The output of `future` if it is ready. Tokio's cooperative budget is left out: a guest that makes many calls in a
/// row uses it up, and everything of tokio's would then look as if it were not ready.
pub(in crate::wasi) fn at_once<F: Future>(future: F) -> Option<F::Output> {
    tokio::task::unconstrained(future).now_or_never()
}

impl poll::Host for CallState {
    async fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        if pollables.is_empty() {
            return Err(WasiError::EmptyPoll.into());
        }
        if pollables.len() > WASI_HANDLES_MAX {
            return Err(WasiError::Handles.into());
        }
        self.meter.import_bytes(pollables.len() * POLLED_BYTES);
        let due = self.wait_for(&pollables).await?;
        let now = self.monotonic().max(due);
        let mut ready = self.ready_at(now, &pollables)?.ok_or(WasiError::NeverReady)?;
        // The crate's order depends on positions in its table, and thus on earlier calls of an instance.
        ready.sort_unstable();
        Ok(ready)
    }
}

impl HostPollable for CallState {
    async fn ready(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<bool> {
        self.ask_ready_requests()?;
        let now = self.monotonic();
        let is_ready = self.ready_at(now, &[Resource::new_borrow(pollable.rep())])?.is_some();
        let (requests, _) = self.wasi().http.requests.awaited();
        if requests.is_empty() { Ok(is_ready) } else { self.see_answers(&requests, Some(Duration::ZERO)).await }
    }

    async fn block(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        self.wait_for(&[pollable]).await.map(drop)
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        HostPollable::drop(self.table(), pollable)
    }
}

impl streams::Host for CallState {
    fn convert_stream_error(&mut self, error: StreamError) -> wasmtime::Result<streams::StreamError> {
        streams::Host::convert_stream_error(self.table(), error)
    }
}

impl HostInputStream for CallState {
    fn read(&mut self, stream: Resource<DynInputStream>, length: u64) -> StreamResult<Vec<u8>> {
        let read = HostInputStream::read(self.table(), stream, length)?;
        self.meter.import_bytes(read.len());
        Ok(read)
    }

    async fn blocking_read(&mut self, stream: Resource<DynInputStream>, length: u64) -> StreamResult<Vec<u8>> {
        self.check_ready(&stream)?;
        let read = HostInputStream::blocking_read(self.table(), stream, length).await?;
        self.meter.import_bytes(read.len());
        Ok(read)
    }

    fn skip(&mut self, stream: Resource<DynInputStream>, length: u64) -> StreamResult<u64> {
        HostInputStream::skip(self.table(), stream, length)
    }

    async fn blocking_skip(&mut self, stream: Resource<DynInputStream>, length: u64) -> StreamResult<u64> {
        self.check_ready(&stream)?;
        HostInputStream::blocking_skip(self.table(), stream, length).await
    }

    fn subscribe(&mut self, stream: Resource<DynInputStream>) -> wasmtime::Result<Resource<DynPollable>> {
        HostInputStream::subscribe(self.table(), stream)
    }

    async fn drop(&mut self, stream: Resource<DynInputStream>) -> wasmtime::Result<()> {
        HostInputStream::drop(self.table(), stream).await
    }
}

impl HostOutputStream for CallState {
    fn check_write(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<u64> {
        HostOutputStream::check_write(self.table(), stream)
    }

    fn write(&mut self, stream: Resource<DynOutputStream>, contents: Vec<u8>) -> StreamResult<()> {
        self.meter.import_bytes(contents.len());
        HostOutputStream::write(self.table(), stream, contents)?;
        self.log_printed();
        Ok(())
    }

    async fn blocking_write_and_flush(
        &mut self,
        stream: Resource<DynOutputStream>,
        mut contents: Vec<u8>,
    ) -> StreamResult<()> {
        if contents.len() > WASI_WRITE_BYTES_MAX {
            return Err(StreamError::Trap(WasiError::TooMuch.into()));
        }
        while !contents.is_empty() {
            self.check_ready(&stream)?;
            let permitted = self.check_write(Resource::new_borrow(stream.rep()))?;
            let rest = contents.split_off(contents.len().min(usize::try_from(permitted).unwrap_or(usize::MAX)));
            self.write(Resource::new_borrow(stream.rep()), contents)?;
            contents = rest;
        }
        self.blocking_flush(stream).await
    }

    fn flush(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<()> {
        HostOutputStream::flush(self.table(), stream)
    }

    async fn blocking_flush(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<()> {
        self.flush(Resource::new_borrow(stream.rep()))?;
        self.check_ready(&stream)
    }

    fn write_zeroes(&mut self, stream: Resource<DynOutputStream>, length: u64) -> StreamResult<()> {
        self.meter.import_bytes(usize::try_from(length).unwrap_or(usize::MAX).min(WASI_WRITE_BYTES_MAX));
        HostOutputStream::write_zeroes(self.table(), stream, length)?;
        self.log_printed();
        Ok(())
    }

    async fn blocking_write_zeroes_and_flush(
        &mut self,
        stream: Resource<DynOutputStream>,
        length: u64,
    ) -> StreamResult<()> {
        let length = usize::try_from(length).ok().filter(|length| *length <= WASI_WRITE_BYTES_MAX);
        let length = length.ok_or_else(|| StreamError::Trap(WasiError::TooMuch.into()))?;
        self.blocking_write_and_flush(stream, vec![0; length]).await
    }

    fn splice(
        &mut self,
        stream: Resource<DynOutputStream>,
        source: Resource<DynInputStream>,
        length: u64,
    ) -> StreamResult<u64> {
        let spliced = HostOutputStream::splice(self.table(), stream, source, length)?;
        self.meter.import_bytes(usize::try_from(spliced).unwrap_or(usize::MAX));
        self.log_printed();
        Ok(spliced)
    }

    async fn blocking_splice(
        &mut self,
        stream: Resource<DynOutputStream>,
        source: Resource<DynInputStream>,
        length: u64,
    ) -> StreamResult<u64> {
        self.check_ready(&source)?;
        self.check_ready(&stream)?;
        self.splice(stream, source, length)
    }

    fn subscribe(&mut self, stream: Resource<DynOutputStream>) -> wasmtime::Result<Resource<DynPollable>> {
        HostOutputStream::subscribe(self.table(), stream)
    }

    async fn drop(&mut self, stream: Resource<DynOutputStream>) -> wasmtime::Result<()> {
        HostOutputStream::drop(self.table(), stream).await
    }
}

#[cfg(test)]
mod tests {
    use wasmtime_wasi::p2::bindings::cli::stdout::Host as _;
    use wasmtime_wasi::p2::subscribe;

    use super::*;
    use crate::limits::{Limits, Metering};
    use crate::meter::tests::meter;
    use crate::state::World;

    /// A state in which time stands still, so that waits pass at once.
    fn state(limits: Limits) -> CallState {
        CallState::new(meter(limits), World::Parked, None, wasmtime::Engine::default())
    }

    struct Never;

    #[async_trait::async_trait]
    impl Pollable for Never {
        async fn ready(&mut self) {
            std::future::pending::<()>().await;
        }
    }

    fn never(state: &mut CallState) -> Resource<DynPollable> {
        let never = state.table().push(Never).expect("there is room");
        subscribe(state.table(), never).expect("there is room")
    }

    #[test]
    fn a_wait_that_can_never_end_is_the_hosts_fault() {
        let mut state = state(Limits::default());
        let waits = never(&mut state);
        let error = HostPollable::block(&mut state, waits).now_or_never().expect("it ends").expect_err("it never is");
        assert_eq!(WasiError::of(&error).map(|error| error.reason()), Some("host"));
    }

    #[tokio::test]
    async fn what_is_ready_stays_ready_when_tokios_budget_is_used_up() {
        struct Given(tokio::sync::watch::Receiver<()>);

        #[async_trait::async_trait]
        impl Pollable for Given {
            async fn ready(&mut self) {
                self.0.wait_for(|()| true).await.expect("the sender lives");
            }
        }

        let mut state = state(Limits::default());
        let (_sender, receiver) = tokio::sync::watch::channel(());
        let given = state.table().push(Given(receiver)).expect("there is room");
        let waits = subscribe(state.table(), given).expect("there is room");
        while tokio::task::consume_budget().now_or_never().is_some() {}
        assert!(HostPollable::block(&mut state, waits).now_or_never().expect("it ends").is_ok());
    }

    #[test]
    fn a_wait_ends_when_the_clock_is_due_even_if_at_the_end_of_time() {
        let mut state = state(Limits::default());
        for when in [5, u64::MAX] {
            let pollables = vec![never(&mut state), state.pollable_from(when).expect("there is room")];
            let ready = poll::Host::poll(&mut state, pollables).now_or_never().expect("it passes at once");
            assert_eq!(ready.expect("one is ready"), [1]);
        }
    }

    #[test]
    fn printed_bytes_and_polled_handles_take_fuel() {
        // The limit is as much fuel as 1,000 bytes take.
        let by_fuel =
            || state(Limits { cpu: Duration::from_micros(10), metering: Metering::Fuel, ..Limits::default() });
        // Not `check_time`: it also counts the processor time of this test.
        let is_over = |state: &CallState| state.meter.is_out_of_import_fuel();
        for (bytes, over) in [(1_000, false), (1_001, true)] {
            let (mut written, mut zeroes) = (by_fuel(), by_fuel());
            let stream = written.get_stdout().expect("there is room");
            HostOutputStream::write(&mut written, stream, vec![b'a'; bytes]).expect("it is written");
            let stream = zeroes.get_stdout().expect("there is room");
            HostOutputStream::write_zeroes(&mut zeroes, stream, bytes as u64).expect("they are written");
            assert_eq!((is_over(&written), is_over(&zeroes)), (over, over), "{bytes}");
        }
        for (count, over) in [(15, false), (16, true)] {
            let mut state = by_fuel();
            let pollables = (0..count).map(|_| state.pollable_from(0).expect("there is room")).collect();
            let ready = poll::Host::poll(&mut state, pollables).now_or_never().expect("they are due");
            assert_eq!((ready.expect("they are due").len(), is_over(&state)), (count, over));
        }
    }
}
