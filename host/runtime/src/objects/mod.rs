//! Plugins that are objects of the cluster (ADR 48): follows the kinds `ClusterPlugin` and `ClusterPluginPolicy`,
//! fetches their files, and writes them into a directory that the rest of the host follows like the operator's.
//!
//! `windlass-objects` decides what should be there. [`directory`] has the files, [`fetch`] gets them, [`installing`]
//! carries out the plan, and [`report`] writes the status of objects.

pub(crate) mod directory;
mod ending;
mod fetch;
mod followed;
mod installing;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use windlass_core::retry::{Retries, RetryPolicy};
use windlass_kube::OwnObjects;
use windlass_kube::client::Connection;
use windlass_objects::{FetchState, InstalledArtefact, ObjectPlan, PlanInputs, PluginSource, WantedFiles, plan};
use windlass_store::{PluginStore, StoreError, StoreLimits};

use self::directory::{ObjectDirectory, ObjectDirectoryError, taken_names};
use self::ending::EndingPlugins;
use self::fetch::{ArtefactError, ArtefactSource, CONFIG_MAP_READS_MAX, FetchedFile, HostSources};
use self::followed::FollowedObjects;
use self::report::Reporter;
use crate::host::Host;
use crate::object_names::ObjectNames;
use crate::object_settings::ObjectSettings;
use windlass_oci::Network;

/// How long objects must be quiet before the next plan, as `kubectl apply` sends several.
const OBJECTS_QUIET_TIME: Duration = Duration::from_millis(50);
/// The longest wait for objects to be quiet. Otherwise one that changes all the time would put off the end of others.
const OBJECTS_SETTLE_TIME_MAX: Duration = Duration::from_millis(500);
/// How often the host looks whether plugins have ended, and whether a status differs. No request is sent for that.
const OBJECTS_LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after the disk has failed.
const DISK_RETRY_PAUSE: Duration = Duration::from_secs(30);
/// The shortest time between the beginnings of two fetches for one plugin. The source that is edited last is fetched.
const FETCH_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// The pauses after failed fetches.
const FETCH_BACKOFF: RetryPolicy =
    RetryPolicy::doubling(Duration::from_secs(5), Duration::from_mins(10)).jitter(0.8, 1.2);

/// Why plugins cannot be objects.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    /// Their files cannot be kept.
    #[error(transparent)]
    Directory(#[from] ObjectDirectoryError),
    /// Their artefacts cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operator's directory cannot be read.
    #[error("cannot read the plugin directory {}: {source}; name one with --plugins", path.display())]
    Plugins {
        /// The directory.
        path: PathBuf,
        source: std::io::Error,
    },
}

/// The files of objects as an earlier process has left them.
pub(crate) struct OpenedObjects {
    directory: ObjectDirectory,
    installed: BTreeMap<String, InstalledArtefact>,
    former: BTreeMap<String, Vec<InstalledArtefact>>,
    taken: BTreeSet<String>,
    /// The names that belong to objects.
    pub(crate) names: ObjectNames,
    settings: ObjectSettings,
}

impl OpenedObjects {
    /// Opens the directory of `settings`. Names with files in `plugins` belong to the operator. Blocks until `stop` at
    /// most; the host then ends without these plugins.
    pub(crate) fn open(
        settings: &ObjectSettings,
        plugins: &Path,
        stop: &CancellationToken,
    ) -> Result<Self, ObjectsError> {
        let unreadable = |source| ObjectsError::Plugins { path: plugins.to_owned(), source };
        let taken = taken_names(plugins).map_err(unreadable)?;
        let (directory, records) = ObjectDirectory::open(&settings.directory, &taken, stop)?;
        let names = records.iter().map(|(name, record)| (name.clone(), record.digests())).collect();
        let names = ObjectNames::new(&settings.directory, names);
        let (mut installed, mut former) = (BTreeMap::new(), BTreeMap::new());
        for (name, record) in records {
            installed.insert(name.clone(), record.installed);
            former.insert(name, record.former);
        }
        Ok(Self { directory, installed, former, taken, names, settings: settings.clone() })
    }

    /// The task that follows the objects. `plugins` is the operator's directory.
    pub(crate) fn start(
        self,
        host: Arc<Host>,
        connection: &Connection,
        network: Network,
        file_bytes: u64,
        plugins: &Path,
        stop: &CancellationToken,
    ) -> Result<Objects, ObjectsError> {
        let Self { directory, installed, former, taken, names, settings } = self;
        let mut limits = StoreLimits { bytes: settings.store_bytes, ..StoreLimits::default() };
        limits.registry.component_bytes = file_bytes;
        let store = PluginStore::open(&settings.store, limits, network)?;
        let objects = OwnObjects::new(connection.client.clone());
        let reads = Semaphore::new(CONFIG_MAP_READS_MAX);
        let followed = FollowedObjects::new(&host.informers, settings.instance.clone());
        let sources =
            HostSources { settings, store, objects: objects.clone(), directory: directory.clone(), file_bytes, reads };
        let reporter = Reporter::new(host.clone(), objects);
        Ok(Objects {
            host,
            followed,
            reporter,
            names,
            directory,
            plugins: plugins.to_owned(),
            sources: Arc::new(sources),
            installed,
            former,
            running: BTreeMap::new(),
            retained: None,
            applied: BTreeMap::new(),
            ending: EndingPlugins::default(),
            taken,
            act_again: None,
            install_errors: BTreeMap::new(),
            fetches: BTreeMap::new(),
            attempts: BTreeMap::new(),
            fetching: JoinSet::new(),
            plans: Vec::new(),
            stop: stop.clone(),
        })
    }
}

/// The attempts to fetch the file of one plugin.
struct FetchAttempts {
    /// The generation of the object at the last attempt.
    generation: i64,
    retries: Retries,
    /// When the next one is due. `None` if one is running, or none is wanted.
    due: Option<Instant>,
    /// The fetched file.
    file: Option<FetchedFile>,
    /// The attempt that runs, if one does.
    running: Option<RunningFetch>,
    /// When the last one began.
    begun: Option<Instant>,
}

impl FetchAttempts {
    /// No attempt yet. `begun` says when the last one for an earlier source began.
    fn new(generation: i64, begun: Option<Instant>) -> Self {
        Self { generation, retries: FETCH_BACKOFF.begin(), due: None, file: None, running: None, begun }
    }

    /// The earliest time of the next attempt. Without a pause, edits without end would cause as many requests.
    fn soonest(&self, now: Instant) -> Instant {
        self.begun.map_or(now, |begun| now.max(begun + FETCH_INTERVAL_MIN))
    }

    /// Whether the attempts of an object that is gone still put off those of another object of its name. Otherwise one
    /// that is deleted and created without end would cause as many requests.
    fn puts_off(&self, now: Instant) -> bool {
        self.soonest(now) > now
    }

    /// Stops what is not wanted any more.
    fn stop(&mut self) {
        (self.due, self.file, self.running) = (None, None, None);
    }
}

/// Stops a fetch whose result is not wanted any more.
struct RunningFetch(AbortHandle);

impl Drop for RunningFetch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The result of a fetch. `None` if the host's code panicked.
type FetchEnd = (String, PluginSource, Option<Result<FetchedFile, ArtefactError>>);

/// The task that follows objects, and its state.
pub(crate) struct Objects {
    host: Arc<Host>,
    followed: FollowedObjects,
    reporter: Reporter,
    names: ObjectNames,
    directory: ObjectDirectory,
    /// The operator's directory of plugins.
    plugins: PathBuf,
    sources: Arc<dyn ArtefactSource>,
    /// The installed artefact of each plugin, until its last generation has ended.
    installed: BTreeMap<String, InstalledArtefact>,
    /// The artefacts that were installed before, the latest first. They may run again after a rollback. Each name that
    /// belongs to an object is here, even without such artefacts.
    former: BTreeMap<String, Vec<InstalledArtefact>>,
    /// The SHA-256 of the file that runs for each plugin.
    running: BTreeMap<String, String>,
    /// The artefacts that the store keeps. `None` before the first plan: then it keeps all.
    retained: Option<Vec<InstalledArtefact>>,
    /// The files that were written last.
    applied: BTreeMap<String, WantedFiles>,
    ending: EndingPlugins,
    /// The names of the operator's files.
    taken: BTreeSet<String>,
    /// When to carry out what could not be done at once.
    act_again: Option<Instant>,
    /// The plugins whose files could not be written, with the reason.
    install_errors: BTreeMap<String, String>,
    fetches: BTreeMap<String, (PluginSource, FetchState)>,
    attempts: BTreeMap<String, FetchAttempts>,
    fetching: JoinSet<FetchEnd>,
    plans: Vec<ObjectPlan>,
    stop: CancellationToken,
}

impl Objects {
    /// Runs until the host stops.
    pub(crate) async fn run(&mut self) {
        let stop = self.stop.clone();
        if !matches!(stop.run_until_cancelled(self.followed.synced()).await, Some(true)) {
            return;
        }
        let mut looks = interval(OBJECTS_LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // An earlier run may have panicked between two steps, and a first one has done nothing.
        let mut is_due = true;
        loop {
            if is_due {
                self.act().await;
            }
            let due = self.attempts.values().filter_map(|attempts| attempts.due).min();
            is_due = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                // Changes come last: there may be more of them than can be handled, and the others are few.
                _ = looks.tick() => self.look().await,
                Some(ended) = self.fetching.join_next() => ended.is_ok_and(|ended| self.fetched(ended)),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => { self.retry_fetches(); false }
                changed = self.followed.changed() => match changed {
                    Some(true) => { self.settle().await; true }
                    Some(false) => false,
                    None => return,
                },
            };
        }
    }

    /// Takes over further changes, until there are none that matter for a while.
    async fn settle(&mut self) {
        let mut quiet = QuietTime::begin(Instant::now());
        while let Some(end) = quiet.end(Instant::now()) {
            match timeout_at(end, self.followed.changed()).await {
                Ok(Some(true)) => quiet.prolong(Instant::now()),
                // A status or metadata: a plan does not depend on it.
                Ok(Some(false)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Checks what sends no events: the operator's directory, plugins that end, and the status of objects. True if a
    /// new plan is due.
    async fn look(&mut self) -> bool {
        let plugins = self.plugins.clone();
        let taken = windlass_world::spawn_blocking(move || taken_names(&plugins)).await;
        // While the directory cannot be read, the names last seen still count.
        let taken = taken.ok().and_then(Result::ok).unwrap_or_else(|| self.taken.clone());
        let mut is_due = taken != self.taken;
        self.taken = taken;
        is_due |= self.finish_ended().await;
        is_due |= self.find_lost_files().await;
        // A rollback may bring back a version that its policy does not list any more.
        is_due |= self.running_digests() != self.running;
        is_due |= self.act_again.is_some_and(|at| at <= Instant::now());
        self.reporter.look(&self.plans, &self.followed, &self.install_errors);
        is_due
    }

    /// Acts again at `at`, or earlier if something else needs that.
    fn act_again(&mut self, at: Instant) {
        self.act_again = Some(self.act_again.map_or(at, |earlier| earlier.min(at)));
    }

    /// The digests of the files that run now, as far as they belong to objects.
    fn running_digests(&self) -> BTreeMap<String, String> {
        let running = self.former.keys().filter_map(|name| {
            let digest = self.host.status.known(name)?.running_digest()?;
            Some((name.clone(), format!("sha256:{digest}")))
        });
        running.collect()
    }

    /// Decides, and carries out what can be done at once.
    async fn act(&mut self) {
        self.act_again = None;
        self.forget_old_fetches();
        self.running = self.running_digests();
        self.plans = plan(&PlanInputs {
            plugins: self.followed.plugins(),
            policies: self.followed.policies(),
            installed: &self.installed,
            former: &self.former,
            running: &self.running,
            fetches: &self.fetches,
            taken: &self.taken,
        });
        self.reporter.follow(&self.plans, &self.stop);
        self.install_all().await;
        self.want_fetches();
        self.retain_installed().await;
    }
}

/// How long to wait for further changes: until there are none that matter for a while, but not for ever.
struct QuietTime {
    end: Instant,
    latest: Instant,
}

impl QuietTime {
    fn begin(now: Instant) -> Self {
        Self { end: now + OBJECTS_QUIET_TIME, latest: now + OBJECTS_SETTLE_TIME_MAX }
    }

    /// Takes note of a change that matters.
    fn prolong(&mut self, now: Instant) {
        self.end = (now + OBJECTS_QUIET_TIME).min(self.latest);
    }

    /// When to stop, unless it is over.
    fn end(&self, now: Instant) -> Option<Instant> {
        (now < self.end).then_some(self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_without_end_cause_one_fetch_per_second() {
        let start = Instant::now();
        let mut attempts = FetchAttempts::new(1, None);
        assert_eq!(attempts.soonest(start), start);
        attempts.begun = Some(start);
        assert_eq!(attempts.soonest(start), start + FETCH_INTERVAL_MIN);
        assert!(attempts.puts_off(start), "the object may be deleted and created again");
        let later = start + 2 * FETCH_INTERVAL_MIN;
        assert_eq!(attempts.soonest(later), later);
        assert!(!attempts.puts_off(later));
    }

    #[test]
    fn changes_without_end_do_not_put_off_a_plan_for_ever() {
        let start = Instant::now();
        let mut quiet = QuietTime::begin(start);
        assert_eq!(quiet.end(start), Some(start + OBJECTS_QUIET_TIME));
        assert_eq!(quiet.end(start + OBJECTS_QUIET_TIME), None);
        let mut now = start;
        while now < start + OBJECTS_SETTLE_TIME_MAX {
            assert!(quiet.end(now).is_some_and(|end| end <= start + OBJECTS_SETTLE_TIME_MAX));
            quiet.prolong(now);
            now += OBJECTS_QUIET_TIME / 5;
        }
        assert_eq!(quiet.end(now), None);
    }
}
