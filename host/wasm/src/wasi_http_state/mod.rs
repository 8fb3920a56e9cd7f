//! The HTTP requests of a guest that uses `wasi:http`, and the bodies that the host holds for it. Used by `wasi::http`.
//!
//! A request has a number in its call and passes through these stages: its body is written, it is sent to the port, it
//! is answered, and the guest sees the answer. Only the last stage is visible to the guest, and it is reached only
//! where the guest waits or polls (`wasi::io`). So a recording of what was seen there is all that a replay needs.

mod body;
mod requests;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderMap, HeaderName};
use wasmtime_wasi_http::p2::types::{HostIncomingResponse, HostOutgoingRequest, HostOutgoingResponse};
use wasmtime_wasi_http::{Error, FieldMap, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpHooks};
use windlass_core::call::http::{REQUEST_HEADER_BYTES_MAX, REQUEST_HEADERS_MAX};
use windlass_core::rights::egress::is_hosts_header;

pub(crate) use self::body::OutgoingBody;
pub(crate) use self::requests::{FutureResponse, RequestErrorContext, RequestStage, Requests, Seen, SentRequest};
use crate::wasi_state::WasiError;

/// The maximum number of requests of a call whose answers the guest has not seen; a `Promise.all` of a few dozen fits.
/// The next request fails with `connection-limit-reached`. Requests that the guest dropped count until the call ends,
/// because the time of their answers depends on the network and must not be visible to the guest.
pub(crate) const HTTP_REQUESTS_MAX: usize = 32;
/// The maximum size of all bodies, of requests and responses, that the host holds for an instance: sixteen bodies of
/// the maximum size.
pub(crate) const HTTP_BODY_BYTES_MAX: usize = 16 << 20;
/// The maximum size of the headers behind all handles of an instance. The headers are counted again only when they may
/// have grown by half of this size, so they may exceed it by half.
pub(crate) const HTTP_HEADER_BYTES_MAX: usize = 4 << 20;
/// The memory of a header in addition to its name and value.
const HEADER_OVERHEAD_BYTES: usize = 72;

/// Defines which headers only the host may set.
pub(crate) struct Hooks;

impl WasiHttpHooks for Hooks {
    fn is_forbidden_header(&mut self, name: &HeaderName) -> bool {
        // Clients set `content-length`. The host checks the value, and omits the header.
        is_hosts_header(name.as_str()) && name != http::header::CONTENT_LENGTH
    }

    /// Never called: only the crate's own `handle` calls this, and the host replaces `handle`.
    fn send_request(
        &mut self,
        _: http::Request<WasiBody>,
        _: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Sent, Error>> + Send> {
        Box::new(async { Err(Error::HttpRequestDenied) })
    }
}

type Sent = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

/// The state of an instance that has used WASI.
pub(crate) struct HttpState {
    pub(crate) ctx: WasiHttpCtx,
    pub(crate) hooks: Hooks,
    pub(crate) requests: Requests,
    /// The size of all bodies.
    held: Arc<AtomicUsize>,
    /// The maximum by which headers have grown since they were last counted.
    grown: usize,
}

impl Default for HttpState {
    fn default() -> Self {
        let mut ctx = WasiHttpCtx::new();
        ctx.set_field_size_limit(REQUEST_HEADER_BYTES_MAX + REQUEST_HEADERS_MAX * HEADER_OVERHEAD_BYTES);
        Self { ctx, hooks: Hooks, requests: Requests::default(), held: Arc::default(), grown: 0 }
    }
}

impl HttpState {
    /// Takes the requests that continue while the call waits for something else. [`Self::requests`] is empty meanwhile.
    pub(crate) fn take_requests(&mut self) -> Option<Requests> {
        (!self.requests.sent.is_empty()).then(|| std::mem::take(&mut self.requests))
    }

    /// Charges bytes to the instance until the value is dropped.
    pub(crate) fn held(&self, bytes: usize) -> HeldBytes {
        let mut held = HeldBytes { all: self.held.clone(), bytes: 0 };
        held.add(bytes);
        held
    }

    /// The size of the bodies that the host holds, including those of answers that the guest has not seen.
    pub(crate) fn bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed) + self.requests.unseen_bytes()
    }

    /// Checks [`HTTP_BODY_BYTES_MAX`].
    pub(crate) fn check_bodies(&self) -> Result<(), WasiError> {
        if self.held.load(Ordering::Relaxed) > HTTP_BODY_BYTES_MAX { Err(WasiError::Bodies) } else { Ok(()) }
    }

    /// Records that headers behind handles, which are among `entries`, may have grown by `bytes`. Counts them again if
    /// that is much.
    pub(crate) fn headers_grow<'a>(
        &mut self,
        bytes: usize,
        entries: impl Iterator<Item = &'a mut (dyn Any + Send)>,
    ) -> Result<(), WasiError> {
        self.grown = self.grown.saturating_add(bytes);
        if self.grown <= HTTP_HEADER_BYTES_MAX / 2 {
            return Ok(());
        }
        self.grown = 0;
        let all: usize = entries.filter_map(|entry| headers_of(entry)).map(header_bytes).sum();
        if all > HTTP_HEADER_BYTES_MAX { Err(WasiError::Headers) } else { Ok(()) }
    }
}

fn headers_of(entry: &dyn Any) -> Option<&HeaderMap> {
    let request = || Some(&*entry.downcast_ref::<HostOutgoingRequest>()?.headers);
    let incoming = || Some(&*entry.downcast_ref::<HostIncomingResponse>()?.headers);
    let outgoing = || Some(&*entry.downcast_ref::<HostOutgoingResponse>()?.headers);
    let fields = entry.downcast_ref::<FieldMap>().map(|fields| &**fields);
    fields.or_else(request).or_else(incoming).or_else(outgoing)
}

/// The approximate size of `headers` in bytes.
pub(crate) fn header_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| header_size(name.as_str().len(), value.len())).sum()
}

/// The approximate size of a header in bytes.
pub(crate) fn header_size(name: usize, value: usize) -> usize {
    name + value + HEADER_OVERHEAD_BYTES
}

/// Bytes of a body that count until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl HeldBytes {
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.all.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Stops counting, because the bytes belong to another owner now.
    fn clear(&mut self) {
        self.all.fetch_sub(std::mem::take(&mut self.bytes), Ordering::Relaxed);
    }

    fn is_too_much(&self) -> bool {
        self.all.load(Ordering::Relaxed) > HTTP_BODY_BYTES_MAX
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A body of a response, which counts until its last reference is dropped.
pub(crate) struct HeldBody {
    pub(crate) bytes: Vec<u8>,
    pub(crate) _held: HeldBytes,
}

impl AsRef<[u8]> for HeldBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::component::ResourceTable;
    use wasmtime_wasi::p2::OutputStream as _;

    use super::*;

    #[test]
    fn a_body_counts_once_until_its_answer_is_seen() {
        let state = HttpState::default();
        let body = OutgoingBody::new(None, state.held(0));
        let mut stream = body.stream().expect("the first");
        assert!(body.stream().is_none());
        stream.write("12345".into()).expect("it is open");
        assert_eq!(state.bytes(), 5);
        let mut requests = Requests::default();
        let request = windlass_core::call::http::HttpRequest {
            method: "PUT".to_owned(),
            url: "https://a.example".to_owned(),
            headers: vec![],
            body: None,
            timeout: None,
        };
        let sent = http_body_util::BodyExt::boxed_unsync(body.clone());
        assert!(requests.send(request, Some(sent), state.held(0)).is_some());
        assert_eq!(requests.ready().count(), 0, "it is open");
        body.finish().expect("it is whole");
        assert_eq!(requests.ready().count(), 1);
        drop((stream, body));
        assert_eq!(state.bytes(), 5, "the request has it");
        drop(requests.remove(0));
        assert_eq!(state.bytes(), 0);
    }

    #[test]
    fn headers_are_counted_behind_all_handles_once_they_may_be_many() {
        let (mut state, mut table) = (HttpState::default(), ResourceTable::new());
        let mut list = FieldMap::new_mutable(usize::MAX);
        list.append(&mut Hooks, "a".to_owned(), vec![b'a'; 60 << 10]).expect("it fits");
        let bytes = header_bytes(&list);
        let fits = HTTP_HEADER_BYTES_MAX / bytes;
        let mut pushed = vec![];
        while pushed.len() <= fits + HTTP_HEADER_BYTES_MAX / 2 / bytes + 1 {
            pushed.push(table.push(list.clone()).expect("there is room"));
            if state.headers_grow(bytes, table.iter_mut()).is_err() {
                break;
            }
        }
        assert!(
            pushed.len() > fits && pushed.len() <= fits + HTTP_HEADER_BYTES_MAX / 2 / bytes + 1,
            "{}",
            pushed.len()
        );
        for handle in pushed {
            table.delete(handle).expect("it is there");
        }
        assert!((0..1_000).all(|_| state.headers_grow(bytes, table.iter_mut()).is_ok()), "none is kept");
    }
}
