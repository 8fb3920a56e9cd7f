//! The task of one informer: it lists, watches and resumes, and lists again if it cannot resume.

mod failing;
mod log;
mod relist;
mod trouble;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use kube::Client;
use tokio::time::{Instant, timeout, timeout_at};
use windlass_core::cache::watch::WatchSpec;
use windlass_core::object::compact::Version;
use windlass_core::object::progress::Stamp;

use self::log::TroubleLog;
use self::relist::relist_due;
use self::trouble::{can_resume, is_refusal, list_reason, not_before, watch_seconds};
use crate::backoff::Backoff;
use crate::client::reachability::Reachability;
use crate::client::request::WatchStream;
use crate::client::restores::Restores;
use crate::discovery::{Discovery, Resource};
use crate::informer::collector::Collector;
use crate::informer::error::{InformerError, OverBudget};
use crate::informer::feed::{CompleteList, Feed};
use crate::informer::listing::{self, From};
use crate::informer::notice::{NextNotice, Notice};
use crate::informer::parse::ObjectParser;
use crate::informer::status::{InformerOptions, ListReason};

/// The timeout for the beginning of a watch's answer.
const WATCH_START_TIMEOUT: Duration = Duration::from_secs(30);
/// The time by which a watch may outlast its requested end before its connection counts as dead.
const WATCH_GRACE: Duration = Duration::from_secs(30);
/// A watch that the server ends sooner than this, without an event, counts as a failure. Otherwise it would be started
/// again without a pause (client-go: `handleAnyWatch`).
const FRUITLESS_WATCH_MAX: Duration = Duration::from_secs(1);

/// The number of retries with a version that the server has not reached yet. The server that answers may lag behind the
/// server that returned the version.
const VERSION_AHEAD_RETRIES: u32 = 2;

pub(crate) struct Follower {
    client: Client,
    discovery: Discovery,
    reachability: Reachability,
    restores: Restores,
    /// Whether texts that are not read are packed.
    packing: bool,
    /// See [`InformerOptions::silence`].
    silence: Duration,
    spec: WatchSpec,
    feed: Arc<Feed>,
    log: TroubleLog,
    /// Whether lists are requested as the beginning of a watch. Set to false once the server has refused such a
    /// request.
    streaming: bool,
    /// Whether the last streaming list failed, so that the next list comes in pages.
    spoilt: bool,
    /// The reason for the next list. `None` if no list is due.
    due: Option<ListReason>,
    /// When the last list was applied.
    listed_at: Option<Instant>,
    /// The number of consecutive answers which said that the server has not reached the cache's version.
    ahead: u32,
}

/// Where to go on: watch from this version, or list if there is none.
type Resume = Option<Version>;

/// The end of a list or a watch.
struct FollowEnd {
    resume: Resume,
    /// `None` if it ended normally.
    failure: Option<InformerError>,
}

impl FollowEnd {
    fn failed(resume: Resume, failure: InformerError) -> Self {
        Self { resume, failure: Some(failure) }
    }
}

impl Follower {
    pub(crate) fn new(
        client: Client,
        discovery: Discovery,
        options: InformerOptions,
        spec: WatchSpec,
        feed: Arc<Feed>,
    ) -> Self {
        let InformerOptions { streaming_lists: streaming, reachability, restores, cold_after, silence, .. } = options;
        let packing = cold_after.is_some();
        // A feed that already has a list had an earlier task, which must have panicked.
        let due = if feed.store().is_synced() { ListReason::Distrusted } else { ListReason::First };
        Self {
            client,
            discovery,
            reachability,
            restores,
            packing,
            silence,
            spec,
            feed,
            log: TroubleLog::new(),
            streaming,
            spoilt: false,
            due: Some(due),
            listed_at: None,
            ahead: 0,
        }
    }

    /// Runs until no subscriber has budget for the cache any more.
    pub(crate) async fn run(mut self) -> OverBudget {
        let mut parser = loop {
            match ObjectParser::new(&self.spec) {
                Ok(parser) => break parser,
                Err(error) => self.report_and_wait(InformerError::Pointer(error), Duration::MAX).await,
            }
        };
        let mut backoff = Backoff::default();
        let mut resume = None;
        loop {
            if let Some(reason) = self.relist_due().now_or_never() {
                resume = None;
                self.due.get_or_insert(reason);
            }
            let step = match resume {
                None if self.streaming && !self.spoilt => self.stream(&mut parser).await,
                None => self.list(&mut parser).await,
                Some(version) => self.watch(version, &mut parser).await,
            };
            resume = step.resume;
            if resume.is_none() {
                self.due.get_or_insert_with(|| list_reason(step.failure.as_ref()));
            }
            match step.failure {
                None => {}
                Some(InformerError::OverBudget(over)) => return over,
                Some(error) => {
                    let pause = backoff.next(Instant::now());
                    self.report_and_wait(error, pause).await;
                }
            }
        }
    }

    /// Lists page by page.
    async fn list(&mut self, parser: &mut ObjectParser) -> FollowEnd {
        let listed = match self.resource().await {
            Ok(resource) => {
                Collector::new(&self.feed, parser, self.packing).pages(&self.client, &self.spec, &resource).await
            }
            Err(error) => Err(error),
        };
        match listed.and_then(|listed| self.take_list(listed)) {
            Ok(version) => FollowEnd { resume: Some(version), failure: None },
            Err(error) => FollowEnd::failed(None, self.doubting(error)),
        }
    }

    /// Lists as the beginning of a watch, and continues with that watch.
    async fn stream(&mut self, parser: &mut ObjectParser) -> FollowEnd {
        let seconds = watch_seconds();
        let began = Instant::now();
        let resource = self.resource().await;
        let asked = Stamp::take();
        let answer = match resource {
            Ok(resource) => self.begin(&resource, From::Everything, seconds).await.map(|stream| (resource, stream)),
            Err(error) => Err(error),
        };
        let (resource, mut stream) = match answer {
            Ok(answer) => answer,
            Err(error) if is_refusal(&error) => {
                tracing::debug!(watch = %self.spec, %error, "the server has no streaming lists");
                self.streaming = false;
                return FollowEnd { resume: None, failure: None };
            }
            Err(error) => return FollowEnd::failed(None, self.doubting(error)),
        };
        let listed = Collector::new(&self.feed, parser, self.packing).stream(&mut stream, &resource, asked).await;
        match listed.and_then(|listed| self.take_list(listed)) {
            Ok(version) => self.follow(stream, version, parser, began, seconds).await,
            Err(error) => {
                // Whatever the cause was, pages are more reliable.
                self.spoilt = true;
                FollowEnd::failed(None, error)
            }
        }
    }

    fn take_list(&mut self, mut listed: CompleteList) -> Result<Version, InformerError> {
        let version = listed.version.clone();
        listed.era = self.feed.era_of(&self.restores, &listed);
        let is_restored = self.feed.store().is_synced() && self.feed.store().era() != listed.era;
        tracing::debug!(watch = %self.spec, objects = listed.objects.len(), %version, "listed");
        if let Some(reason) = self.due.take() {
            self.feed.update_status(|status| status.lists_by_reason[reason as usize] += 1);
        }
        self.feed.hears();
        self.feed.replace(listed).map_err(InformerError::OverBudget)?;
        if is_restored {
            tracing::info!(watch = %self.spec, %version, "the cache was listed again after the API server was restored");
        }
        self.spoilt = false;
        self.listed_at = Some(Instant::now());
        self.ahead = 0;
        self.recovered();
        Ok(version)
    }

    async fn watch(&mut self, version: Version, parser: &mut ObjectParser) -> FollowEnd {
        let seconds = watch_seconds();
        let began = Instant::now();
        let stream = match self.resource().await {
            Ok(resource) => self.begin(&resource, From::Version(&version), seconds).await,
            Err(error) => Err(error),
        };
        match stream {
            Ok(stream) => {
                self.recovered();
                self.follow(stream, version, parser, began, seconds).await
            }
            Err(error) => self.broken(version, error),
        }
    }

    /// Decides how to go on after the failure of a watch that had reached `version`.
    fn broken(&mut self, version: Version, error: InformerError) -> FollowEnd {
        self.ahead = if error.is_ahead() { self.ahead + 1 } else { 0 };
        let resumes = can_resume(&error) && self.ahead < VERSION_AHEAD_RETRIES;
        FollowEnd::failed(resumes.then_some(version), error)
    }

    /// Checks whether the server is still at `version` or beyond. The error says that the server has gone back.
    async fn doubt(&self, version: &Version) -> Result<(), InformerError> {
        let Some(resource) = self.feed.store().resource().filter(|resource| resource.comparable) else { return Ok(()) };
        let known = self.feed.known_state();
        match listing::newest(&self.client, &self.spec, &resource).await {
            Ok(server) => {
                if let Some(known) = known {
                    self.feed.compare_history(&self.restores, &known, &server);
                }
                not_before(&server, version)
            }
            // The server cannot be asked now. Either the watch fails, or the next silence leads to another check.
            Err(_) => Ok(()),
        }
    }

    async fn begin(&self, resource: &Resource, from: From<'_>, seconds: u64) -> Result<WatchStream, InformerError> {
        listing::watch(&self.client, &self.spec, resource, from, seconds, WATCH_START_TIMEOUT).await
    }

    /// Applies the events of a watch that has reached `version`.
    async fn follow(
        &mut self,
        mut stream: WatchStream,
        mut version: Version,
        parser: &mut ObjectParser,
        began: Instant,
        seconds: u64,
    ) -> FollowEnd {
        let deadline = began + Duration::from_secs(seconds) + WATCH_GRACE;
        let mut has_events = false;
        let mut relist = pin!(self.relist_due());
        loop {
            let next = tokio::select! {
                biased;
                reason = &mut relist => {
                    self.due.get_or_insert(reason);
                    return FollowEnd { resume: None, failure: None };
                }
                next = timeout_at(deadline, timeout(self.silence, Notice::next(&mut stream, parser))) => next,
            };
            match next {
                Ok(Ok(Err(error))) => return self.broken(version, error),
                Ok(Ok(Ok(NextNotice::Notice(notice)))) => match self.take(notice) {
                    Ok(seen) if seen.is_empty() => {}
                    Ok(seen) => (version, has_events) = (seen, true),
                    Err(error) => return self.broken(version, error),
                },
                Ok(Err(_silence)) => {
                    if let Err(error) = self.doubt(&version).await {
                        return FollowEnd::failed(None, error);
                    }
                }
                Ok(Ok(Ok(NextNotice::Torn))) => {
                    // The incomplete event will be sent again, because it is later than `version`.
                    self.log.torn(&self.spec);
                    self.feed.update_status(|status| status.malformed += 1);
                    break;
                }
                Ok(Ok(Ok(NextNotice::End))) | Err(_) => break,
            }
        }
        let is_failure = !has_events && began.elapsed() < FRUITLESS_WATCH_MAX;
        let failure = is_failure.then_some(InformerError::TooShort { within: FRUITLESS_WATCH_MAX });
        FollowEnd { resume: Some(version), failure }
    }

    /// Checks that a watch goes forward: if versions can be compared, its events must be later than the version that it
    /// resumed from.
    fn check(&self, version: &Version) -> Result<(), InformerError> {
        let later = self.feed.store().later_than(version);
        later.map_or(Ok(()), |cache| Err(InformerError::WentBack { server: version.clone(), cache }))
    }

    /// Applies one event. Returns the version that the store then has.
    fn take(&self, notice: Notice) -> Result<Version, InformerError> {
        self.feed.hears();
        let (version, taken) = match notice {
            Notice::Applied(object) if self.feed.is_late(&object) => {
                let header = &object.header;
                return Err(InformerError::Disordered { key: header.key.clone(), version: header.version.clone() });
            }
            Notice::Applied(object) => {
                self.check(&object.header.version)?;
                (object.header.version.clone(), self.feed.apply(&object))
            }
            Notice::Deleted(object) => {
                self.check(&object.header.version)?;
                (object.header.version.clone(), self.feed.delete(object))
            }
            Notice::Excluded(object) => {
                self.check(&object.header.version)?;
                (object.header.version.clone(), self.feed.exclude(object))
            }
            Notice::Bookmark { version, .. } => {
                self.check(&version)?;
                self.feed.bookmark(version.clone());
                (version, Ok(()))
            }
        };
        taken.map_err(InformerError::OverBudget)?;
        Ok(version)
    }

    async fn resource(&self) -> Result<Arc<Resource>, InformerError> {
        let resource = self.discovery.resolve(&self.spec.kind).await?;
        if resource.is_watchable() { Ok(resource) } else { Err(InformerError::NotWatchable { resource }) }
    }

    /// Invalidates discovery after `error`, because the resource may be gone or have another name. The next attempt
    /// asks the server again.
    fn doubting(&self, error: InformerError) -> InformerError {
        if matches!(&error, InformerError::List(error) | InformerError::Watch(error) if error.code() == Some(404)) {
            self.discovery.doubt(&self.spec.kind);
        }
        error
    }

    /// See [`relist_due`].
    fn relist_due(&self) -> impl Future<Output = ListReason> + Send + use<> {
        relist_due(Arc::clone(&self.feed), self.restores.clone(), self.listed_at)
    }
}
