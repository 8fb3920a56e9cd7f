//! The stream of a watch: JSON values, usually one per line.

use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use kube::client::Body;

use super::values::{VALUE_BYTES_MAX, ValueScan};

/// The maximum size of a buffer that is kept. Only a large value needs more.
const IDLE_BUFFER_BYTES: usize = 64 << 10;

/// The values of a watch.
///
/// Servers write each value on its own line. So a caller first tries to parse a line as a value ([`Self::line`]),
/// because finding the end of a line is cheap. If that fails, it takes the next value wherever it ends
/// ([`Self::value`]), as client-go does (apimachinery: `runtime/serializer/json`, `framer.go`).
#[derive(Debug)]
pub(crate) struct WatchStream<B = Body> {
    body: B,
    buffer: BytesMut,
    /// `buffer` has no line end before this place.
    searched: usize,
    scan: ValueScan,
    /// The length of the last returned line or value, including its separator.
    returned: usize,
}

/// The reason why there is no further value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchEnd {
    /// The stream ended between two values. A broken connection ends the stream like a closed one, because a watch can
    /// resume after either.
    Clean,
    /// The stream ended within a value.
    Torn,
    /// A value is longer than [`VALUE_BYTES_MAX`].
    TooLarge,
}

impl<B: hyper::body::Body<Data = Bytes> + Unpin> WatchStream<B> {
    pub(super) fn new(body: B) -> Self {
        Self { body, buffer: BytesMut::new(), searched: 0, scan: ValueScan::default(), returned: 0 }
    }

    /// The next line that is not blank; or the next value, if it has arrived without a line end. A line may be one
    /// value, a part of one, or more than one. Cancel-safe.
    pub(crate) async fn line(&mut self) -> Result<&[u8], WatchEnd> {
        self.skip_blank();
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                self.returned = self.searched + at + 1;
                return Ok(&self.buffer[..self.returned]);
            }
            self.searched = self.buffer.len();
            if let Some(value) = self.scan.find(&self.buffer) {
                self.returned = value.end;
                return Ok(&self.buffer[..value.end]);
            }
            self.receive().await?;
            // There may be more blank lines.
            if self.searched == 0 {
                self.skip_blank();
            }
        }
    }

    /// The next value, for use if the last line was not a value. Cancel-safe.
    pub(crate) async fn value(&mut self) -> Result<&[u8], WatchEnd> {
        loop {
            if let Some(value) = self.scan.find(&self.buffer) {
                self.returned = value.end;
                return Ok(&self.buffer[value]);
            }
            self.receive().await?;
        }
    }

    /// Skips the last returned line or value, which the caller has consumed.
    pub(crate) fn advance(&mut self) {
        self.buffer.advance(std::mem::take(&mut self.returned));
        if self.buffer.is_empty() && self.buffer.capacity() > IDLE_BUFFER_BYTES {
            self.buffer = BytesMut::new();
        }
        self.searched = 0;
        self.scan = ValueScan::default();
    }

    fn skip_blank(&mut self) {
        while self.buffer.first().is_some_and(u8::is_ascii_whitespace) {
            self.returned = 1;
            self.advance();
        }
    }

    async fn receive(&mut self) -> Result<(), WatchEnd> {
        if self.buffer.len() > VALUE_BYTES_MAX {
            return Err(WatchEnd::TooLarge);
        }
        match self.body.frame().await {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    self.buffer.extend_from_slice(&data);
                }
                Ok(())
            }
            Some(Err(_)) | None if self.buffer.iter().all(u8::is_ascii_whitespace) => Err(WatchEnd::Clean),
            Some(Err(_)) | None => Err(WatchEnd::Torn),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, stream};
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    /// A watch that receives these pieces.
    fn watch(pieces: &[&str]) -> WatchStream<impl hyper::body::Body<Data = Bytes> + Unpin + use<>> {
        let frames: Vec<_> =
            pieces.iter().map(|it| Ok::<_, std::io::Error>(Frame::data(Bytes::from((*it).to_owned())))).collect();
        WatchStream::new(StreamBody::new(stream::iter(frames)))
    }

    /// Takes each line as a value if it is a complete value, as callers do. Returns the values, and how the stream
    /// ends.
    fn read(pieces: &[&str]) -> (Vec<String>, WatchEnd) {
        let (mut stream, mut values) = (watch(pieces), Vec::new());
        let read = async {
            loop {
                let line = String::from_utf8_lossy(stream.line().await?).trim().to_owned();
                let is_whole = serde_json::from_str::<serde_json::Value>(&line).is_ok();
                let value = if is_whole { line } else { String::from_utf8_lossy(stream.value().await?).into_owned() };
                stream.advance();
                values.push(value);
            }
        };
        let Err::<(), _>(end) = read.now_or_never().expect("all of it is there") else { unreachable!() };
        (values, end)
    }

    #[test]
    fn values_are_read_with_any_white_space_between_them() {
        let (one, two) = (r#"{"a":{"b":"}\n"}}"#, r#"{"c":[1]}"#);
        for text in [
            format!("{one}\n{two}\n"),
            format!("\n\n{one}\n\n \n{two}\n\n"),
            format!("{one}\r\n{two}\r\n"),
            format!("  {one} \n\t{two}"),
            format!("{one}{two}"),
            format!("{one}{two}\n"),
            format!("{one} {two}\n"),
        ] {
            let expected = (vec![one.to_owned(), two.to_owned()], WatchEnd::Clean);
            assert_eq!(read(&[&text]), expected, "{text:?}");
            for cut in 1..text.len() {
                let (before, after) = text.split_at(cut);
                assert_eq!(read(&[before, after]), expected, "{before:?}, {after:?}");
            }
            let bytes: Vec<_> = text.split("").collect();
            assert_eq!(read(&bytes), expected, "{text:?} byte by byte");
        }
    }

    #[test]
    fn a_value_may_have_many_lines() {
        let value = "{\n  \"a\": {\n    \"b\": \"\\n\"\n  }\n}";
        for text in [format!("{value}\n{value}\n"), format!("{value}{value}"), value.replace('\n', "\r\n").repeat(2)] {
            let (values, end) = read(&[&text]);
            let values: Vec<_> = values.iter().map(|it| it.replace('\r', "")).collect();
            assert_eq!((values, end), (vec![value.to_owned(); 2], WatchEnd::Clean), "{text:?}");
        }
    }

    #[test]
    fn a_value_that_is_cut_off_is_torn_but_a_missing_newline_is_not() {
        assert_eq!(read(&["{\"a\":1}\n{\"b\"", ":"]), (vec!["{\"a\":1}".to_owned()], WatchEnd::Torn));
        assert_eq!(read(&["{\n\"a\":1"]), (vec![], WatchEnd::Torn));
        assert_eq!(read(&["{\n\"a\":1}"]), (vec!["{\n\"a\":1}".to_owned()], WatchEnd::Clean));
        assert_eq!(read(&[" \n\n"]), (vec![], WatchEnd::Clean));
    }

    #[test]
    fn a_value_that_never_ends_is_given_up() {
        let piece = "[".repeat(VALUE_BYTES_MAX / 4);
        assert_eq!(read(&["{\n", &piece, &piece, &piece, &piece, &piece]), (vec![], WatchEnd::TooLarge));
        let text = format!("{{\"a\":\"{}\"}}", "x".repeat(VALUE_BYTES_MAX / 2));
        assert_eq!(read(&[&text, "\n"]).0.len(), 1);
    }

    #[test]
    fn a_large_value_leaves_no_large_buffer() {
        let large = format!("{{\"a\":\"{}\"}}\n", "x".repeat(10 * IDLE_BUFFER_BYTES));
        let mut stream = watch(&[&large]);
        assert!(stream.line().now_or_never().expect("there").is_ok());
        stream.advance();
        assert!(stream.buffer.capacity() <= IDLE_BUFFER_BYTES);
    }
}
