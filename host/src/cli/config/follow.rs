//! Follows the configuration file while the host runs. The level of the log follows it; the rest needs a restart, and the log
//! says so.

use clap::CommandFactory as _;
use windlass_core::error::explained;
use windlass_runtime::FollowedFile;

use super::HostConfig;
use super::file::{HostConfigFile, MOST_BYTES};
use super::keys::{ConfigKey, LOG_LEVEL};
use crate::cli::Cli;
use crate::cli::log::LogControl;

/// The difference that a new file makes to a host that runs.
#[derive(Debug, PartialEq, Eq)]
struct ConfigNews {
    /// The level of the log is another than a moment ago.
    has_other_level: bool,
    /// The keys that have other values than the host was started with.
    restart: Vec<String>,
}

impl HostConfig {
    /// Follows the file, for ever.
    pub(in crate::cli) async fn follow(self, log: LogControl) {
        let mut changes = FollowedFile::follow(&self.file.path, MOST_BYTES);
        let (mut now, mut restart, mut is_right) = (self.file.clone(), Vec::new(), true);
        loop {
            changes.changed().await;
            let file = self.file.path.display();
            match HostConfigFile::read(&self.file.path, &Cli::command(), &self.keys) {
                Err(error) => {
                    is_right = false;
                    tracing::warn!(%error, "the configuration file cannot be used: what was read before stays in force");
                }
                Ok(next) => {
                    if !is_right {
                        tracing::info!(%file, "the configuration file is right again");
                    }
                    is_right = true;
                    let news = self.news(&now, &next);
                    now = next;
                    if news.has_other_level {
                        set(&log, self.level(&now));
                    }
                    if news.restart != restart {
                        restart = news.restart;
                        tell(&file.to_string(), &restart);
                    }
                }
            }
        }
    }

    /// The difference that `next` makes, after the file was as it is `now`. What flags and the environment set does not change.
    fn news(&self, now: &HostConfigFile, next: &HostConfigFile) -> ConfigNews {
        let is_same = |key: &ConfigKey, one: &HostConfigFile, other: &HostConfigFile| {
            let (one, other) = (one.values(key), other.values(key));
            one.iter().map(|it| &it.value).eq(other.iter().map(|it| &it.value))
        };
        let followed: Vec<_> = self.keys.iter().filter(|key| !self.overridden.contains(key.id())).collect();
        let is_level = |key: &ConfigKey| key.id() == LOG_LEVEL;
        let rest = followed.iter().filter(|key| !is_level(key) && !is_same(key, &self.file, next));
        ConfigNews {
            has_other_level: followed.iter().any(|key| is_level(key) && !is_same(key, now, next)),
            restart: rest.map(|key| key.name.clone()).collect(),
        }
    }

    /// The level of the log in `file`. None: it says nothing of it.
    fn level<'a>(&self, file: &'a HostConfigFile) -> Option<&'a str> {
        let key = self.keys.iter().find(|key| key.id() == LOG_LEVEL)?;
        file.values(key).first().map(|level| level.value.as_str())
    }
}

fn set(log: &LogControl, level: Option<&str>) {
    match log.set(level) {
        Ok(filter) => tracing::info!(filter, "the configuration file has changed the level of the log"),
        Err(error) => tracing::error!(error = explained(&*error), "the log's level cannot be set: it stays as it is"),
    }
}

fn tell(file: &str, restart: &[String]) {
    let keys = restart.join(", ");
    if restart.is_empty() {
        tracing::info!(file, "the configuration file is again as it was when this host started");
    } else {
        tracing::warn!(file, keys, "the configuration file has changed: a restart brings these keys into force");
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};

    use super::*;

    #[test]
    fn a_new_file_says_what_changes_now_and_what_with_a_restart() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("windlass.yaml");
        let write = |text: &str| {
            let text = format!("apiVersion: windlass.dev/v1alpha1\nkind: HostConfiguration\n{text}");
            std::fs::write(&path, text).expect("it can be written");
        };
        write("plugins: p\nlogLevel: info\ncacheLimit: 1Gi\n");
        let words = ["windlass", "run", "-n", "a", "--config"].map(OsStr::new);
        let line: Vec<_> = words.into_iter().chain([path.as_os_str()]).map(OsString::from).collect();
        let config = HostConfig::of(&Cli::command(), &line).expect("right").expect("there");
        let mut now = config.file.clone();
        for (text, has_other_level, level, restart) in [
            ("plugins: p\ncacheLimit: 1Gi\nlogLevel: info\n", false, Some("info"), &[][..]),
            ("plugins: p\nlogLevel: debug\ncacheLimit: 1Gi\n", true, Some("debug"), &[]),
            ("plugins: p\nlogLevel: debug\ncacheLimit: 2Gi\nnamespace: b\n", false, Some("debug"), &["cacheLimit"]),
            ("plugins: p\nlimits: {memory: 1Mi}\n", true, None, &["cacheLimit", "limits"]),
            ("plugins: p\nlogLevel: info\ncacheLimit: 1Gi\n", true, Some("info"), &[]),
        ] {
            write(text);
            let next = HostConfigFile::read(&path, &Cli::command(), &config.keys).expect("right");
            let restart = restart.iter().map(|key| (*key).to_owned()).collect();
            assert_eq!(config.news(&now, &next), ConfigNews { has_other_level, restart }, "{text}");
            assert_eq!(config.level(&next), level, "{text}");
            now = next;
        }
    }
}
