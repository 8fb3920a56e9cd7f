//! The operator's configuration of the plugin.

use serde::de::DeserializeOwned;

use crate::error::JsonError;

/// The configuration, which the manifest's schema accepts. Without one, it is an empty document.
pub fn get<T: DeserializeOwned>() -> Result<T, JsonError> {
    let text = crate::native::config::get();
    serde_json::from_str(&text).map_err(|error| JsonError::new("the configuration", error))
}
