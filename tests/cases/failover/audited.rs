//! Reads from the API server's audit log which replica held a lease at which time, and which replica wrote without
//! holding it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use serde_json::Value;

/// A mutation that the server has answered.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    /// The time when the server received the head of the request.
    pub(crate) received: Timestamp,
    /// The time when the server had answered.
    answered: Timestamp,
    /// The process, by the name that the test gave it.
    pub(crate) replica: String,
    /// The plugin, or the host's role.
    pub(crate) by: String,
    pub(crate) resource: String,
    name: String,
    accepted: bool,
}

/// One replica's term with a lease.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) replica: String,
    /// The time when its first update of the lease was answered.
    pub(crate) began: Timestamp,
    /// The time when its last update was received.
    pub(crate) renewed: Timestamp,
}

/// Reads the finished mutations of hosts. Ignores a last line that is still being written.
pub(crate) fn writes(log: &Path) -> anyhow::Result<Vec<Write>> {
    let text = std::fs::read_to_string(log).with_context(|| format!("read {}", log.display()))?;
    let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let mut writes = Vec::new();
    for line in complete.lines() {
        let entry: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        writes.extend(write(&entry)?);
    }
    writes.sort_by_key(|write| write.received);
    Ok(writes)
}

fn write(entry: &Value) -> anyhow::Result<Option<Write>> {
    let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let reads = ["get", "list", "watch"].contains(&text("/verb"));
    let Some((by, replica)) = agent(text("/userAgent")) else { return Ok(None) };
    if reads || text("/stage") != "ResponseComplete" {
        return Ok(None);
    }
    Ok(Some(Write {
        received: text("/requestReceivedTimestamp").parse()?,
        answered: text("/stageTimestamp").parse()?,
        replica: replica.to_owned(),
        by: by.to_owned(),
        resource: text("/objectRef/resource").to_owned(),
        name: text("/objectRef/name").to_owned(),
        accepted: entry["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300),
    }))
}

/// Plugin and replica of `windlass/<version> (<plugin>@<digest>; <replica>)`; a role of the host may follow.
fn agent(agent: &str) -> Option<(&str, &str)> {
    let (_, rest) = agent.strip_prefix("windlass/")?.split_once(" (")?;
    let (by, replica) = rest.strip_suffix(')')?.split_once("; ")?;
    let replica = replica.split_once("; ").map_or(replica, |(replica, _)| replica);
    Some((by.split_once('@').map_or(by, |(plugin, _)| plugin), replica))
}

/// The holders of the lease `name`, in order. Only the holder changes a lease.
pub(crate) fn turns(writes: &[Write], name: &str) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for write in writes.iter().filter(|write| write.resource == "leases" && write.name == name && write.accepted) {
        match turns.last_mut().filter(|turn| turn.replica == write.replica) {
            Some(turn) => turn.renewed = write.received,
            None => turns.push(Turn { replica: write.replica.clone(), began: write.answered, renewed: write.received }),
        }
    }
    turns
}

/// The writes of `plugin` that reached the server when their sender no longer held the lease, because it had expired or
/// another replica held it.
pub(crate) fn out_of_turn<'a>(
    writes: &'a [Write],
    plugin: &str,
    turns: &[Turn],
    duration: Duration,
) -> BTreeMap<&'a str, Vec<&'a Write>> {
    let mut late = BTreeMap::<&str, Vec<&Write>>::new();
    for write in writes.iter().filter(|write| write.by == plugin && write.resource != "leases") {
        // A replica acts as the holder only after its first update of the lease is answered.
        let turn = turns.iter().rfind(|turn| turn.began <= write.received);
        let is_in_turn =
            turn.is_some_and(|turn| turn.replica == write.replica && write.received <= turn.renewed + duration);
        if !is_in_turn {
            late.entry(&write.replica).or_default().push(write);
        }
    }
    late
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("in range")
    }

    fn write(replica: &str, resource: &str, seconds: i64) -> Write {
        Write {
            received: at(seconds),
            answered: at(seconds),
            replica: replica.to_owned(),
            by: if resource == "leases" { "windlass" } else { "webapp" }.to_owned(),
            resource: resource.to_owned(),
            name: "a".to_owned(),
            accepted: true,
        }
    }

    #[test]
    fn a_user_agent_is_parsed_with_and_without_a_role() {
        assert_eq!(agent("windlass/0.1.0 (webapp@abc; host-1-7)"), Some(("webapp", "host-1-7")));
        assert_eq!(agent("windlass/0.1.0 (windlass@host; host-1-7; lease)"), Some(("windlass", "host-1-7")));
        assert_eq!(agent("kubectl/v1.36"), None);
    }

    #[test]
    fn writes_before_during_and_after_a_term_are_distinguished() {
        let writes = [
            write("early", "deployments", 0),
            write("one", "leases", 1),
            write("one", "deployments", 2),
            write("one", "leases", 3),
            // The last renewal was at 3, and the lease lasts for 4 seconds.
            write("one", "deployments", 7),
            write("one", "services", 8),
            write("two", "leases", 9),
            write("one", "pods", 10),
            write("two", "deployments", 10),
        ];
        let turns = turns(&writes, "a");
        assert_eq!(turns.iter().map(|turn| &*turn.replica).collect::<Vec<_>>(), ["one", "two"]);
        let late = out_of_turn(&writes, "webapp", &turns, Duration::from_secs(4));
        let late: Vec<_> = late.into_values().flatten().map(|write| (&*write.replica, &*write.resource)).collect();
        assert_eq!(late, [("early", "deployments"), ("one", "services"), ("one", "pods")]);
    }
}
