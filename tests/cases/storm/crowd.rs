//! Subscribers that come and go.

use anyhow::Context as _;
use futures::FutureExt as _;
use rand::RngExt as _;
use rand::rngs::SmallRng;
use tokio::task::{JoinHandle, unconstrained};
use tokio_util::sync::CancellationToken;
use windlass_kube::{Informers, SubscribeOptions, Subscription};

use super::replay::{Claim, Replay, Stay};
use super::view::View;

/// The most temporary subscribers at a time.
const CROWD_MAX: usize = 30;

pub(crate) struct Crowd {
    informers: Informers,
    views: Vec<View>,
    /// Permanent subscribers, one for each view.
    residents: Vec<Member>,
    guests: Vec<Member>,
    /// The records of subscribers that have left, each with its view.
    past: Vec<(usize, Replay)>,
}

struct Member {
    view: usize,
    leave: CancellationToken,
    replay: JoinHandle<anyhow::Result<Replay>>,
}

impl Member {
    fn join(view: usize, subscription: Subscription) -> Self {
        let leave = CancellationToken::new();
        let replay = tokio::spawn(attend(subscription, leave.clone()));
        Self { view, leave, replay }
    }

    /// Makes the subscriber leave. Returns its record with all events that are available now.
    async fn left(self) -> anyhow::Result<(usize, Replay)> {
        self.leave.cancel();
        let replay = self.replay.await?.with_context(|| format!("a subscriber of view {}", self.view))?;
        Ok((self.view, replay))
    }
}

async fn attend(mut subscription: Subscription, leave: CancellationToken) -> anyhow::Result<Replay> {
    let mut replay = Replay::default();
    loop {
        tokio::select! {
            event = subscription.next() => replay.take(event.context("the informer stopped")?)?,
            () = leave.cancelled() => break,
        }
    }
    // Ignore tokio's budget, because the end of the budget would look like the end of the events.
    while let Some(event) = unconstrained(subscription.next()).now_or_never() {
        replay.take(event.context("the informer stopped")?)?;
    }
    Ok(replay)
}

impl Crowd {
    /// Subscribes the residents, and waits until their lists are complete.
    pub(crate) async fn open(informers: &Informers, views: &[View]) -> anyhow::Result<(Self, Vec<Subscription>)> {
        let mut crowd = Self {
            informers: informers.clone(),
            views: views.to_vec(),
            residents: Vec::new(),
            guests: Vec::new(),
            past: Vec::new(),
        };
        let mut observers = Vec::new();
        for view in 0..views.len() {
            let resident = crowd.subscribe(view, true)?;
            anyhow::ensure!(resident.synced().await, "the informer stopped before its first list");
            crowd.residents.push(Member::join(view, resident));
            observers.push(crowd.subscribe(view, true)?);
        }
        Ok((crowd, observers))
    }

    fn subscribe(&self, view: usize, with_indexes: bool) -> anyhow::Result<Subscription> {
        let indexes = if with_indexes { self.views[view].indexes().into() } else { Vec::new() };
        let options = SubscribeOptions { indexes, ..SubscribeOptions::default() };
        Ok(self.informers.subscribe_with(self.views[view].spec.clone(), options)?)
    }

    /// Lets a subscriber join, if there is room.
    pub(crate) fn join(&mut self, random: &mut SmallRng) -> anyhow::Result<()> {
        if self.guests.len() < CROWD_MAX {
            let view = random.random_range(0..self.views.len());
            let guest = Member::join(view, self.subscribe(view, random.random_bool(0.3))?);
            self.guests.push(guest);
        }
        Ok(())
    }

    /// A subscriber leaves.
    pub(crate) async fn leave(&mut self, random: &mut SmallRng) -> anyhow::Result<()> {
        if !self.guests.is_empty() {
            let guest = self.guests.swap_remove(random.random_range(0..self.guests.len()));
            self.past.push(guest.left().await?);
        }
        Ok(())
    }

    /// All subscribers leave. Returns for each of them its view, its record, and what it must have seen.
    pub(crate) async fn close(mut self, continuous: bool) -> anyhow::Result<Vec<(usize, Replay, Claim)>> {
        let claim = |stay| Claim { stay, continuous };
        let past = self.past.drain(..).map(|(view, replay)| (view, replay, claim(Stay::Passing)));
        let mut all: Vec<_> = past.collect();
        for view in 0..self.views.len() {
            // A snapshot is taken under the same lock under which every subscriber gets the last event.
            self.guests.push(Member::join(view, self.subscribe(view, false)?));
        }
        for guest in self.guests {
            let (view, replay) = guest.left().await?;
            all.push((view, replay, claim(Stay::ToEnd)));
        }
        for resident in self.residents {
            let (view, replay) = resident.left().await?;
            all.push((view, replay, claim(Stay::Throughout)));
        }
        Ok(all)
    }
}
