//! The parts of a running host that its controllers and plugins share.

use std::sync::Arc;

use windlass_core::life::features::{Feature, Features};
use windlass_kube::client::Connection;
use windlass_kube::{Discovery, InformerOptions, Informers, Recorder, Writer};
use windlass_record::Recordings;

use crate::admission::kinds::Kinds;
use crate::admission::reviews::ServerReviews;
use crate::dispatch::guards::Guards;
use crate::dispatch::outage::Outages;
use crate::dispatch::shadow::Shadows;
use crate::earlier_rounds::EarlierRounds;
use crate::egress::{ApiServer, Egress};
use crate::hooks::Hooks;
use crate::leadership::Leadership;
use crate::observe::admin::Admin;
use crate::observe::metrics::{HostMetrics, RecordedCalls, Sources};
use crate::observe::status::Status;
use crate::policies::Policies;
use crate::settings::{Settings, processors};
use crate::supervise::Panics;
use crate::traces::{ExportedSpans, Tracer};
use windlass_egress::HttpLimits;
use windlass_egress::connect::SystemResolver;
use windlass_egress::tls::Trust;

/// The parts that all controllers share.
pub(crate) struct Host {
    pub(crate) discovery: Discovery,
    pub(crate) informers: Informers,
    pub(crate) writer: Arc<Writer>,
    pub(crate) recorder: Arc<Recorder>,
    /// If true, the host changes nothing in the cluster, so it sends no Kubernetes Events either.
    pub(crate) read_only: bool,
    /// If true, a new generation goes through probation beside the previous one.
    pub(crate) rollback: bool,
    pub(crate) outages: Outages,
    pub(crate) kinds: Kinds,
    pub(crate) panics: Panics,
    pub(crate) status: Status,
    pub(crate) metrics: HostMetrics,
    pub(crate) egress: Egress,
    pub(crate) policies: Policies,
    pub(crate) reviews: ServerReviews,
    /// The only namespace that this host may watch.
    pub(crate) namespace: Option<String>,
    /// Knows which plugins run here, and which elsewhere.
    pub(crate) leadership: Leadership,
    pub(crate) features: Features,
    /// The next versions of plugins, which are called as shadows.
    pub(crate) shadows: Shadows,
    pub(crate) earlier_rounds: EarlierRounds,
    /// The guards of each plugin, over all its calls.
    pub(crate) guards: Guards,
    /// The CPU seconds that a call slot held for one second costs other plugins.
    pub(crate) slot_worth: f64,
    /// Where calls are recorded. `None` if none are.
    pub(crate) recordings: Option<Recordings>,
    /// Samples calls, and exports their spans. `None` without tracing.
    pub(crate) tracer: Option<Tracer>,
    /// The hooks of plugins that run here.
    pub(crate) hooks: Hooks,
    /// The name of this process, which identifies its writes in an audit log.
    pub(crate) replica: Arc<str>,
}

impl Host {
    pub(crate) fn new(
        connection: Connection,
        settings: &Settings,
        policies: Policies,
        leadership: Leadership,
        replica: Arc<str>,
        shown: Admin,
        trust: Trust,
    ) -> Self {
        let Admin { status, metrics } = shown;
        metrics.follow_requests(&connection);
        status.sees(Arc::new(leadership.view()));
        let discovery = Discovery::new(connection.client.clone())
            .compare_versions(settings.features.enabled(Feature::ComparableResourceVersions));
        let defaults = InformerOptions::default();
        let options = InformerOptions {
            streaming_lists: settings.features.enabled(Feature::WatchList),
            cold_after: defaults.cold_after.filter(|_| settings.features.enabled(Feature::ColdCompression)),
            most_bytes: settings.cache,
            silence: defaults.silence,
            reachability: connection.reachability.clone(),
            restores: connection.restores.clone(),
        };
        let informers = Informers::with_options(connection.client.clone(), discovery.clone(), options);
        let api_server = ApiServer::at(&connection.server);
        let totals = metrics.http().clone();
        let trust = Arc::new(trust);
        let egress = Egress::new(HttpLimits::default(), trust.clone(), Arc::new(SystemResolver), api_server, totals);
        let recorder = Recorder::new(connection.client.clone()).read_only(settings.read_only);
        let guards = Guards::new(settings.guards);
        metrics.collect(Box::new(guards.clone()));
        if let Some(recordings) = &settings.record {
            metrics.collect(Box::new(RecordedCalls(recordings.clone())));
        }
        let panics = Panics::default();
        let tracer = settings.traces.as_ref();
        let tracer = tracer.map(|traces| Tracer::start(traces, &connection.server, &replica, trust, &panics));
        if let Some(tracer) = &tracer {
            metrics.collect(Box::new(ExportedSpans(tracer.clone())));
        }
        let writer = Writer::new(connection.client.clone(), discovery.clone()).read_only(settings.read_only);
        let hooks = Hooks::new(metrics.hooks().clone());
        if settings.hooks.is_some() {
            status.shows_hooks(Arc::new(hooks.clone()));
        }
        metrics.show(Sources {
            status: status.clone(),
            panics: panics.clone(),
            informers: informers.clone(),
            recorder: recorder.clone(),
            writer: writer.clone(),
        });
        Self {
            informers,
            writer: Arc::new(writer),
            recorder: Arc::new(recorder),
            outages: Outages::new(connection.reachability.watch()),
            kinds: Kinds::default(),
            panics,
            policies,
            leadership,
            reviews: ServerReviews::new(connection, &replica),
            read_only: settings.read_only,
            rollback: settings.rollback,
            status,
            metrics,
            egress,
            discovery,
            features: settings.features.clone(),
            namespace: settings.namespace.clone(),
            shadows: Shadows::default(),
            earlier_rounds: EarlierRounds::default(),
            guards,
            slot_worth: f64::from(processors()) / f64::from(settings.call_slots),
            recordings: settings.record.clone(),
            tracer,
            hooks,
            replica,
        }
    }
}
