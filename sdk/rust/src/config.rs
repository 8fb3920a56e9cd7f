//! The operator's configuration of the plugin.

use serde::de::DeserializeOwned;

use crate::error::JsonError;
use crate::native::needs_host;

/// The configuration, which the manifest's schema accepts; an empty document if there is none.
pub fn get<T: DeserializeOwned>() -> Result<T, JsonError> {
    needs_host("config::get");
    let text = crate::bindings::windlass::plugin::config::get();
    serde_json::from_str(&text).map_err(|error| JsonError::new("the configuration", error))
}
