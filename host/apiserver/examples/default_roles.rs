//! Turns the roles and bindings of a new cluster into `src/controllers/default_roles.jsonl`, one object a line:
//!
//! ```text
//! kubectl get clusterroles,clusterrolebindings,roles,rolebindings --all-namespaces --output json |
//!     cargo run -p windlass-apiserver --example default_roles >host/apiserver/src/controllers/default_roles.jsonl
//! ```
//!
//! Aggregated roles are written without rules: the server aggregates them itself.

use std::error::Error;

use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let list: Value = serde_json::from_reader(std::io::stdin())?;
    for item in list["items"].as_array().into_iter().flatten() {
        let mut object = item.clone();
        let Some(metadata) = object["metadata"].as_object_mut() else { continue };
        metadata.retain(|key, _| matches!(key.as_str(), "annotations" | "labels" | "name" | "namespace"));
        if let Some(fields) = object.as_object_mut() {
            let aggregated = fields.contains_key("aggregationRule");
            fields.retain(|key, _| key != "apiVersion" && !(aggregated && key == "rules"));
        }
        println!("{object}");
    }
    Ok(())
}
