//! Follows the configuration file while the host runs. The log level is applied at once; other changes need a restart,
//! which is logged.

use clap::{CommandFactory as _, FromArgMatches as _};
use tracing::Level;
use windlass_core::error::explained;
use windlass_runtime::files::Files;

use super::HostConfig;
use super::file::{HOST_CONFIG_BYTES_MAX, HostConfigFile};
use super::keys::{ConfigKey, KeyForm, LOG_LEVEL};
use crate::cli::flags::log::LogControl;
use crate::cli::{Cli, Command};

/// The effect of a changed file on a running host.
#[derive(Debug, Default, PartialEq, Eq)]
struct ConfigNews {
    /// True if the log level has just changed.
    has_other_level: bool,
    /// The keys that have just changed, but that flags or the environment override.
    overridden: Vec<String>,
    /// The keys whose values differ from those at the start of the host.
    restart: Vec<String>,
}

impl HostConfig {
    /// Follows the file, for ever.
    pub(in crate::cli) async fn follow(self, log: LogControl) {
        let mut changes = Files::follow_one(&self.file.path, HOST_CONFIG_BYTES_MAX);
        let (mut now, mut restart, mut is_right) = (self.file.clone(), Vec::new(), true);
        loop {
            changes.changes().await;
            let file = self.file.path.display();
            match self.read_again() {
                Err(error) => {
                    is_right = false;
                    tracing::warn!(error, "the configuration file cannot be used: the previous settings stay in force");
                }
                Ok(next) => {
                    if !is_right {
                        tracing::info!(%file, "the configuration file is valid again");
                    }
                    is_right = true;
                    let news = self.news(&now, &next);
                    now = next;
                    if news.has_other_level {
                        set(&log, self.level(&now));
                    }
                    if !news.overridden.is_empty() {
                        let keys = news.overridden.join(", ");
                        tracing::warn!(
                            %file, keys,
                            "keys of the configuration file have changed: they have no effect, as a flag or the environment overrides them"
                        );
                    }
                    if news.restart != restart {
                        restart = news.restart;
                        report_restart(&file.to_string(), &restart);
                    }
                }
            }
        }
    }

    /// Reads the current file. The error says why a host would not start with it.
    fn read_again(&self) -> Result<HostConfigFile, String> {
        let command = Cli::command();
        let next = Self::of(&command, &self.words).map_err(|error| error.to_string())?;
        let next = next.ok_or_else(|| "the command line no longer names it".to_owned())?;
        let matches = command.try_get_matches_from(next.completed()).map_err(|error| summary(&error))?;
        let cli = Cli::from_arg_matches(&matches).map_err(|error| summary(&error))?;
        if let Command::Run(args) = cli.command {
            args.check().map_err(|error| explained(&*error))?;
        }
        Ok(next.file)
    }

    /// The effect of replacing the file `now` by `next`. Flags and the environment do not change.
    fn news(&self, now: &HostConfigFile, next: &HostConfigFile) -> ConfigNews {
        let values = |key: &ConfigKey, file| {
            let left = self.overriding.left(key, file).into_iter();
            let mut values: Vec<_> = left.map(|it| it.value.clone()).collect();
            if key.form == KeyForm::Map {
                values.sort();
            }
            values
        };
        let written = |key: &ConfigKey, file: &HostConfigFile| -> Vec<String> {
            file.values(key).iter().map(|it| it.value.clone()).collect()
        };
        let mut news = ConfigNews::default();
        for key in &self.keys {
            if key.form != KeyForm::Map && self.overriding.has(key) {
                if written(key, now) != written(key, next) {
                    news.overridden.push(key.name.clone());
                }
            } else if key.id() == LOG_LEVEL {
                news.has_other_level = values(key, now) != values(key, next);
            } else if values(key, &self.file) != values(key, next) {
                news.restart.push(key.name.clone());
            }
        }
        news
    }

    /// The log level in `file`. `None` if it has none.
    fn level<'a>(&self, file: &'a HostConfigFile) -> Option<&'a str> {
        let key = self.keys.iter().find(|key| key.id() == LOG_LEVEL)?;
        file.values(key).first().map(|level| level.value.as_str())
    }
}

/// The first paragraph of clap's message, in one line.
fn summary(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    first.trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn set(log: &LogControl, level: Option<&str>) {
    const CHANGED: &str = "the configuration file has changed the level of the log";
    // Log the change before or after it, because either the old or the new level may hide the line.
    let is_logged = tracing::enabled!(Level::INFO);
    if is_logged {
        tracing::info!(filter = log.filter(level), "{CHANGED}");
    }
    match log.set(level) {
        Ok(filter) if !is_logged => tracing::info!(filter, "{CHANGED}"),
        Ok(_) => {}
        Err(error) => tracing::error!(error = explained(&*error), "the log's level cannot be set: it stays as it is"),
    }
}

fn report_restart(file: &str, restart: &[String]) {
    let keys = restart.join(", ");
    if restart.is_empty() {
        tracing::info!(file, "the configuration file is again as it was when this host started");
    } else {
        tracing::warn!(file, keys, "the configuration file has changed: these keys take effect after a restart");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::run::config::tests::{read, write, written};

    #[test]
    fn a_new_file_shows_which_changes_apply_now_and_which_after_a_restart() {
        let (_directory, path) = written("plugins: p\nlogLevel: info\ncacheLimit: 1Gi\n");
        let config = read(&path, &["-n", "a", "--limit", "cpu=1s"]);
        let mut now = config.file.clone();
        for (text, has_other_level, level, overridden, restart) in [
            ("plugins: p\ncacheLimit: 1Gi\nlogLevel: info\n", false, Some("info"), &[][..], &[][..]),
            ("plugins: p\nlogLevel: debug\ncacheLimit: 1Gi\n", true, Some("debug"), &[], &[]),
            (
                "plugins: p\nlogLevel: debug\ncacheLimit: 2Gi\nnamespace: b\n",
                false,
                Some("debug"),
                &["namespace"],
                &["cacheLimit"],
            ),
            ("plugins: p\nlimits: {memory: 1Mi}\n", true, None, &["namespace"], &["cacheLimit", "limits"]),
            ("plugins: p\nlimits: {cpu: 2s}\ncacheLimit: 1Gi\n", false, None, &[], &[]),
            ("plugins: p\nlogLevel: info\ncacheLimit: 1Gi\n", true, Some("info"), &[], &[]),
        ] {
            write(&path, text);
            let next = config.read_again().expect("right");
            let owned = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
            let news = ConfigNews { has_other_level, overridden: owned(overridden), restart: owned(restart) };
            assert_eq!(config.news(&now, &next), news, "{text}");
            assert_eq!(config.level(&next), level, "{text}");
            now = next;
        }
    }

    #[test]
    fn an_invalid_new_file_is_not_applied() {
        let (_directory, path) = written("plugins: p\n");
        let config = read(&path, &[]);
        for (text, expected) in [
            ("recordSample: 0.5\n", "required arguments were not provided: --record <DIR>"),
            ("leaseDuration: 5s\n", "lease"),
            ("adminAddress: 0.0.0.0:8080\n", "--admin-auth"),
            ("limits: {cpu: 2}\n", ":4:15: `limits.cpu`"),
        ] {
            write(&path, &format!("plugins: p\n{text}"));
            let error = config.read_again().expect_err("no host would start with it");
            assert!(error.contains(expected) && !error.contains('\n'), "{text}: {error}");
        }
        write(&path, "plugins: p\nlimits: {memory: 1Mi, cpu: 2s}\n");
        let one = config.read_again().expect("right");
        write(&path, "plugins: p\nlimits: {cpu: 2s, memory: 1Mi}\n");
        assert_eq!(config.news(&one, &config.read_again().expect("right")).restart, ["limits"], "it began without");
    }

    #[test]
    fn the_order_of_a_map_is_no_change() {
        let (_directory, path) = written("plugins: p\nlimits: {memory: 1Mi, cpu: 2s}\n");
        let config = read(&path, &[]);
        write(&path, "limits: {cpu: 2s, memory: 1Mi}\nplugins: p\n");
        assert_eq!(config.news(&config.file, &config.read_again().expect("right")), ConfigNews::default());
    }
}
