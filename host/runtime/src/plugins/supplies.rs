//! Resources that plugins get when they start and nothing else in the host uses.

use std::sync::Arc;

use windlass_core::budget::fair::Fair;
use windlass_kube::client::Connection;
use windlass_kube::{Definitions, Discovery, LiveReader, Secrets};

use super::config::ConfigFiles;
use crate::object_names::ObjectNames;
use crate::settings::Settings;

/// The supplies of all plugins.
pub(crate) struct Supplies {
    /// Shares out the permits for calls.
    pub(super) fair: Fair,
    /// Reads from the API server itself. Each plugin gets its own budget.
    pub(super) live: LiveReader,
    pub(super) definitions: Definitions,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) configs: ConfigFiles,
    /// The memory limit of all caches of one plugin, in bytes.
    pub(super) plugin_cache: usize,
}

impl Supplies {
    /// The supplies of a host with these settings.
    pub(crate) fn new(
        connection: &Connection,
        discovery: &Discovery,
        settings: &Settings,
        fair: Fair,
        names: ObjectNames,
    ) -> Arc<Self> {
        let client = || connection.client.clone();
        // Without a separate directory, configurations are beside the plugins.
        let configs = settings.config_dir.as_deref().unwrap_or(&settings.plugins);
        Arc::new(Self {
            fair,
            live: LiveReader::new(client(), discovery.clone(), settings.live),
            definitions: Definitions::new(client(), discovery.clone()),
            secrets: Arc::new(Secrets::new(client())),
            configs: ConfigFiles::of(configs, names),
            plugin_cache: settings.plugin_cache,
        })
    }
}
