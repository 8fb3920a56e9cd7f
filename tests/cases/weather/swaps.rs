//! Swaps to versions with other watches, while keys are held.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use futures::StreamExt as _;
use futures::stream;
use windlass_tests::wait::until_within;

use super::users::{USED_REPLICAS_MAX, scale};
use super::{CONCURRENT_URGENT_CHANGES, Scene, form, lag, versions};

/// The maximum number of users that hurry when a version is swapped, and how long they hurry. If no key is held by
/// then, they hurry again, in this many rounds in all.
const HASTY_USERS_MAX: usize = 40;
const HELD_WAIT: Duration = Duration::from_secs(5);
const HASTY_ROUNDS_MAX: usize = 3;

/// How long a swap waits until all plugins run on some replica and all writes are over. In the weather, this may never
/// happen.
const WEATHER_WAIT: Duration = Duration::from_secs(2);
const CALM_WAIT: Duration = Duration::from_mins(1);

impl Scene {
    /// Swaps each plugin once more after the weather, while watches lag. Only a swap in calm weather shows whether keys
    /// are lost: in bad weather, the next fault may bring lost keys back. After a lost lease, for example, all keys are
    /// queued again.
    ///
    /// If the lease of a plugin moves during its swap, the plugin gets another version, because the replica that was
    /// started last may still win leases.
    pub(super) async fn swap_in_calm(&mut self) -> anyhow::Result<()> {
        let mut to_swap = BTreeSet::from(versions::PLUGINS);
        for _ in 0..form::SWAPS_IN_CALM {
            let plugin = self.fleet.swapped_next()?;
            let held = self.swap(lag::CHILDREN, CALM_WAIT).await?;
            self.lag.end();
            if held > 0 {
                println!("figures: {:?}: {plugin} was swapped while {held} keys were held", self.server.kind);
                to_swap.remove(plugin);
            }
            if to_swap.is_empty() {
                break;
            }
        }
        ensure!(to_swap.is_empty(), "no version of {to_swap:?} took over while keys were held: this shows nothing");
        let took = self.converges("after swaps in calm", self.form.patience).await?;
        println!("figures: {:?}: converged {:.1} s after swaps in calm", self.server.kind, took.as_secs_f64());
        Ok(())
    }

    /// Swaps the next plugin in the weather.
    pub(super) async fn swap_in_weather(&mut self) -> anyhow::Result<()> {
        let lagging = self.lag.by_turns();
        self.swap(lagging, WEATHER_WAIT).await?;
        Ok(())
    }

    /// Swaps the next plugin while watches lag and users change some primaries twice, so that their keys are held.
    /// Returns the number of held keys, if the new version has taken over.
    async fn swap(&mut self, lagging: &[&str], at_work_wait: Duration) -> anyhow::Result<usize> {
        let mut held = 0;
        for _ in 0..HASTY_ROUNDS_MAX {
            // While watches lag, a controller that starts cannot prove that its caches are fresh, so it makes no calls.
            self.lag.end();
            let at_work = until_within(at_work_wait, "all plugins run", || self.fleet.is_at_work()).await;
            self.lag.begin(lagging, &self.form.lag, &self.way);
            held = self.held_in_haste().await?;
            if held > 0 || at_work.is_err() {
                break;
            }
        }
        self.fleet.swap(held).await
    }

    /// Users change some primaries of the next plugin until half of their keys are held, but no longer than
    /// [`HELD_WAIT`]. Returns the number of held keys.
    async fn held_in_haste(&self) -> anyhow::Result<usize> {
        let plugin = self.fleet.swapped_next()?;
        let kind = versions::kind(plugin);
        let some = self.known.lock().await.of_kind(kind).into_iter().take(HASTY_USERS_MAX);
        let some: Vec<_> = some.map(|(_, name)| name).collect();
        let (objects, changes) = (self.server.objects(), AtomicU64::new(0));
        let held = until_within(HELD_WAIT, "keys are held", || async {
            let replicas = changes.fetch_add(1, Ordering::Relaxed) % USED_REPLICAS_MAX + 1;
            let edits = some.iter().map(|name| scale(objects, &self.watched, kind, name, replicas));
            // Ignore errors: some of the primaries may have been deleted meanwhile.
            stream::iter(edits).buffer_unordered(CONCURRENT_URGENT_CHANGES).collect::<Vec<_>>().await;
            let held = self.fleet.held(plugin).await?;
            ensure!(held * 2 >= some.len(), "only {held} are");
            anyhow::Ok(held)
        });
        match held.await {
            Ok(held) => Ok(held),
            Err(_) => self.fleet.held(plugin).await,
        }
    }
}
