//! Waits for the plugin's definitions and configuration, which a controller needs before it looks for its kinds.

use std::pin::pin;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Controller;
use crate::observe::status::ControllerState;

/// How long a controller may wait before its status shows that it waits.
const SHOWN_WAITING_AFTER: Duration = Duration::from_secs(5);

impl Controller {
    /// Waits for the plugin's definitions and configuration. `false` if the controller must stop.
    pub(super) async fn prepared(&self, stop: &CancellationToken) -> bool {
        let (mut ready, mut configured) = (self.ready.clone(), self.parts.configured.clone());
        let both = async {
            let definitions = "for its definitions to be granted and installed: the log says what is in the way";
            let configuration = "for a valid configuration: the log says what is wrong";
            self.shown(definitions, ready.wait_for(|ready| *ready)).await
                && self.shown(configuration, configured.wait_for(Option::is_some)).await
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => false,
            come = both => {
                if !come {
                    // The sender has ended without a value: this generation is about to be stopped too.
                    stop.cancelled().await;
                }
                come
            }
        }
    }

    /// Waits for `needed`. If that takes long, shows what the controller waits for, as an operator may have to act.
    /// `false` if `needed` will never come.
    pub(super) async fn shown<T, E>(&self, why: &str, needed: impl Future<Output = Result<T, E>>) -> bool {
        let mut needed = pin!(needed);
        if let Ok(come) = tokio::time::timeout(SHOWN_WAITING_AFTER, needed.as_mut()).await {
            return come.is_ok();
        }
        self.report_state(ControllerState::Waiting, Some(why.to_owned()));
        let come = needed.await.is_ok();
        if come {
            self.report_state(ControllerState::Starting, None);
        }
        come
    }
}
