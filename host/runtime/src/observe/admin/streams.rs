//! `/watch`: streams the summaries of all plugins to the status page as they change, as server-sent events.
//!
//! The plugins are read at most once a second, for all pages together, and only while a page is open. A page receives
//! what has changed since its last event, so a slow reader misses nothing, and only its current event is kept for it.
//!
//! There are two events: `state` has everything, and `change` has the plugins that have changed. Both have the field
//! `now`, in seconds, and `span`: the seconds since the page was last updated, or last needed no update.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::{Admin, AdminAnswer};

/// The most pages that are open at a time.
pub(super) const CONCURRENT_STREAMS_MAX: usize = 16;
/// The shortest time between two reads of the plugins.
const LOOKS_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// The longest time without an event. Events show a page that the host is alive.
const STREAM_SILENCE_MAX: Duration = Duration::from_secs(10);

/// The streams of all pages. Clones share them.
#[derive(Clone)]
pub(super) struct PluginStreams {
    places: Arc<Semaphore>,
    latest: Arc<Mutex<LatestLook>>,
}

/// Everything as of the latest read.
struct LatestLook {
    began: Instant,
    /// `None` if nothing was read yet.
    at: Option<Instant>,
    /// The number of changes so far.
    changes: u64,
    host: ShownPart,
    plugins: BTreeMap<Arc<str>, ShownPart>,
    /// The number of the last change in which a plugin disappeared.
    gone: u64,
}

/// A part of the page as JSON, and the number of its last change.
#[derive(Default)]
struct ShownPart {
    json: String,
    since: u64,
}

/// The stream of one page. Dropping it makes room for another.
struct PageStream {
    admin: Admin,
    streams: PluginStreams,
    /// When it ends.
    until: Instant,
    /// The number of the last change that the page has received.
    seen: u64,
    looked: Option<Instant>,
    sent_at: Instant,
    _place: OwnedSemaphorePermit,
}

impl PluginStreams {
    pub(super) fn new() -> Self {
        let latest = LatestLook {
            began: Instant::now(),
            at: None,
            changes: 0,
            host: ShownPart::default(),
            plugins: BTreeMap::new(),
            gone: 0,
        };
        Self { places: Arc::new(Semaphore::new(CONCURRENT_STREAMS_MAX)), latest: Arc::new(Mutex::new(latest)) }
    }

    /// Opens a stream of the summaries that `admin` shows. It ends at `until`. `None` if too many streams are open.
    pub(super) fn open(&self, admin: &Admin, until: Instant) -> Option<AdminAnswer> {
        let place = self.places.clone().try_acquire_owned().ok()?;
        let (admin, streams) = (admin.clone(), self.clone());
        let page = PageStream { admin, streams, until, seen: 0, looked: None, sent_at: Instant::now(), _place: place };
        let events = stream::unfold(page, |mut page| async move {
            let event = page.next().await?;
            Some((Ok::<_, Infallible>(Frame::data(event.into())), page))
        });
        let mut response = AdminAnswer::new(StreamBody::new(events).boxed_unsync());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        // The connection is as old as the stream, so another stream on it would end before it begins.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        Some(response)
    }
}

impl PageStream {
    /// The next event, once there is one. `None` when the stream ends.
    async fn next(&mut self) -> Option<String> {
        while Instant::now() < self.until {
            if let Some(event) = self.look() {
                return Some(event);
            }
            tokio::time::sleep(LOOKS_INTERVAL_MIN).await;
        }
        None
    }

    fn look(&mut self) -> Option<String> {
        let mut latest = self.streams.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let at = latest.fresh(&self.admin);
        let span = self.looked.replace(at).map(|before| at.saturating_duration_since(before));
        if self.seen == latest.changes && self.sent_at.elapsed() < STREAM_SILENCE_MAX {
            return None;
        }
        let event = latest.event(self.seen, span);
        (self.seen, self.sent_at) = (latest.changes, Instant::now());
        Some(event)
    }
}

impl LatestLook {
    /// Reads the plugins, unless they were read a moment ago. Returns the time of the read.
    fn fresh(&mut self, admin: &Admin) -> Instant {
        let now = Instant::now();
        match self.at {
            Some(at) if now < at + LOOKS_INTERVAL_MIN => at,
            _ => {
                self.at = Some(now);
                let host = match admin.status.ready() {
                    Ok(notes) => json!({"ready": true, "why": null, "notes": notes}),
                    Err(why) => json!({"ready": false, "why": why, "notes": []}),
                };
                self.becomes(host.to_string(), admin.summaries(self.began));
                now
            }
        }
    }

    /// Takes over the current state.
    fn becomes(&mut self, host: String, plugins: BTreeMap<Arc<str>, String>) {
        let (next, before) = (self.changes + 1, self.plugins.len());
        let mut has_changed = self.host.becomes(host, next);
        self.plugins.retain(|name, _| plugins.contains_key(name));
        if self.plugins.len() < before {
            self.gone = next;
            has_changed = true;
        }
        for (name, json) in plugins {
            has_changed |= self.plugins.entry(name).or_default().becomes(json, next);
        }
        if has_changed {
            self.changes = next;
        }
    }

    /// The event for a page that has received the first `seen` changes. If a plugin has disappeared since, the event
    /// has everything, because a change cannot show that.
    fn event(&self, seen: u64, span: Option<Duration>) -> String {
        let is_all = seen == 0 || seen < self.gone;
        let is_new = |part: &ShownPart| is_all || part.since > seen;
        let now = self.at.map_or(0.0, |at| at.saturating_duration_since(self.began).as_secs_f64());
        let times = json!({"now": now, "span": span.map(|span| span.as_secs_f64())}).to_string();
        let host = if is_new(&self.host) { format!(r#","host":{}"#, self.host.json) } else { String::new() };
        let plugins: Vec<_> = self.plugins.values().filter(|part| is_new(part)).map(|part| &*part.json).collect();
        format!(
            "event: {}\ndata: {}{host},\"plugins\":[{}]}}\n\n",
            if is_all { "state" } else { "change" },
            times.trim_end_matches('}'),
            plugins.join(",")
        )
    }
}

impl ShownPart {
    /// Takes over `json`. Returns whether it differs from before.
    fn becomes(&mut self, json: String, change: u64) -> bool {
        let is_other = self.json != json;
        if is_other {
            *self = Self { json, since: change };
        }
        is_other
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::combinators::UnsyncBoxBody;
    use serde_json::Value;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::observe::metrics::HostMetrics;
    use crate::observe::status::{PluginPhase, Status};

    const STREAM_AGE: Duration = Duration::from_mins(2);

    fn admin() -> Admin {
        let status = Status::new(CancellationToken::new());
        status.plugin("webapp");
        status.loaded();
        Admin { status, metrics: HostMetrics::new() }
    }

    struct Page(UnsyncBoxBody<Bytes, Infallible>);

    impl Page {
        fn open(streams: &PluginStreams, admin: &Admin) -> Option<Self> {
            streams.open(admin, Instant::now() + STREAM_AGE).map(|answer| Self(answer.into_body()))
        }

        /// The next event and its data. `None` if the stream has ended.
        async fn next(&mut self) -> Option<(String, Value)> {
            let frame = self.0.frame().await?.expect("it cannot fail");
            let text = String::from_utf8(frame.into_data().expect("data").to_vec()).expect("text");
            let lines: Vec<_> = text.strip_suffix("\n\n").expect("an event ends so").split('\n').collect();
            let [event, data] = lines[..] else { panic!("{text}") };
            let event = event.strip_prefix("event: ").expect("its name").to_owned();
            let data = data.strip_prefix("data: ").expect("its data");
            Some((event, serde_json::from_str(data).expect("JSON")))
        }

        /// The event after the first one, and the time until it came.
        async fn next_after(&mut self) -> ((String, Value), Duration) {
            let began = Instant::now();
            let event = self.next().await.expect("an event");
            (event, began.elapsed())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_receives_everything_at_first_and_then_changes() {
        let (admin, streams) = (admin(), PluginStreams::new());
        let mut page = Page::open(&streams, &admin).expect("a place");
        let ((event, first), waited) = page.next_after().await;
        assert_eq!((&*event, &first["span"], waited), ("state", &Value::Null, Duration::ZERO));
        assert_eq!(
            (&first["plugins"][0]["state"], &first["host"]["ready"]),
            (&json!("loading"), &json!(true)),
            "{first}"
        );
        admin.status.plugin("shop");
        admin.status.plugin("webapp").set(PluginPhase::Paused, Some("<b>\n\n\u{202e}".to_owned()));
        let ((event, second), waited) = page.next_after().await;
        assert_eq!((&*event, waited, second["host"].is_null()), ("change", LOOKS_INTERVAL_MIN, true), "{second}");
        assert_eq!(second["plugins"].as_array().map(Vec::len), Some(2), "{second}");
        assert_eq!(second["plugins"][1]["why"], "<b>\n\n\u{202e}");
        admin.status.plugin("shop").set(PluginPhase::Started, None);
        let ((_, third), _) = page.next_after().await;
        assert_eq!(third["plugins"].as_array().map(Vec::len), Some(1), "{third}");
        assert_eq!((&third["plugins"][0]["name"], &third["span"]), (&json!("shop"), &json!(1.0)));
    }

    #[tokio::test(start_paused = true)]
    async fn without_changes_a_page_receives_only_signs_of_life() {
        let (admin, streams) = (admin(), PluginStreams::new());
        let mut page = Page::open(&streams, &admin).expect("a place");
        page.next().await.expect("the first");
        let ((event, alive), waited) = page.next_after().await;
        assert_eq!((&*event, &alive["plugins"], waited), ("change", &json!([]), STREAM_SILENCE_MAX));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_page_receives_all_missed_changes_in_one_event() {
        let (admin, streams) = (admin(), PluginStreams::new());
        let [mut page, mut other] = [(); 2].map(|()| Page::open(&streams, &admin).expect("a place"));
        page.next().await.expect("the first");
        other.next().await.expect("the first");
        for name in ["a", "b", "c"] {
            admin.status.plugin(name);
            other.next().await.expect("an event");
        }
        let (event, missed) = page.next().await.expect("an event");
        assert_eq!((&*event, missed["plugins"].as_array().map(Vec::len)), ("change", Some(3)), "{missed}");
        admin.status.forget("b");
        let (event, gone) = page.next().await.expect("an event");
        assert_eq!((&*event, gone["plugins"].as_array().map(Vec::len)), ("state", Some(3)), "{gone}");
    }

    #[tokio::test(start_paused = true)]
    async fn open_streams_are_bounded_and_a_closed_one_makes_room() {
        let (admin, streams) = (admin(), PluginStreams::new());
        let mut pages: Vec<_> = (0..CONCURRENT_STREAMS_MAX).filter_map(|_| Page::open(&streams, &admin)).collect();
        assert!(pages.len() == CONCURRENT_STREAMS_MAX && Page::open(&streams, &admin).is_none());
        pages.pop();
        let mut last = Page::open(&streams, &admin).expect("there is room again");
        let began = Instant::now();
        while last.next().await.is_some() {}
        assert!(
            began.elapsed() >= STREAM_AGE && began.elapsed() < STREAM_AGE + 2 * LOOKS_INTERVAL_MIN,
            "{:?}",
            began.elapsed()
        );
    }
}
