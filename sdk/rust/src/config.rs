//! The operator's configuration of the plugin.

use serde::de::DeserializeOwned;

use crate::error::JsonError;

/// The configuration, which is valid by the manifest's schema. Without a configuration it is an empty document.
pub fn get<T: DeserializeOwned>() -> Result<T, JsonError> {
    crate::json::read("the configuration", &crate::native::config::get())
}
