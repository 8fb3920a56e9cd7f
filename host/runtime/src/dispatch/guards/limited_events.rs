//! Limits the Kubernetes Events that a plugin emits. Those beyond the limit that have the same type and reason are
//! combined into one Event, as client-go's `EventCorrelator` does for one object (`tools/record/events_cache.go`).
//!
//! The host's Events about the plugin have a separate budget, so that no plugin can silence them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use windlass_core::budget::fair::CpuPermit;
use windlass_core::cache::overlay::Overlay;
use windlass_core::call::ports::{CallContext, Event, EventType, Events};
use windlass_core::clock::Moment;
use windlass_core::queue::TokenBucket;
use windlass_core::write::settle::Hold;

use super::Guards;

/// The sustained rate of one plugin's Events, about all objects. Each object also has its own budget.
const EVENTS_PER_SECOND: u32 = 5;
/// The burst of one plugin's Events.
const EVENTS_BURST: u32 = 100;
/// The sustained rate of the host's Events about a plugin.
const HOST_EVENTS_PER_SECOND: u32 = 10;
/// The burst of the host's Events about a plugin.
const HOST_EVENTS_BURST: u32 = 500;
/// How long Events are combined before the combined one is sent.
const EVENTS_SUMMED_FOR: Duration = Duration::from_secs(2);
/// The most reasons that are combined separately. Events of further reasons are only counted.
const SUMMED_REASONS_MAX: usize = 16;

/// The budgets of one plugin.
#[derive(Debug)]
pub(super) struct EventBudgets {
    plugin: TokenBucket,
    host: TokenBucket,
    sums: BTreeMap<(bool, String), Sum>,
    over: u64,
}

/// The Events of one type and reason that were not sent.
#[derive(Debug)]
struct Sum {
    count: u64,
    /// The call of the last of these Events.
    call: CallContext,
    event: Event,
}

/// How one Event is handled.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Send,
    /// The Event is combined with similar Events. The first Event of a period schedules the combined ones.
    Sum {
        first: bool,
    },
}

impl Default for EventBudgets {
    fn default() -> Self {
        Self {
            plugin: TokenBucket::new(EVENTS_PER_SECOND, EVENTS_BURST),
            host: TokenBucket::new(HOST_EVENTS_PER_SECOND, HOST_EVENTS_BURST),
            sums: BTreeMap::new(),
            over: 0,
        }
    }
}

impl EventBudgets {
    /// The number of Events that were not sent individually.
    pub(super) fn dropped(&self) -> u64 {
        self.over
    }

    fn step(&mut self, call: &CallContext, event: &Event, of_host: bool, now: Moment) -> Step {
        let bucket = if of_host { &mut self.host } else { &mut self.plugin };
        if bucket.try_take(now).is_ok() {
            return Step::Send;
        }
        self.over += 1;
        let first = self.sums.is_empty();
        let key = (event.event_type == EventType::Warning, event.reason.clone());
        if let Some(sum) = self.sums.get_mut(&key) {
            sum.count += 1;
        } else if self.sums.len() < SUMMED_REASONS_MAX {
            let mut event = event.clone();
            event.regarding.get_or_insert_with(|| call.primary_ref());
            self.sums.insert(key, Sum { count: 1, call: outlives(call), event });
        }
        Step::Sum { first }
    }

    fn take_sums(&mut self) -> Vec<Sum> {
        std::mem::take(&mut self.sums).into_values().collect()
    }
}

/// `call` without the part that keeps its key from running again.
fn outlives(call: &CallContext) -> CallContext {
    CallContext {
        hold: Hold::detached(),
        overlay: Overlay::default(),
        cpu_permit: CpuPermit::default(),
        ..call.clone()
    }
}

impl Sum {
    fn event(&self) -> Event {
        let note = match self.count {
            1 => self.event.note.clone(),
            count => format!("(combined from {count} similar events, of several objects) {}", self.event.note),
        };
        Event { note, ..self.event.clone() }
    }
}

/// `events` within the budgets of `guards`.
pub(super) fn limited(events: Arc<dyn Events>, guards: Guards) -> Arc<dyn Events> {
    Arc::new(LimitedEvents { events, guards })
}

struct LimitedEvents {
    events: Arc<dyn Events>,
    guards: Guards,
}

impl LimitedEvents {
    fn limit(&self, call: &CallContext, event: Event, of_host: bool) {
        let plugin = &call.principal.plugin;
        match self.guards.with_events(plugin, |budgets, now| budgets.step(call, &event, of_host, now)) {
            Step::Send if of_host => self.events.emit_for_host(call, event),
            Step::Send => self.events.emit(call, event),
            Step::Sum { first: false } => {}
            Step::Sum { first: true } => {
                tracing::info!(
                    %plugin, controller = %call.controller, key = %call.primary_key, reason = event.reason,
                    "more Events than {EVENTS_PER_SECOND} a second: Events of one reason are combined into one"
                );
                self.send_sums_later(plugin.clone());
            }
        }
    }

    /// Sends the combined Events at the end of the period.
    fn send_sums_later(&self, plugin: Arc<str>) {
        let (events, guards) = (self.events.clone(), self.guards.clone());
        drop(tokio::spawn(async move {
            sleep(EVENTS_SUMMED_FOR).await;
            for sum in guards.with_events(&plugin, |budgets, _| budgets.take_sums()) {
                events.emit_for_host(&sum.call, sum.event());
            }
        }));
    }
}

impl Events for LimitedEvents {
    fn emit(&self, call: &CallContext, event: Event) {
        self.limit(call, event, false);
    }

    fn emit_for_host(&self, call: &CallContext, event: Event) {
        self.limit(call, event, true);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use windlass_kube::WriteRate;

    use super::*;
    use crate::dispatch::guards::GuardSettings;
    use crate::tests::played;

    #[derive(Default)]
    struct Sent(Mutex<Vec<Event>>);

    impl Events for Sent {
        fn emit(&self, _: &CallContext, event: Event) {
            self.0.lock().expect("no panic").push(event);
        }
    }

    impl Sent {
        fn take(&self) -> Vec<Event> {
            std::mem::take(&mut *self.0.lock().expect("no panic"))
        }
    }

    fn limited() -> (Guards, Arc<Sent>, Arc<dyn Events>, CallContext) {
        let guards = Guards::new(GuardSettings { writes: WriteRate::default(), hot_loop_writes: 3 });
        let sent = Arc::new(Sent::default());
        let (_, call) = played::call(None);
        let events = guards.limited(sent.clone());
        (guards, sent, events, (*call).clone())
    }

    fn event(reason: &str) -> Event {
        Event::of_primary(EventType::Normal, reason, "A", "a Deployment".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn events_beyond_the_budget_are_summed_up_by_reason() {
        let (guards, sent, events, call) = limited();
        for _ in 0..1_000 {
            events.emit(&call, event("Created"));
            events.emit(&call, event("Ready"));
        }
        assert_eq!(sent.take().len(), 100, "the burst");
        sleep(EVENTS_SUMMED_FOR * 2).await;
        let notes: Vec<_> = sent.take().into_iter().map(|event| (event.reason, event.note)).collect();
        let combined = "(combined from 950 similar events, of several objects) a Deployment".to_owned();
        assert_eq!(notes, [("Created".to_owned(), combined.clone()), ("Ready".to_owned(), combined)]);
        let mut text = String::new();
        let mut registry = prometheus_client::registry::Registry::default();
        registry.register_collector(Box::new(guards));
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("a text");
        let counted = format!("events_over_budget_total{{plugin=\"{}\"}} 1900", call.principal.plugin);
        assert!(text.contains(&counted), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn events_of_the_host_have_a_separate_budget() {
        let (_, sent, events, call) = limited();
        (0..2_000).for_each(|_| events.emit(&call, event("Created")));
        sent.take();
        (0..250).for_each(|_| events.emit_for_host(&call, event("GaveUp")));
        assert_eq!(sent.take().len(), 250);
    }

    #[tokio::test(start_paused = true)]
    async fn reasons_without_end_are_only_counted() {
        let (guards, _, events, call) = limited();
        (0..2_000).for_each(|number| events.emit(&call, event(&number.to_string())));
        let sums =
            guards.with_events(&call.principal.plugin, |budgets, _| (budgets.take_sums().len(), budgets.dropped()));
        assert_eq!(sums, (SUMMED_REASONS_MAX, 1_900));
    }
}
