//! Observes a process from outside, through /proc.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

/// A process counts as idle if it uses less CPU time than this in a second.
pub const CPU_AT_REST_MAX: Duration = Duration::from_millis(30);
/// The time between two looks.
const REST_LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// A process, by its ID.
#[derive(Clone, Copy, Debug)]
pub struct Process(pub u32);

/// The CPU use of a process since it started.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// The CPU time of all threads, including threads that have ended.
    pub cpu: Duration,
    /// The context switches of the current threads.
    pub switches: u64,
}

/// The memory of a process, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// The proportional share: memory that several processes map is divided among them.
    pub proportional: u64,
    /// The anonymous part of it.
    pub anonymous: u64,
    /// The largest resident size so far.
    pub peak: u64,
}

impl Process {
    /// Its CPU use so far.
    pub fn usage(self) -> anyhow::Result<Usage> {
        Ok(Usage { cpu: self.cpu()?, switches: self.switches()? })
    }

    /// Waits until the process was idle for a second, and returns when that second began.
    ///
    /// # Errors
    ///
    /// If the process has ended, or is not idle within `patience`.
    pub async fn at_rest(self, patience: Duration) -> anyhow::Result<Instant> {
        let began = Instant::now();
        let (mut since, mut used) = (began, self.cpu()?);
        loop {
            tokio::time::sleep(REST_LOOK_INTERVAL).await;
            let now = self.cpu()?;
            if now.saturating_sub(used) >= CPU_AT_REST_MAX {
                (since, used) = (Instant::now(), now);
            } else if since.elapsed() > Duration::from_secs(1) {
                return Ok(since);
            }
            ensure!(began.elapsed() < patience, "the process was never idle for a second");
        }
    }

    /// Whether the process has child processes, such as the ones in which a host compiles.
    pub fn has_children(self) -> anyhow::Result<bool> {
        for entry in std::fs::read_dir("/proc")? {
            // Skip a process that has ended meanwhile, and what is no process.
            let Ok(stat) = std::fs::read_to_string(entry?.path().join("stat")) else { continue };
            let parent = stat.rsplit_once(')').and_then(|(_, after)| after.split_whitespace().nth(1));
            if parent.is_some_and(|parent| parent.parse() == Ok(self.0)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Measures the CPU time that the process uses within the next `time`.
    pub async fn cpu_over(self, time: Duration) -> anyhow::Result<Duration> {
        let before = self.cpu()?;
        tokio::time::sleep(time).await;
        Ok(self.cpu()?.saturating_sub(before))
    }

    /// The CPU time of all threads. The system counts it in ticks.
    pub fn cpu(self) -> anyhow::Result<Duration> {
        const TICKS_PER_SECOND: f64 = 100.0;
        let stat = self.read("stat")?;
        // The name in parentheses may contain anything, so parse after it. The twelfth and thirteenth fields are then
        // the user time and the system time.
        let (_, after) = stat.rsplit_once(')').context("a process has a name")?;
        let mut times = after.split_whitespace().skip(11).map(str::parse::<u32>);
        let mut next = || times.next().context("a process has CPU times")?.context("a CPU time is a number");
        Ok(Duration::from_secs_f64(f64::from(next()? + next()?) / TICKS_PER_SECOND))
    }

    fn switches(self) -> anyhow::Result<u64> {
        let mut sum = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.0))? {
            // Skip a thread that has ended meanwhile.
            let Ok(status) = std::fs::read_to_string(task?.path().join("status")) else { continue };
            sum += value(&status, "voluntary_ctxt_switches:")? + value(&status, "nonvoluntary_ctxt_switches:")?;
        }
        Ok(sum)
    }

    /// Its memory now.
    pub fn memory(self) -> anyhow::Result<Memory> {
        let (rollup, status) = (self.read("smaps_rollup")?, self.read("status")?);
        let bytes = |text: &str, name: &str| Ok::<_, anyhow::Error>(value(text, name)? << 10);
        Ok(Memory {
            proportional: bytes(&rollup, "Pss:")?,
            anonymous: bytes(&rollup, "Pss_Anon:")?,
            peak: bytes(&status, "VmHWM:")?,
        })
    }

    fn read(self, name: &str) -> anyhow::Result<String> {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.0))
            .with_context(|| format!("read {name} of {}", self.0))
    }
}

/// Converts bytes to MiB, the unit of the tables.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "figures for people")]
pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Finds the number after a name at the beginning of a line.
fn value(text: &str, name: &str) -> anyhow::Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("{name} in {text}"))?;
    line.trim().trim_end_matches(" kB").parse().with_context(|| format!("{name} is a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_children_while_they_run() -> anyhow::Result<()> {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn()?;
        let (here, there) = (Process(std::process::id()), Process(child.id()));
        let (parent, grandchildren) = (here.has_children()?, there.has_children()?);
        // Without its input, `cat` ends.
        drop(child.stdin.take());
        child.wait()?;
        assert!(parent && !grandchildren);
        Ok(())
    }
}
