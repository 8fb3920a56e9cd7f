//! Checks that every key is alive. A lost key is never reconciled again, whatever happens to its primary.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures::StreamExt as _;
use futures::TryStreamExt as _;
use futures::stream;
use windlass_tests::objects::Objects;
use windlass_tests::wait::until_within;

use super::users::{KINDS, USED_REPLICAS_MAX, scale};
use super::watched::Watched;

/// The number of edits at once. With many more, an edit would wait for other edits rather than for its own reconcile.
const CONCURRENT_EDITS_MAX: usize = 8;

/// Edits every primary once. Returns how long each edit took to be reconciled, shortest first; an error names the
/// primaries whose edit was not reconciled within `limit`.
pub(crate) async fn each_follows(
    objects: &Objects,
    watched: &Watched,
    limit: Duration,
) -> anyhow::Result<Vec<Duration>> {
    watched.take();
    let mut primaries = Vec::new();
    for kind in KINDS {
        primaries.extend(objects.list(kind, "").await?.into_iter().map(|primary| (kind, primary)));
    }
    let all = primaries.len();
    let edits = primaries.into_iter().map(|(kind, primary)| async move {
        let name = primary["metadata"]["name"].as_str().context("a name")?;
        let replicas = primary["spec"]["replicas"].as_u64().context("replicas")?;
        let generation = scale(objects, watched, kind, name, replicas % USED_REPLICAS_MAX + 1).await?;
        let followed = until_within(limit, "it is reconciled", || async {
            if watched.has_observed(kind, name, generation) { Ok(()) } else { Err(generation) }
        });
        anyhow::Ok(followed.await.err().map(|_| format!("{kind} {name}")))
    });
    let dead: Vec<_> = stream::iter(edits).buffer_unordered(CONCURRENT_EDITS_MAX).try_collect().await?;
    let dead: Vec<_> = dead.into_iter().flatten().collect();
    ensure!(dead.is_empty(), "{} of {all} edits are not reconciled within {limit:?}: {dead:?}", dead.len());
    Ok(watched.take().0)
}
