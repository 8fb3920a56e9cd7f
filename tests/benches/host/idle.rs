//! The cost of idle plugins: a thousand different plugins that share a watch, and the time until all are ready if each
//! is already compiled.

use std::path::Path;
use std::time::{Duration, Instant};

use windlass_tests::hostile;
use windlass_tests::process::{Memory, mebibytes};
use windlass_tests::server::{Kind, Server};

use crate::support::process::Watched;

/// The time for which the processor time of an idle host is watched. It is longer than the interval in which the host
/// checks its directories.
const IDLE_WATCH_TIME: Duration = Duration::from_secs(20);

pub(crate) async fn measure(count: usize) -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let (none, one, all) = (tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?);
    write(1, one.path())?;
    write(count, all.path())?;
    // The first host compiles the plugins. A separate cache would give the same figures, but would take more time.
    let began = Instant::now();
    let (host, _) = Watched::with_controllers(&server, all.path(), count, &[]).await?;
    println!(
        "{count} plugins are ready, compiled where the cache did not have them: {:.1} s",
        began.elapsed().as_secs_f64()
    );
    host.end().await?;

    let host = Watched::start(&server, none.path(), &[]).await?;
    let empty = host.memory().await?;
    host.end().await?;
    let (host, _) = Watched::with_controllers(&server, one.path(), 1, &[]).await?;
    let single = host.memory().await?;
    host.end().await?;
    let (host, ready) = Watched::with_controllers(&server, all.path(), count, &[]).await?;
    let full = host.memory().await?;
    println!("{count} plugins are ready, from the cache: {:.2} s", ready.as_secs_f64());
    let each = |of: fn(&Memory) -> u64| {
        let of = |memory: &Memory| of(memory) as f64 / 1024.0;
        (of(&full) - of(&empty)) / count as f64
    };
    let (all_of_it, anonymous) = (each(|it| it.proportional), each(|it| it.anonymous));
    println!("memory a plugin, idle: {all_of_it:.0} KiB, {anonymous:.0} of it anonymous");
    println!(
        "  the host with none: {:.1} MiB, with one {:.1}, with all {:.1}",
        mebibytes(empty.proportional),
        mebibytes(single.proportional),
        mebibytes(full.proportional)
    );
    let used = host.process()?.cpu_over(IDLE_WATCH_TIME).await?.as_secs_f64() / IDLE_WATCH_TIME.as_secs_f64();
    println!("processor time while idle: {:.1} ms a second", used * 1e3);
    host.end().await
}

/// Writes plugins with different bytes.
fn write(count: usize, directory: &Path) -> anyhow::Result<()> {
    (0..count).try_for_each(|number| hostile::write(&format!("idle-{number}"), directory))
}
