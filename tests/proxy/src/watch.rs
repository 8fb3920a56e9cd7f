//! A watch's stream on its way to the client: split into events, for each of which the rules decide.
//!
//! A separate task reads ahead of the client, so that held or delayed events do not slow the server down, and passes
//! events on in order.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::stream;
use http_body_util::BodyExt as _;
use kube::client::Body;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::body::{self, BodyError, Outgoing};
use crate::connection::Connection;
use crate::fault::Cut;
use crate::request::RequestInfo;
use crate::rule::Held;
use crate::state::Shared;

/// Half a line, if there is no line to halve.
const HALF: &[u8] = br#"{"type":"MODIFIED","object":{"kind":"#;

/// The client's side of a watch whose upstream body is `body`. If it is not `by_line`, each piece counts as an event.
pub(crate) fn relay(
    shared: Arc<Shared>,
    connection: Connection,
    request: Arc<RequestInfo>,
    body: Body,
    by_line: bool,
) -> Outgoing {
    let (out, mut incoming) = mpsc::channel(1);
    let lines = Lines { body, buffer: BytesMut::new(), searched: 0, by_line };
    tokio::spawn(Relay { shared, connection, request, queue: VecDeque::new(), out }.run(lines));
    body::streamed(stream::poll_fn(move |context| incoming.poll_recv(context)))
}

/// A running watch.
struct Relay {
    shared: Arc<Shared>,
    connection: Connection,
    request: Arc<RequestInfo>,
    queue: VecDeque<Queued>,
    out: mpsc::Sender<Result<Bytes, BodyError>>,
}

/// The next piece for the client, once it may be sent.
struct Queued {
    not_before: Instant,
    held: Vec<Held>,
    what: Next,
}

enum Next {
    Line(Bytes),
    /// Replaces this line.
    Cut(Cut, Bytes),
    /// The watch ends as upstream ended it.
    End,
    Broken(BodyError),
}

impl Relay {
    async fn run(mut self, mut lines: Lines) {
        let (mut cuts, running) = self.shared.begin_watch(&self.request);
        let mut reading = true;
        loop {
            tokio::select! {
                biased;
                Some(cut) = cuts.recv() => {
                    let line = self.queue.iter().find_map(Queued::line).unwrap_or_default();
                    return self.cut(cut, &line).await;
                }
                () = self.out.closed() => return,
                () = turn(&self.queue, &self.out) => {
                    let Some(next) = self.queue.pop_front() else { return };
                    match next.what {
                        Next::Line(line) => self.pass(Ok(line)).await,
                        Next::Cut(cut, line) => return self.cut(cut, &line).await,
                        Next::End => return,
                        Next::Broken(error) => return self.pass(Err(error)).await,
                    }
                }
                line = lines.next(), if reading => {
                    let next = self.planned(line, running.number);
                    // After its end a watch has no events that could be occasions.
                    reading = matches!(next.what, Next::Line(_));
                    self.queue.push_back(next);
                }
            }
        }
    }

    fn planned(&self, line: Option<Result<Bytes, BodyError>>, watch: u64) -> Queued {
        let now = |what| Queued { not_before: Instant::now(), held: Vec::new(), what };
        let line = match line {
            Some(Ok(line)) => line,
            Some(Err(error)) => return now(Next::Broken(error)),
            None => return now(Next::End),
        };
        let plan = self.shared.plan_event(&self.request, watch);
        let what = match (plan.cut, plan.garbage) {
            (Some(cut), _) => Next::Cut(cut, line),
            (None, Some(garbage)) => Next::Line(garbage.of_line(&line).into()),
            (None, None) => Next::Line(line),
        };
        Queued { not_before: Instant::now() + plan.delay, held: plan.held, what }
    }

    async fn pass(&self, piece: Result<Bytes, BodyError>) {
        // Fails only if the client is gone, which `run` notices itself.
        let _ = self.out.send(piece).await;
    }

    async fn cut(&self, cut: Cut, line: &[u8]) {
        tracing::debug!(?cut, request = %self.request, "a watch is cut");
        match cut {
            Cut::Clean => {}
            Cut::MidLine => {
                let half = if line.len() < 2 { HALF } else { &line[..line.len() / 2] };
                self.pass(Ok(Bytes::copy_from_slice(half))).await;
            }
            Cut::Reset => tokio::select! {
                () = self.connection.reset() => {}
                () = self.out.closed() => {}
            },
        }
    }
}

impl Queued {
    fn line(&self) -> Option<Bytes> {
        match &self.what {
            Next::Line(line) | Next::Cut(_, line) => Some(line.clone()),
            Next::End | Next::Broken(_) => None,
        }
    }
}

/// Waits until the first item of `queue` may be sent and the client can take it.
async fn turn(queue: &VecDeque<Queued>, out: &mpsc::Sender<Result<Bytes, BodyError>>) {
    let Some(first) = queue.front() else {
        return std::future::pending().await;
    };
    for held in &first.held {
        held.released().await;
    }
    sleep_until(first.not_before).await;
    // The permit is returned at once: this is the only sender.
    drop(out.reserve().await);
}

/// The lines of a body, each with its end.
struct Lines {
    body: Body,
    buffer: BytesMut,
    /// How much of `buffer` is known to contain no line end.
    searched: usize,
    by_line: bool,
}

impl Lines {
    /// The next line. Cancel-safe.
    async fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        loop {
            if let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + at + 1);
                self.searched = 0;
                return Some(Ok(line.freeze()));
            }
            self.searched = self.buffer.len();
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    if !self.by_line && !data.is_empty() {
                        return Some(Ok(data));
                    }
                    self.buffer.extend_from_slice(&data);
                }
                Some(Err(error)) => return Some(Err(error.into())),
                None if self.buffer.is_empty() => return None,
                None => {
                    self.searched = 0;
                    return Some(Ok(self.buffer.split().freeze()));
                }
            }
        }
    }
}
