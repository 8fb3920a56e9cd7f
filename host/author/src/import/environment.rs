//! Takes the environment of the project's Deployment, which the plugin's main.go sets, because plugins have none.

use std::collections::BTreeSet;

use serde_json::Value;

use super::folder::{FolderError, ProjectFolder};

/// The folder with the Deployment of the program.
const MANAGER_FOLDER: &str = "config/manager/";

/// The environment that the project gives to its program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Environment {
    /// Names with plain values, in order.
    pub values: Vec<(String, String)>,
    /// Names whose values are from elsewhere, such as a Secret or a field of the Pod.
    pub from_elsewhere: Vec<String>,
}

impl Environment {
    pub(super) fn read(folder: &ProjectFolder) -> Result<Self, FolderError> {
        let mut found = Self::default();
        for path in folder.yaml(MANAGER_FOLDER) {
            for object in folder.documents(&path)?.iter().filter(|object| object["kind"] == "Deployment") {
                let containers = object["spec"]["template"]["spec"]["containers"].as_array();
                for variable in containers.into_iter().flatten().filter_map(|it| it["env"].as_array()).flatten() {
                    found.take(variable);
                }
            }
        }
        Ok(found)
    }

    /// All names that the code in a plugin may look up: the variables of the project's Deployment, and `others`.
    pub(super) fn names<'a>(&'a self, others: impl Iterator<Item = &'a str>) -> Vec<String> {
        let of_deployment =
            self.values.iter().map(|(name, _)| &**name).chain(self.from_elsewhere.iter().map(|it| &**it));
        let names: BTreeSet<&str> = of_deployment.chain(others).filter(|name| is_name(name)).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    fn take(&mut self, variable: &Value) {
        let Some(name) = variable["name"].as_str().filter(|name| is_name(name)) else { return };
        // Several containers and files may have the same variable.
        if self.values.iter().any(|(other, _)| other == name) || self.from_elsewhere.iter().any(|other| other == name) {
            return;
        }
        match (&variable["value"], &variable["valueFrom"]) {
            (Value::String(value), _) => self.values.push((name.to_owned(), value.clone())),
            (_, Value::Null) => self.values.push((name.to_owned(), String::new())),
            _ => self.from_elsewhere.push(name.to_owned()),
        }
    }
}

/// Whether Go can set a variable of this name.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_values_are_taken_once_and_others_named() {
        let mut found = Environment::default();
        for variable in [
            json!({"name": "IMAGE", "value": "a:1"}),
            json!({"name": "IMAGE", "value": "b:1"}),
            json!({"name": "EMPTY"}),
            json!({"name": "PASSWORD", "valueFrom": {"secretKeyRef": {}}}),
            json!({"name": "A=B", "value": "x"}),
            json!({"value": "x"}),
            json!("x"),
        ] {
            found.take(&variable);
        }
        let values = [("IMAGE".to_owned(), "a:1".to_owned()), ("EMPTY".to_owned(), String::new())];
        let names = found.names(["IMAGE", "MORE", ""].into_iter());
        assert_eq!(names, ["EMPTY", "IMAGE", "MORE", "PASSWORD"]);
        assert_eq!((&*found.values, &*found.from_elsewhere), (&values[..], &["PASSWORD".to_owned()][..]));
    }
}
