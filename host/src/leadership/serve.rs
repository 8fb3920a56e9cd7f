//! Runs one plugin, from one tenure to the next: definitions and controllers begin when its lease is won and end before it is
//! let go of. In between, it stands by.

use std::sync::Arc;

use futures::future::join_all;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_core::fence::Fenced;
use windlass_wasm::Plugin;

use super::{Seat, Tenure};
use crate::config::Configured;
use crate::controller::Controller;
use crate::install::Ready;
use crate::manager::Host;
use crate::phases::Phases;
use crate::running::End;

/// One plugin and what it takes to run it.
pub(crate) struct Serving {
    pub(crate) host: Arc<Host>,
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) controllers: Vec<Controller>,
    pub(crate) configured: Configured,
    pub(crate) seat: Seat,
    /// Begins to install the plugin's definitions, under a fence and until a token is cancelled.
    /// How the host stops.
    pub(crate) phases: Phases,
    pub(crate) install: fn(&Arc<Host>, &Plugin, Fenced, &CancellationToken) -> Option<Ready>,
}

impl Serving {
    /// Runs the plugin whenever it is its turn, until the host stops.
    pub(crate) async fn run(self) -> End {
        let stop = &self.phases.stop;
        loop {
            let Some(tenure) = stop.run_until_cancelled(self.stand_by()).await else { return End::Clean };
            let end = self.serve(&tenure).await;
            let is_over = tenure.ends.is_cancelled();
            drop(tenure);
            if stop.is_cancelled() || !is_over {
                return end;
            }
        }
    }

    /// Waits for a tenure, with its caches filled if that is wanted.
    async fn stand_by(&self) -> Tenure {
        let warm = async {
            if self.host.leadership.is_warm_standby() {
                join_all(self.controllers.iter().map(Controller::keep_warm)).await;
            }
            std::future::pending().await
        };
        let shown = async {
            if self.seat.lease.is_some() {
                self.show().await;
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            tenure = self.seat.tenure() => tenure,
            tenure = warm => tenure,
            tenure = shown => tenure,
        }
    }

    /// Says of each controller whom it waits for, as that changes.
    async fn show(&self) {
        let mut standing = self.seat.standing.clone();
        loop {
            let holder = standing.borrow_and_update().holder.clone();
            for controller in &self.controllers {
                controller.stands_by(holder.as_deref());
            }
            if standing.changed().await.is_err() {
                return;
            }
        }
    }

    async fn serve(&self, tenure: &Tenure) -> End {
        let ready = (self.install)(&self.host, &self.plugin, tenure.fence.clone(), &tenure.ends);
        // They are no definitions, which was told of when the plugin was loaded.
        let Some(ready) = ready else { return End::Impossible };
        let phases = self.phases.of_tenure(tenure.ends.clone());
        let mut running = JoinSet::new();
        for controller in &self.controllers {
            let controller = controller.under(tenure).after(ready.clone(), self.configured.clone());
            let phases = phases.clone();
            running.spawn(async move { controller.run(&phases).await });
        }
        let ends = tokio::select! {
            ends = running.join_all() => ends,
            never = phases.hand_over(&tenure.lost) => match never {},
        };
        if ends.contains(&End::Cut) {
            End::Cut
        } else if !ends.is_empty() && ends.iter().all(|end| *end == End::Impossible) {
            End::Impossible
        } else {
            End::Clean
        }
    }
}
