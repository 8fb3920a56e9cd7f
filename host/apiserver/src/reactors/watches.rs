//! Disturbs the events of one watch, by a pipeline of stages between the watch and its client. If a rule cuts the
//! watch, the events that a stage holds are lost, as on a broken connection. If the watch ends by itself, they are
//! delivered.

use std::collections::VecDeque;
use std::pin::Pin;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use tokio::time::{Instant, sleep_until};

use super::document::{Reaction, WatchEnd, WatchHold};
use super::rules::Reactors;
use crate::clock::Chance;

/// A line or frame of a watch.
#[derive(Clone, Debug)]
pub(crate) struct WatchEvent {
    pub(crate) bytes: Bytes,
    /// Namespace and name of the event's object. `None` for bookmarks and errors, which rules do not count as events.
    pub(crate) subject: Option<(String, String)>,
}

/// The error with which a stream ends if a rule drops its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a reactor dropped the connection of this watch")]
pub(crate) struct WatchDropped;

/// The disturbances of a watch that has not begun yet.
#[derive(Clone, Debug)]
pub(crate) struct WatchPlan {
    /// The reactions, each with the name of its rule.
    pub(crate) reactions: Vec<(String, Reaction)>,
    pub(crate) chance: Chance,
    /// The reactors that count the effects.
    pub(crate) reactors: Reactors,
}

/// A reaction on a running watch.
enum Stage {
    /// Each event is held for the same time.
    Delay {
        by: std::time::Duration,
        held: VecDeque<(Instant, WatchEvent)>,
    },
    /// Events are held until a group is complete.
    Gather {
        until: usize,
        shuffles: bool,
        held: Vec<WatchEvent>,
    },
    Duplicate {
        left: usize,
    },
    Hide {
        after: usize,
        left: usize,
    },
    Cut {
        after: usize,
        with: WatchEnd,
    },
}

/// The output of a stage for one event.
#[derive(Default)]
struct Passed {
    events: Vec<WatchEvent>,
    end: Option<WatchEnd>,
    /// True if the stage has an effect on this event.
    disturbs: bool,
}

impl Passed {
    fn on(event: WatchEvent) -> Passed {
        Passed { events: vec![event], ..Passed::default() }
    }
}

impl Stage {
    fn new(reaction: &Reaction) -> Option<Stage> {
        Some(match *reaction {
            Reaction::Hold(WatchHold::For(by)) => Stage::Delay { by, held: VecDeque::new() },
            Reaction::Hold(WatchHold::Events(until)) => Stage::Gather { until, shuffles: false, held: Vec::new() },
            Reaction::Reorder(count) => Stage::Gather { until: count.events, shuffles: true, held: Vec::new() },
            Reaction::Duplicate(count) => Stage::Duplicate { left: count.events },
            Reaction::Hide(hide) => Stage::Hide { after: hide.after, left: hide.events },
            Reaction::Cut(cut) => Stage::Cut { after: cut.after, with: cut.with },
            _ => return None,
        })
    }

    fn take(&mut self, event: WatchEvent, chance: &mut Chance) -> Passed {
        let counts = event.subject.is_some();
        match self {
            Stage::Delay { by, held } => {
                held.push_back((Instant::now() + *by, event));
                Passed { disturbs: counts, ..Passed::default() }
            }
            Stage::Gather { until, shuffles, held } => {
                held.push(event);
                if held.iter().filter(|held| held.subject.is_some()).count() < *until {
                    return Passed { disturbs: counts, ..Passed::default() };
                }
                let mut events = std::mem::take(held);
                if *shuffles {
                    events = shuffled(events, chance);
                }
                Passed { events, end: None, disturbs: counts }
            }
            Stage::Duplicate { left } if counts && *left > 0 => {
                *left -= 1;
                Passed { events: vec![event.clone(), event], end: None, disturbs: true }
            }
            Stage::Hide { after: 0, left } => {
                // Bookmarks are hidden too, because a bookmark would claim that the client has the hidden events.
                *left -= usize::from(counts);
                Passed { events: Vec::new(), end: (*left == 0).then_some(WatchEnd::Expired), disturbs: counts }
            }
            Stage::Cut { after, with } if counts => {
                *after -= 1;
                Passed { end: (*after == 0).then_some(*with), disturbs: *after == 0, ..Passed::on(event) }
            }
            Stage::Hide { after, .. } if counts => {
                *after -= 1;
                Passed::on(event)
            }
            Stage::Duplicate { .. } | Stage::Hide { .. } | Stage::Cut { .. } => Passed::on(event),
        }
    }

    /// Takes the events that the stage still holds, because the watch ends.
    fn rest(&mut self) -> Vec<WatchEvent> {
        match self {
            Stage::Delay { held, .. } => held.drain(..).map(|(_, event)| event).collect(),
            Stage::Gather { held, .. } => std::mem::take(held),
            _ => Vec::new(),
        }
    }

    fn due(&self) -> Option<Instant> {
        match self {
            Stage::Delay { held, .. } => held.front().map(|(due, _)| *due),
            _ => None,
        }
    }

    fn next_due(&mut self, now: Instant) -> Option<WatchEvent> {
        match self {
            Stage::Delay { held, .. } if held.front().is_some_and(|(due, _)| *due <= now) => {
                held.pop_front().map(|(_, event)| event)
            }
            _ => None,
        }
    }
}

/// Puts the events into another order, but keeps the order of each object's events. Bookmarks come last, because a
/// bookmark stands for all events before it.
fn shuffled(events: Vec<WatchEvent>, chance: &mut Chance) -> Vec<WatchEvent> {
    let (mut left, marks): (Vec<WatchEvent>, Vec<WatchEvent>) =
        events.into_iter().partition(|event| event.subject.is_some());
    let mut result = Vec::with_capacity(left.len() + marks.len());
    while !left.is_empty() {
        let drawn = chance.below(left.len());
        let first = left.iter().position(|event| event.subject == left[drawn].subject);
        result.push(left.remove(first.unwrap_or(drawn)));
    }
    result.extend(marks);
    result
}

struct Pipeline<S> {
    source: Pin<Box<S>>,
    /// The stages, each with the name of its rule.
    stages: Vec<(String, Stage)>,
    reactors: Reactors,
    chance: Chance,
    out: VecDeque<Bytes>,
    end: Option<WatchEnd>,
    /// The error event that is sent if the watch expires.
    expired: Bytes,
}

impl<S: Stream<Item = WatchEvent>> Pipeline<S> {
    fn feed(&mut self, stage: usize, event: WatchEvent) {
        if self.end.is_some() {
            return;
        }
        let Some((rule, found)) = self.stages.get_mut(stage) else {
            self.out.push_back(event.bytes);
            return;
        };
        let passed = found.take(event, &mut self.chance);
        if passed.disturbs {
            self.reactors.disturbed(rule);
        }
        for event in passed.events {
            self.feed(stage + 1, event);
        }
        if self.end.is_none() {
            self.end = passed.end;
        }
    }

    fn release_due(&mut self) {
        let now = Instant::now();
        for stage in 0..self.stages.len() {
            while let Some(event) = self.stages[stage].1.next_due(now) {
                self.feed(stage + 1, event);
            }
        }
    }

    fn release_all(&mut self) {
        for stage in 0..self.stages.len() {
            for event in self.stages[stage].1.rest() {
                self.feed(stage + 1, event);
            }
        }
        self.end.get_or_insert(WatchEnd::Close);
    }

    async fn next(&mut self) -> Option<Result<Bytes, WatchDropped>> {
        loop {
            if let Some(bytes) = self.out.pop_front() {
                return Some(Ok(bytes));
            }
            match self.end {
                None => {}
                Some(WatchEnd::Close) => return None,
                Some(WatchEnd::Expired) => {
                    self.end = Some(WatchEnd::Close);
                    return Some(Ok(self.expired.clone()));
                }
                Some(WatchEnd::Drop) => {
                    self.end = Some(WatchEnd::Close);
                    return Some(Err(WatchDropped));
                }
            }
            let due = self.stages.iter().filter_map(|(_, stage)| stage.due()).min();
            tokio::select! {
                biased;
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.release_due(),
                event = self.source.next() => match event {
                    Some(event) => self.feed(0, event),
                    None => self.release_all(),
                },
            }
        }
    }
}

/// Disturbs the events of a watch by its plan. `expired` is the error event that makes a client list again.
pub(crate) fn disturbed<S>(
    source: S,
    plan: &WatchPlan,
    expired: Bytes,
) -> impl Stream<Item = Result<Bytes, WatchDropped>> + use<S>
where
    S: Stream<Item = WatchEvent>,
{
    let stages = plan.reactions.iter().filter_map(|(rule, reaction)| Some((rule.clone(), Stage::new(reaction)?)));
    let stages: Vec<(String, Stage)> = stages.collect();
    let at_once = stages.iter().find_map(|(rule, stage)| match stage {
        Stage::Cut { after: 0, with } => {
            plan.reactors.disturbed(rule);
            Some(*with)
        }
        _ => None,
    });
    let pipeline = Pipeline {
        source: Box::pin(source),
        stages,
        reactors: plan.reactors.clone(),
        chance: plan.chance.clone(),
        out: VecDeque::new(),
        end: at_once,
        expired,
    };
    futures::stream::unfold(pipeline, |mut pipeline| async move {
        let next = pipeline.next().await?;
        Some((next, pipeline))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reactors::{EventCount, ReactorDocument, ReactorRule, RequestFacts, WatchCut, WatchHide};

    fn events(names: &str) -> Vec<WatchEvent> {
        let event = |(number, name): (usize, char)| WatchEvent {
            bytes: Bytes::from(format!("{name}{number}")),
            subject: (name != '-').then(|| (String::new(), name.to_string())),
        };
        names.chars().enumerate().map(event).collect()
    }

    fn plan(reactions: Vec<Reaction>, seed: u64) -> WatchPlan {
        let reactions = reactions.into_iter().map(|reaction| ("rule".to_owned(), reaction)).collect();
        WatchPlan { reactions, chance: Chance::new(Some(seed)), reactors: Reactors::default() }
    }

    async fn seen(names: &str, reactions: Vec<Reaction>, seed: u64) -> Vec<String> {
        let plan = plan(reactions, seed);
        let stream = disturbed(futures::stream::iter(events(names)), &plan, Bytes::from("410"));
        let text = |item: Result<Bytes, WatchDropped>| {
            item.map_or_else(|_| "dropped".to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
        };
        stream.map(text).collect().await
    }

    #[tokio::test]
    async fn a_watch_is_cut_after_the_number_of_events_in_the_rule() {
        let cut = |after, with| vec![Reaction::Cut(WatchCut { after, with })];
        assert_eq!(seen("a-bc", cut(2, WatchEnd::Close), 1).await, ["a0", "-1", "b2"]);
        assert_eq!(seen("ab", cut(1, WatchEnd::Drop), 1).await, ["a0", "dropped"]);
        assert_eq!(seen("ab", cut(0, WatchEnd::Expired), 1).await, ["410"]);
    }

    #[tokio::test]
    async fn a_hidden_run_ends_in_a_list() {
        let hide = vec![Reaction::Hide(WatchHide { after: 1, events: 2 })];
        assert_eq!(seen("ab-cd", hide, 1).await, ["a0", "410"]);
    }

    #[tokio::test]
    async fn the_first_events_are_duplicated() {
        let twice = vec![Reaction::Duplicate(EventCount { events: 1 })];
        assert_eq!(seen("-ab", twice, 1).await, ["-0", "a1", "a1", "b2"]);
    }

    #[tokio::test]
    async fn a_rule_has_struck_when_it_changes_the_events() {
        let strikes = async |reaction: Reaction, names: &str| {
            let rule = ReactorRule { name: "rule".to_owned(), then: vec![reaction.clone()], ..ReactorRule::default() };
            let reactors = Reactors::default();
            reactors.set(ReactorDocument::new(1, vec![rule])).expect("a rule");
            let facts = RequestFacts {
                verb: "watch".to_owned(),
                resource: "pods".to_owned(),
                namespace: String::new(),
                name: String::new(),
                user_agent: String::new(),
            };
            assert!(reactors.decide(&facts).is_some(), "it is about the watch");
            let plan = WatchPlan { reactors: reactors.clone(), ..plan(vec![reaction], 1) };
            let source = futures::stream::iter(events(names));
            let _: Vec<_> = disturbed(source, &plan, Bytes::from("410")).collect().await;
            (reactors.counts()[0].acted, reactors.counts()[0].struck)
        };
        let hide = |after| Reaction::Hide(WatchHide { after, events: 1 });
        assert_eq!([strikes(hide(1), "ab").await, strikes(hide(2), "ab-").await], [(1, 1), (1, 0)]);
        let cut = |after| Reaction::Cut(WatchCut { after, with: WatchEnd::Drop });
        let cuts = [strikes(cut(0), "").await, strikes(cut(2), "ab").await, strikes(cut(3), "ab").await];
        assert_eq!(cuts, [(1, 1), (1, 1), (1, 0)]);
        let twice = || Reaction::Duplicate(EventCount { events: 9 });
        assert_eq!([strikes(twice(), "ab").await, strikes(twice(), "-").await], [(1, 2), (1, 0)]);
    }

    #[tokio::test]
    async fn reordering_leaves_the_events_of_one_object_in_order() {
        let reorder = || vec![Reaction::Reorder(EventCount { events: 4 })];
        let mut orders = std::collections::BTreeSet::new();
        for seed in 0..20 {
            let order = seen("aab-b", reorder(), seed).await;
            let place = |name: &str| order.iter().position(|found| found == name).expect("it comes");
            assert!(place("a0") < place("a1") && place("b2") < place("b4") && place("-3") == 4, "{order:?}");
            orders.insert(order);
        }
        assert!(orders.len() > 3, "{orders:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn held_events_come_late_and_in_order() {
        let begun = Instant::now();
        let hold = vec![Reaction::Hold(WatchHold::For(std::time::Duration::from_secs(5)))];
        let plan = plan(hold, 1);
        // The source never ends, so events arrive only after they were held, and not because the watch ended.
        let source = futures::stream::iter(events("ab")).chain(futures::stream::pending());
        let stream = disturbed(source, &plan, Bytes::new());
        let found: Vec<_> = stream.take(2).collect().await;
        assert_eq!(found, [Ok(Bytes::from("a0")), Ok(Bytes::from("b1"))]);
        assert_eq!(begun.elapsed().as_secs(), 5);
    }
}
