//! `windlass resume`: makes a plugin retry what the host has stopped or postponed.
//!
//! The host must know who asks for a change. The API server passes no tokens on to Pods, so the replica is queried at
//! its own address.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use windlass_core::deceptive;

use crate::cli::OutputFormat;
use crate::cli::view::text;
use crate::cli::watching::admin::{AdminArgs, AdminFailure, PluginHost, encoded};
use crate::cli::watching::pods::AskedPod;

/// Arguments of `windlass resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The plugin.
    #[arg(value_name = "PLUGIN")]
    plugin: String,
    #[command(flatten)]
    admin: AdminArgs,
    /// The output format.
    #[arg(long, short, value_enum, default_value = "text")]
    output: OutputFormat,
}

impl ResumeArgs {
    pub(crate) async fn run(self) -> Result<ExitCode, AdminFailure> {
        let host = match self.admin.host_of(&self.plugin).await? {
            PluginHost::Address(host) => host,
            PluginHost::Pod(pod) => return Err(AdminFailure::Unknown(anyhow::anyhow!(self.way_to(&pod)))),
        };
        let shown = host.post(&format!("/plugins/{}/resume", encoded(&self.plugin))).await?;
        match self.output {
            OutputFormat::Json => crate::cli::print_json(&shown)?,
            OutputFormat::Text => crate::cli::print(&lines(&self.plugin, &shown))?,
        }
        if shown["resumed"] == true {
            return Ok(ExitCode::SUCCESS);
        }
        let why = format!("nothing of {} was resumed: {}", self.plugin, text(&shown["why"]));
        eprintln!("windlass: {}", deceptive::escape(&why));
        Ok(ExitCode::FAILURE)
    }

    /// How to query the replica that runs the plugin.
    fn way_to(&self, pod: &AskedPod<'_>) -> String {
        let (plugin, name, namespace) = (&self.plugin, pod.name(), pod.namespace());
        format!(
            "the replica {name} runs {plugin}. A plugin is resumed at its replica's own address, because the API \
             server does not pass on your token: forward the port with `kubectl port-forward -n {namespace} \
             pod/{name} 8080:admin`, and add --admin-address \
             https://127.0.0.1:8080 --token-file FILE (or --admin-address 127.0.0.1:8080 for a host with --admin-auth none)"
        )
    }
}

/// A line for each part that was resumed.
fn lines(plugin: &str, shown: &Value) -> String {
    let did = shown["did"].as_array().into_iter().flatten();
    let resumed = did.map(|did| deceptive::escape_line(&format!("{plugin}: {}", text(did))).into_owned() + "\n");
    resumed.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_resumed_part_is_printed_on_a_line() {
        let shown = json!({"resumed": true, "did": ["controller a: its circuit was open", "controller b:\n2 keys"]});
        assert_eq!(lines("shop", &shown), "shop: controller a: its circuit was open\nshop: controller b:\\n2 keys\n");
        assert_eq!(lines("shop", &json!({"resumed": false, "did": [], "why": "it runs"})), "");
    }
}
