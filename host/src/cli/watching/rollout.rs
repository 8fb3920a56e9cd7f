//! `windlass rollout`: compares a plugin's next version with the current one, and promotes or aborts it.
//!
//! The results of the comparison come from the host's admin address or its Pods. The host is not asked to change
//! anything: a version is promoted by its file, by a user who may write to the plugin directory.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::Value;
use windlass_core::error::explained;
use windlass_runtime::{RolledOut, abort, promote};

use crate::cli::OutputFormat;
use crate::cli::watching::admin::{AdminArgs, AdminFailure};

/// The exit code if a question cannot be answered.
const UNKNOWN: u8 = 2;

/// Compare the next version of a plugin with the current one, and promote it or give it up.
///
/// Put a version beside the current one, as NAME.next.wasm: a host calls it as a shadow, on the same objects after the
/// current one. Its writes are never sent, but compared with the writes of the current version.
#[derive(Debug, Args)]
pub(crate) struct RolloutArgs {
    #[command(subcommand)]
    command: RolloutCommand,
}

#[derive(Debug, Subcommand)]
enum RolloutCommand {
    /// Show how far the next version of a plugin agrees with the current one.
    #[command(after_help = "Examples:\n  windlass rollout status shop -n windlass\n  \
        windlass rollout status shop --admin-address 127.0.0.1:8080 -o json")]
    Status(CompareArgs),
    /// Show the objects for which the next version would act differently, and how.
    ///
    /// A difference is shown as the current version's value, then the next one's. Exit codes: 0, nothing differs; 1,
    /// something does; 2, no call was compared, or the host does not answer.
    #[command(after_help = "Example:\n  windlass rollout diff shop --admin-address 127.0.0.1:8080")]
    Diff(CompareArgs),
    /// Make the next version the current one: rename NAME.next.wasm to NAME.wasm, or copy NAME.wasm to
    /// NAME.current.wasm.
    ///
    /// The latter applies if the plugin's policy says `rollout: shadow`. A host that follows the directory swaps the
    /// version in and puts it on probation, like every new version.
    #[command(
        after_help = "Example:\n  windlass rollout promote shop --plugins /etc/windlass/plugins --digest 605a0172cb36"
    )]
    Promote(PromoteArgs),
    /// Abort the next version: delete NAME.next.wasm, or replace NAME.wasm by NAME.current.wasm.
    #[command(after_help = "Example:\n  windlass rollout abort shop --plugins /etc/windlass/plugins")]
    Abort(DirectoryArgs),
}

#[derive(Debug, Args)]
struct CompareArgs {
    /// The plugin.
    #[arg(value_name = "NAME", value_parser = crate::cli::namespace)]
    plugin: String,
    #[command(flatten)]
    admin: AdminArgs,
    /// The output format.
    #[arg(long, short, value_enum, default_value = "text")]
    output: OutputFormat,
}

#[derive(Debug, Args)]
struct DirectoryArgs {
    /// The plugin.
    #[arg(value_name = "NAME", value_parser = crate::cli::namespace)]
    plugin: String,
    /// The directory of plugins that the host follows.
    #[arg(long, value_name = "DIR", env = "WINDLASS_PLUGINS")]
    plugins: PathBuf,
}

#[derive(Debug, Args)]
struct PromoteArgs {
    #[command(flatten)]
    place: DirectoryArgs,
    /// Promote only the version with this digest or digest prefix, as shown by `status`.
    #[arg(long, value_name = "SHA256", value_parser = digest)]
    digest: Option<String>,
}

/// A digest prefix of at least the length that `status` shows.
fn digest(text: &str) -> Result<String, String> {
    const DIGEST_DIGITS_MIN: usize = 12;
    let is_hexadecimal = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let fits = (DIGEST_DIGITS_MIN..=64).contains(&text.len()) && is_hexadecimal;
    fits.then(|| text.to_owned())
        .ok_or_else(|| format!("a digest begins with {DIGEST_DIGITS_MIN} hexadecimal digits, in lower case"))
}

impl RolloutArgs {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            RolloutCommand::Status(args) => args.status().await,
            RolloutCommand::Diff(args) => args.diff().await,
            RolloutCommand::Promote(PromoteArgs { place: DirectoryArgs { plugin, plugins }, digest }) => {
                crate::cli::print(&outcome(&promote(&plugins, &plugin, digest.as_deref())?))?;
                Ok(ExitCode::SUCCESS)
            }
            RolloutCommand::Abort(DirectoryArgs { plugin, plugins }) => {
                crate::cli::print(&outcome(&abort(&plugins, &plugin)?))?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// Describes in a line where both files are now.
fn outcome(done: &RolledOut) -> String {
    let [next, current] =
        [&done.next, &done.current].map(|path| path.file_name().unwrap_or_default().to_string_lossy());
    let kept = done.next.exists();
    match &done.promoted {
        Some(digest) if kept => format!("{next} is the current version now, and {current} the same; digest {digest}\n"),
        Some(digest) => format!("{next} is {current} now, digest {digest}\n"),
        None if kept => format!("{next} is the same as {current} again; {current} keeps running\n"),
        None => format!("{next} is deleted; {current} keeps running\n"),
    }
}

impl CompareArgs {
    async fn status(self) -> anyhow::Result<ExitCode> {
        let plugin = self.look().await?;
        match self.output {
            OutputFormat::Json => crate::cli::print_json(&plugin["next"])?,
            OutputFormat::Text => crate::cli::print(&status(&plugin))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn diff(self) -> anyhow::Result<ExitCode> {
        let plugin = match self.look().await {
            Ok(plugin) if plugin["next"]["state"] == "shadowing" => plugin,
            Ok(plugin) => {
                crate::cli::print(&status(&plugin))?;
                return Ok(ExitCode::from(UNKNOWN));
            }
            Err(error) => {
                eprintln!("windlass: {}", explained(&*error));
                return Ok(ExitCode::from(UNKNOWN));
            }
        };
        let next = &plugin["next"];
        match self.output {
            OutputFormat::Json => crate::cli::print_json(&next["differing"])?,
            OutputFormat::Text => crate::cli::print(&diff(next))?,
        }
        let calls = &next["calls"];
        Ok(match (next["keys"]["differing"].as_u64(), calls["agreeing"].as_u64()) {
            (Some(0), Some(0)) => {
                eprintln!("windlass: no call has been compared yet");
                ExitCode::from(UNKNOWN)
            }
            (Some(0), _) => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        })
    }

    /// The plugin, as the host shows it.
    async fn look(&self) -> anyhow::Result<Value> {
        let shown = self.admin.plugins(Some(&self.plugin)).await.map_err(AdminFailure::into_error)?;
        shown.plugins.into_iter().next().context("the host shows no plugin")
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("unknown")
}

fn short(digest: &Value) -> &str {
    let digest = text(digest);
    digest.get(..12).unwrap_or(digest)
}

/// The text of `rollout status`.
fn status(plugin: &Value) -> String {
    let next = &plugin["next"];
    let version = |of: &Value| format!("{} ({})", text(&of["version"]), short(&of["digest"]));
    let mut lines = vec![format!("{}  current  {}", text(&plugin["name"]), version(plugin))];
    if next.is_null() {
        lines.push(
            "no next version: put NAME.next.wasm beside NAME.wasm, or see `rollout: shadow` of policies".to_owned(),
        );
        return lines.join("\n") + "\n";
    }
    lines.push(format!("  next      {}, {}", version(next), text(&next["state"])));
    if let Some(reason) = next["reason"].as_str() {
        lines.push(format!("  because   {reason}"));
    }
    if next["state"] == "shadowing" {
        let (calls, keys) = (&next["calls"], &next["keys"]);
        lines.push(format!("  keys      {} agree, {} differ", keys["agreeing"], keys["differing"]));
        let row = format!("{} agreeing in a row, for {} s", calls["agreeingInARow"], calls["agreeingForSeconds"]);
        lines.push(format!("  calls     {} agreed, {} differed; {row}", calls["agreeing"], calls["differing"]));
        if calls["notCompared"] != 0 {
            let because = text(&calls["notComparedBecause"]);
            lines.push(format!("            {} not compared, the last because {because}", calls["notCompared"]));
        }
        let after = &next["promoteAfter"];
        lines.push(if after.is_null() {
            "  promotion by hand".to_owned()
        } else {
            format!("  promotion after {} agreeing calls in a row, and {} s", after["calls"], after["seconds"])
        });
        if let Some(problem) = next["promotionProblem"].as_str() {
            lines.push(format!("            it is due, and not promoted: {problem}"));
        }
        if plugin["lease"]["heldHere"] == false {
            let holder = text(&plugin["lease"]["holder"]);
            lines.push(format!("  the replica that has the lease makes and compares the calls: {holder}"));
        }
    }
    lines.join("\n") + "\n"
}

/// The text of `rollout diff`.
fn diff(next: &Value) -> String {
    let mut lines = Vec::new();
    for key in next["differing"].as_array().into_iter().flatten() {
        lines.push(format!("{} {}", text(&key["controller"]), text(&key["key"])));
        for found in key["differences"].as_array().into_iter().flatten() {
            lines.push(format!("  {}: {}", text(&found["about"]), text(&found["difference"])));
        }
    }
    let (shown, all) = (next["differing"].as_array().map_or(0, Vec::len) as u64, next["keys"]["differing"].as_u64());
    if let Some(more) = all.and_then(|all| all.checked_sub(shown)).filter(|more| *more > 0) {
        lines.push(format!("and {more} more keys"));
    }
    if lines.is_empty() {
        lines.push(format!("no differences in {} keys", next["keys"]["agreeing"]));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown() -> Value {
        let found = json!([{"about": "Deployment prod/shop", "difference": "spec.replicas: 2 → 3"}]);
        json!({
            "name": "shop", "version": "0.1.0", "digest": "605a0172cb36aaaa", "lease": null,
            "next": {
                "digest": "11507a0e2f5e69d5", "version": "0.2.0", "state": "shadowing", "reason": null,
                "calls": {
                    "agreeing": 40, "differing": 2, "notCompared": 1, "notComparedBecause": "it was busy",
                    "agreeingInARow": 7, "agreeingForSeconds": 61,
                },
                "keys": {"agreeing": 4, "differing": 3},
                "differing": [{"controller": "shops", "key": "prod/shop", "differences": found}],
                "promoteAfter": {"calls": 100, "seconds": 600},
                "promotionProblem": null,
            },
        })
    }

    #[test]
    fn the_status_says_how_far_both_versions_agree() {
        let expected = "\
            shop  current  0.1.0 (605a0172cb36)\n  \
              next      0.2.0 (11507a0e2f5e), shadowing\n  \
              keys      4 agree, 3 differ\n  \
              calls     40 agreed, 2 differed; 7 agreeing in a row, for 61 s\n            \
                        1 not compared, the last because it was busy\n  \
              promotion after 100 agreeing calls in a row, and 600 s\n";
        assert_eq!(status(&shown()), expected);
        let mut alone = shown();
        alone["next"] = Value::Null;
        assert!(status(&alone).contains("no next version"));
        let waits =
            json!({"digest": "11507a0e2f5e69d5", "version": null, "state": "waiting", "reason": "it is the same"});
        alone["next"] = waits;
        assert!(status(&alone).contains("unknown (11507a0e2f5e), waiting\n  because   it is the same"));
    }

    #[test]
    fn differences_are_printed_by_key_and_object() {
        let expected = "shops prod/shop\n  Deployment prod/shop: spec.replicas: 2 → 3\nand 2 more keys\n";
        assert_eq!(diff(&shown()["next"]), expected);
        let agreed = json!({"keys": {"agreeing": 5, "differing": 0}, "differing": []});
        assert_eq!(diff(&agreed), "no differences in 5 keys\n");
    }
}
