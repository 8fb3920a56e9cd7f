//! The port of calls to the Kubernetes API. Requests to other servers are handled elsewhere.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use windlass_core::call::ports::{Answer, Ask, CallContext, CollectionDeletion, Port};
use windlass_core::error::ApiReason;

use crate::reader::live::LiveReader;
use crate::reader::{Reader, claim};
use crate::writer::Writer;

/// Handles the requests of one controller's calls to the API server. Clones share everything.
#[derive(Clone)]
pub struct ApiPort {
    reader: Arc<Reader>,
    live: LiveReader,
    writer: Writer,
}

impl ApiPort {
    /// Claims find their objects with `reader`.
    #[must_use]
    pub fn new(reader: Arc<Reader>, live: LiveReader, writer: Writer) -> Self {
        Self { reader, live, writer }
    }
}

impl Port for ApiPort {
    fn ask(&self, call: Arc<CallContext>, ask: Ask) -> BoxFuture<'static, Answer> {
        match ask {
            Ask::Get(_) | Ask::List(_) | Ask::Log(_) | Ask::Served(_) | Ask::Kinds(_) => self.live.ask(call, ask),
            Ask::Write(operation) => self.writer.write(call, *operation).map(Answer::Write).boxed(),
            Ask::Batch(operations) => self.writer.batch(call, operations).map(Answer::Batch).boxed(),
            Ask::DeleteCollection(deletion) => {
                let CollectionDeletion { collection, options } = *deletion;
                self.writer.delete_collection(call, collection, options).map(Answer::DeleteCollection).boxed()
            }
            Ask::Claim(asked) => {
                let (reader, port) = (self.reader.clone(), self.clone());
                async move { Answer::Claim(claim::carry_out(&reader, &port, call, asked).await) }.boxed()
            }
            Ask::Fetch(_) => {
                ready(ask.refused(ApiReason::ServerError, "this port carries out requests to the API server only"))
                    .boxed()
            }
        }
    }
}
