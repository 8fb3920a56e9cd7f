//! Determines when a guest sees that its requests have been answered. The answers that a guest sees at a wait are part
//! of the call's data: a recording stores them, and a replay shows the guest the same answers.

use std::future::{pending, poll_fn};
use std::time::Duration;

use tracing::Level;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use windlass_core::call::http::HttpResponse;
use windlass_core::call::ports::{Answer, Surroundings, TypedAsk as _};
use windlass_core::panics;

use super::HANDLE;
use super::error::code;
use crate::lines;
use crate::state::{CallState, HostFailed};
use crate::text::single_line;
use crate::wasi::io::at_once;
use crate::wasi_http_state::{RequestErrorContext, RequestStage, Seen, SentRequest};

impl CallState {
    /// Shows the guest which of `requests` have been answered. If there is no answer yet, waits for the first one, but
    /// no longer than `patience` (`None`: without a limit). Returns whether there is an answer.
    ///
    /// If time stands still, the call waits for an answer without any time passing, and sees the oldest request
    /// answered first, whichever was faster.
    pub(in crate::wasi) async fn see_answers(
        &mut self,
        requests: &[u32],
        patience: Option<Duration>,
    ) -> wasmtime::Result<bool> {
        let answered = if self.is_time_simulated() {
            let noted = self.world.surroundings().and_then(Surroundings::recorded_answers);
            let visible = noted.unwrap_or_else(|| requests[..1].to_vec());
            let visible: Vec<_> = visible.into_iter().filter(|number| requests.contains(number)).collect();
            for number in &visible {
                self.first_answered(&[*number], None).await?;
            }
            visible
        } else {
            let answered = self.first_answered(requests, patience).await?;
            if let Some(surroundings) = self.world.surroundings() {
                surroundings.answered(&answered);
            }
            answered
        };
        for number in &answered {
            if let Some(sent) = self.wasi().http.requests.remove(*number) {
                self.see(sent)?;
            }
        }
        self.wasi().http.check_bodies()?;
        let bytes = self.wasi().http.bytes();
        self.meter.have_behind_handles(bytes).await;
        Ok(!answered.is_empty())
    }

    /// Waits until one of `requests` is answered, but no longer than `patience`. Returns all that are answered then.
    /// All requests continue meanwhile.
    async fn first_answered(&mut self, requests: &[u32], patience: Option<Duration>) -> wasmtime::Result<Vec<u32>> {
        // A replay has no answers to requests that it does not show the guest.
        let alone = self.is_time_simulated();
        // The requests are taken out temporarily. If the call is cancelled here, so are the requests.
        let mut all = std::mem::take(&mut self.wasi().http.requests);
        let mut first = poll_fn(|context| all.poll_first(context, requests, alone));
        let at_once = at_once(&mut first);
        let answered = match (at_once, patience) {
            (Some(answered), _) => answered,
            (None, Some(Duration::ZERO)) => vec![],
            (None, patience) => {
                // Each wait counts as a host call. Afterwards the call queues for its CPU permit with its clock
                // suspended, so many short waits could otherwise outlast the deadline by far.
                self.meter.host_call()?;
                let call_time = self.meter.time().clone();
                self.waiting_in = Some(HANDLE);
                let late = async {
                    match patience {
                        Some(patience) => tokio::time::sleep(patience).await,
                        None => pending().await,
                    }
                };
                let race = async {
                    tokio::select! {
                        biased;
                        answered = first => answered,
                        () = late => vec![],
                    }
                };
                let answered = call_time.going_on_for(race).await;
                self.waiting_in = None;
                answered
            }
        };
        self.wasi().http.requests = all;
        Ok(answered)
    }

    /// Shows the guest the answer to `sent`.
    fn see(&mut self, mut sent: SentRequest) -> wasmtime::Result<()> {
        let stage = std::mem::replace(&mut sent.stage, RequestStage::Failed(ErrorCode::HttpProtocolError));
        let seen = match stage {
            RequestStage::Answered(summary, answer) => self.seen(&summary, *answer),
            RequestStage::Panicked(panic) => return Err(HostFailed::in_import(HANDLE, panics::cause(&*panic))),
            RequestStage::Failed(code) => Err(code),
            RequestStage::Body(..) | RequestStage::Ready(_) | RequestStage::Asked(..) => {
                Err(ErrorCode::HttpProtocolError)
            }
        };
        sent.see(seen);
        Ok(())
    }

    /// The guest's part of `answer`. The error types of `wasi:http` have no message, so the message is logged.
    fn seen(&mut self, summary: &RequestErrorContext, answer: Answer) -> Seen {
        let bytes = answer.bytes();
        let response = windlass_core::call::http::HttpRequest::answer(answer);
        match response.and_then(|response| self.meter.response(response, bytes)) {
            Ok(response) => {
                let held = self.wasi().http.held(HttpResponse::size(&response));
                Ok((response, held))
            }
            Err(error) => {
                let line = format!("{}: {}", summary.text, error.message);
                let line = single_line(&self.redacted(&line), self.meter.limits().log_line_bytes);
                lines::log(self, Level::WARN, &line, &[]);
                Err(code(&error, summary))
            }
        }
    }
}
