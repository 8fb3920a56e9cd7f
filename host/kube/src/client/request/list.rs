//! Reads a list item by item while it arrives. The answer is never in memory as a whole.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use http::Request;
use http::header::{ACCEPT, USER_AGENT};
use http_body_util::BodyExt as _;
use hyper::body::Body;
use kube::Client;
use serde::de::Error as _;
use tokio::time::timeout;

use super::values::{VALUE_BYTES_MAX, ValueScan};
use super::{RequestError, refusal, send};
use crate::client::headers::HOST_AGENT;

/// The maximum size of a list without its items, in bytes.
const ENVELOPE_BYTES_MAX: usize = 1 << 20;

/// The reason why a list could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListError {
    /// There was no usable answer.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The answer is not a list.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// A list that was read completely.
#[derive(Debug)]
pub(crate) struct ReadList {
    /// The list without its items.
    pub(crate) envelope: Vec<u8>,
    /// The number of items.
    pub(crate) items: usize,
    /// The size of the list with its items, in bytes.
    pub(crate) bytes: usize,
}

/// GETs the list at `uri` in a format that `accept` allows, within `limit`. Passes the text of each item to `take` as
/// soon as it has arrived. An error of `take` stops the read.
pub(crate) async fn get_list<E: From<ListError>>(
    client: &Client,
    uri: &str,
    accept: &str,
    limit: Duration,
    mut take: impl FnMut(&str) -> Result<(), E>,
) -> Result<ReadList, E> {
    let request = Request::get(uri).header(USER_AGENT, HOST_AGENT).header(ACCEPT, accept);
    let exchange = async {
        let response = send(client, request, Bytes::new()).await.map_err(ListError::from)?;
        if !response.status().is_success() {
            return Err(ListError::from(refusal(response).await).into());
        }
        read(response.into_body(), &mut take).await
    };
    let timed_out = |_| Err(ListError::from(RequestError::TimedOut { after: limit }).into());
    timeout(limit, exchange).await.unwrap_or_else(timed_out)
}

async fn read<E: From<ListError>>(
    mut body: impl Body<Data = Bytes, Error = kube::Error> + Unpin,
    take: &mut impl FnMut(&str) -> Result<(), E>,
) -> Result<ReadList, E> {
    let (mut buffer, mut split) = (BytesMut::new(), ListSplit::default());
    let (mut items, mut bytes) = (0, 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|source| RequestError::Broken { source: Box::new(source) });
        let Ok(data) = frame.map_err(ListError::from)?.into_data() else { continue };
        bytes += data.len();
        buffer.extend_from_slice(&data);
        while let Some(item) = split.next(&mut buffer)? {
            let text = std::str::from_utf8(&buffer[..item]);
            let text = text.map_err(|error| ListError::from(serde_json::Error::custom(error)))?;
            take(text)?;
            items += 1;
            buffer.advance(item);
        }
    }
    Ok(ReadList { envelope: split.envelope, items, bytes })
}

/// Splits the text of a list into its items and the rest.
#[derive(Debug, Default)]
struct ListSplit {
    envelope: Vec<u8>,
    place: ListPlace,
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// The start in `envelope` of the last string outside of items, which may be the name of a field.
    string: usize,
    scan: ValueScan,
}

/// The current place in the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ListPlace {
    #[default]
    Envelope,
    /// After the name `items`, before its value.
    Items,
    /// Before the first item or the end.
    FirstItem,
    Item,
    Separator,
}

impl ListSplit {
    /// Removes everything outside of items from `buffer`. Returns the length of the complete item that `buffer` then
    /// begins with; the caller removes it. `None` if more data is needed.
    fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<usize>, ListError> {
        loop {
            let is_item = matches!(self.place, ListPlace::FirstItem | ListPlace::Item);
            let Some(&byte) = buffer.first() else { return Ok(None) };
            if is_item && byte != b']' && !byte.is_ascii_whitespace() {
                let Some(item) = self.scan.find(buffer) else {
                    let is_too_large = buffer.len() > VALUE_BYTES_MAX;
                    let too_large = RequestError::TooLarge { most: VALUE_BYTES_MAX };
                    return if is_too_large { Err(too_large.into()) } else { Ok(None) };
                };
                (self.scan, self.place) = (ValueScan::default(), ListPlace::Separator);
                return Ok(Some(item.end));
            }
            buffer.advance(1);
            self.take(byte)?;
        }
    }

    /// Consumes a byte that is not part of an item.
    fn take(&mut self, byte: u8) -> Result<(), ListError> {
        if self.place != ListPlace::Envelope && byte.is_ascii_whitespace() {
            return Ok(());
        }
        match (self.place, byte) {
            (ListPlace::Envelope, _) => return self.take_envelope(byte),
            (ListPlace::Items, b'[') => {
                self.envelope.push(b'[');
                self.place = ListPlace::FirstItem;
            }
            (ListPlace::Items, _) => {
                self.place = ListPlace::Envelope;
                return self.take_envelope(byte);
            }
            (ListPlace::FirstItem | ListPlace::Separator, b']') => {
                self.envelope.push(b']');
                self.place = ListPlace::Envelope;
            }
            (ListPlace::Separator, b',') => self.place = ListPlace::Item,
            (ListPlace::FirstItem | ListPlace::Item | ListPlace::Separator, _) => {
                let problem = "expected `,` or `]` between the items of a list";
                return Err(serde_json::Error::custom(problem).into());
            }
        }
        Ok(())
    }

    fn take_envelope(&mut self, byte: u8) -> Result<(), ListError> {
        if self.envelope.len() >= ENVELOPE_BYTES_MAX {
            return Err(RequestError::TooLarge { most: ENVELOPE_BYTES_MAX }.into());
        }
        let at = self.envelope.len();
        self.envelope.push(byte);
        if self.in_string {
            self.in_string = self.is_escaped || byte != b'"';
            self.is_escaped = !self.is_escaped && byte == b'\\';
            return Ok(());
        }
        match byte {
            b'"' => {
                self.in_string = true;
                if self.depth == 1 {
                    self.string = at;
                }
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b':' if self.depth == 1 && self.envelope[self.string..at].trim_ascii_end() == br#""items""# => {
                self.place = ListPlace::Items;
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, stream};
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    /// The items and the envelope of a list that arrives in these pieces.
    fn split(pieces: &[&str]) -> Result<(Vec<String>, String), String> {
        let frames: Vec<_> =
            pieces.iter().map(|it| Ok::<_, kube::Error>(Frame::data(Bytes::from((*it).to_owned())))).collect();
        let (body, mut items) = (StreamBody::new(stream::iter(frames)), Vec::new());
        let mut take = |item: &str| {
            items.push(item.to_owned());
            Ok::<_, ListError>(())
        };
        let list =
            read(body, &mut take).now_or_never().expect("all of it is there").map_err(|error| error.to_string())?;
        assert_eq!((list.items, list.bytes), (items.len(), pieces.concat().len()));
        Ok((items, String::from_utf8(list.envelope).expect("text")))
    }

    #[test]
    fn items_are_cut_out_wherever_they_stand_and_however_they_come() {
        let (one, two) = (r#"{"metadata":{"name":"a","items":[1]}}"#, r#"{"b":"]}\"","items":{}}"#);
        let metadata = r#""metadata":{"items":[{}],"continue":"\"items\":["}"#;
        for (list, expected, envelope) in [
            (
                format!(r#"{{{metadata},"items":[{one},{two}]}}"#),
                vec![one, two],
                format!(r#"{{{metadata},"items":[]}}"#),
            ),
            (format!(r#"{{"items":[{one}],{metadata}}}"#), vec![one], format!(r#"{{"items":[],{metadata}}}"#)),
            (
                format!("{{ \"items\" : [\n {one} ,\n {two}\n ] , {metadata} }}\n"),
                vec![one, two],
                format!("{{ \"items\" :[] , {metadata} }}\n"),
            ),
            (format!(r#"{{{metadata},"items":[]}}"#), vec![], format!(r#"{{{metadata},"items":[]}}"#)),
            (format!(r#"{{"items":null,{metadata}}}"#), vec![], format!(r#"{{"items":null,{metadata}}}"#)),
            (format!("{{{metadata}}}"), vec![], format!("{{{metadata}}}")),
            (r#"{"kind":"items","a":[1]}"#.to_owned(), vec![], r#"{"kind":"items","a":[1]}"#.to_owned()),
        ] {
            let expected = Ok((expected.into_iter().map(str::to_owned).collect(), envelope));
            assert_eq!(split(&[&list]), expected, "{list}");
            for cut in 1..list.len() {
                let (before, after) = list.split_at(cut);
                assert_eq!(split(&[before, after]), expected, "{before:?}, {after:?}");
            }
            assert_eq!(split(&list.split("").collect::<Vec<_>>()), expected, "{list} byte by byte");
        }
    }

    #[test]
    fn a_malformed_list_is_refused() {
        for list in [r#"{"items":[{}{}]}"#, r#"{"items":[,{}]}"#, r#"{"items":[{},]}"#, r#"{"items":[{};{}]}"#] {
            let read = split(&[list]);
            let is_refused = read.as_ref().is_err_and(|why| why.contains("between the items"))
                || read.as_ref().is_ok_and(|(items, _)| items.iter().any(|item| !item.starts_with('{')));
            assert!(is_refused, "{list}: {read:?}");
        }
        for list in [r#"{"items":[{"#, r#"{"items":[{}"#, r#"{"items":[{}]"#, r#"{"items":[]}}"#, "", "[]", "{}{}"] {
            let (_, envelope) = split(&[list]).expect("it is for the reader of the envelope");
            assert!(serde_json::from_str::<serde_json::Map<_, _>>(&envelope).is_err(), "{list}: {envelope}");
        }
    }

    #[test]
    fn neither_an_item_nor_the_rest_may_be_endless() {
        let piece = "[".repeat(VALUE_BYTES_MAX / 2);
        let too_large = split(&[r#"{"items":[{"a":"#, &piece, &piece, &piece]).expect_err("it never ends");
        assert!(too_large.contains("larger than"), "{too_large}");
        let piece = "x".repeat(ENVELOPE_BYTES_MAX / 2);
        let too_large = split(&[r#"{"metadata":""#, &piece, &piece]).expect_err("it never ends");
        assert!(too_large.contains("larger than"), "{too_large}");
    }

    #[test]
    fn an_error_about_an_item_stops_the_read() {
        let unread = stream::poll_fn(|_| panic!("it reads on"));
        let first = stream::iter([Ok::<_, kube::Error>(Frame::data(Bytes::from(r#"{"items":[{},{"a""#)))]);
        let body = StreamBody::new(futures::StreamExt::chain(first, unread));
        let mut refuse = |_: &str| Err(ListError::from(RequestError::TooLarge { most: 1 }));
        assert!(read(body, &mut refuse).now_or_never().expect("at once").is_err());
    }
}
