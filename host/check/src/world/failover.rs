//! A failover: two host processes share a lease. The process that holds the lease becomes unreachable. When the lease
//! has expired, the other process takes over, with filled caches.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use windlass_runtime::LeaseMode;

use super::process::Process;
use super::succession::Succession;
use super::swap::HotSwap;
use super::wire::ProcessEnd;
use crate::fault::Failover;

/// The delay after which the standby starts, so that the other process wins the lease.
const STANDBY_DELAY: Duration = Duration::from_secs(5);

/// Runs both processes until `stop`.
pub(super) async fn share_a_lease(
    process: Process,
    failover: Failover,
    swap: Option<HotSwap>,
    stop: CancellationToken,
) {
    let succession = Succession::new(process.record.clone(), failover);
    let first = process.wire(ProcessEnd::Silence(succession.clone()), swap.clone());
    let (silent, gone, own_stop) = (first.dead().clone(), first.gone().clone(), stop.child_token());
    let newest = process.newest(swap.as_ref());
    let ended = tokio::spawn(process.clone().run(first, newest, LeaseMode::Single, own_stop.clone()));
    let standby = async {
        if stop.run_until_cancelled(sleep(STANDBY_DELAY)).await.is_some() {
            let wire = process.wire(ProcessEnd::None, None).of_standby(succession);
            process.clone().run(wire, process.newest(None), LeaseMode::Single, stop.child_token()).await;
        }
    };
    let first = async {
        if stop.run_until_cancelled(silent.cancelled()).await.is_some() {
            own_stop.cancel();
        }
        let _ = ended.await;
        gone.cancel();
    };
    tokio::join!(first, standby);
}
