//! The objects in the files of `windlass rbac --object-file`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;
use tempfile::TempDir;
use windlass_objects::{CLUSTER_PLUGIN, CLUSTER_PLUGIN_POLICY, GrantRefusal, PluginObject, PolicyObject, judge};
use windlass_policy::rights::NamedByObjects;
use windlass_runtime::POLICY_SUFFIX;

/// The largest file of objects, in bytes.
const OBJECT_FILE_BYTES_MAX: u64 = 16 << 20;

/// The plugins and policies in such files, by name.
#[derive(Debug, Default)]
pub(crate) struct ObjectFiles {
    plugins: BTreeMap<String, PluginObject>,
    policies: BTreeMap<String, PolicyObject>,
}

impl ObjectFiles {
    /// Reads the files. Objects of other kinds may be there, too.
    pub(super) fn read(files: &[PathBuf]) -> anyhow::Result<Self> {
        let mut objects = Self::default();
        for file in files {
            let text = windlass_files::read_text(file, OBJECT_FILE_BYTES_MAX)
                .with_context(|| format!("cannot read {}", file.display()))?;
            let documents: Vec<Value> =
                serde_saphyr::from_multiple(&text).with_context(|| format!("{} is not YAML", file.display()))?;
            for document in &documents {
                if document["kind"] == CLUSTER_PLUGIN {
                    let read = PluginObject::read(document).map(|plugin| (plugin.name.clone(), plugin));
                    objects.plugins.extend(read);
                } else if document["kind"] == CLUSTER_PLUGIN_POLICY {
                    let read = PolicyObject::read(document).map(|policy| (policy.name.clone(), policy));
                    objects.policies.extend(read);
                }
            }
        }
        Ok(objects)
    }

    /// The objects in the namespace `host` that the plugins name.
    pub(super) fn named(&self, host: &str) -> NamedByObjects {
        let mut named = NamedByObjects { namespace: host.to_owned(), ..NamedByObjects::default() };
        for source in self.plugins.values().filter_map(PluginObject::source) {
            named.config_maps.extend(source.config_map.as_ref().map(|config_map| config_map.name.clone()));
            named.pull_secrets.extend(source.oci.as_ref().and_then(|oci| oci.pull_secret.clone()));
        }
        named
    }

    /// A directory with the policies of these plugins as files, and with the operator's policy files for other plugins.
    /// `None` if no plugin here has a policy here: then the operator's directory has them all.
    pub(super) fn policies(&self, operators: &Path) -> anyhow::Result<Option<TempDir>> {
        let mut granted = Vec::new();
        for (name, plugin) in &self.plugins {
            match judge(plugin, &self.policies).map(|judged| (judged.refusal, judged.text)) {
                Ok((None, text)) => granted.push((name, text)),
                Err(GrantRefusal::NoPolicy) => {}
                Ok((Some(refusal), _)) | Err(refusal) => bail!("the ClusterPlugin {name}: {}", refusal.message()),
            }
        }
        if granted.is_empty() {
            return Ok(None);
        }
        let merged = tempfile::tempdir().context("cannot make a temporary directory")?;
        let unreadable = || format!("cannot read the policies in {}", operators.display());
        for entry in std::fs::read_dir(operators).with_context(unreadable)? {
            let entry = entry.with_context(unreadable)?;
            if entry.file_name().to_string_lossy().ends_with(POLICY_SUFFIX) {
                std::fs::copy(entry.path(), merged.path().join(entry.file_name())).with_context(unreadable)?;
            }
        }
        for (name, text) in granted {
            let path = merged.path().join(format!("{name}{POLICY_SUFFIX}"));
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(Some(merged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ObjectFiles {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("objects.yaml");
        std::fs::write(&file, text).expect("written");
        ObjectFiles::read(&[file]).expect("it is YAML")
    }

    fn objects(repository: &str) -> ObjectFiles {
        read(&format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: other}}\n---\n\
             apiVersion: windlass.dev/v1alpha1\nkind: ClusterPlugin\nmetadata: {{name: shop}}\n\
             spec: {{source: {{oci: {{image: \"r.example/shop:1\", pullSecret: login}}}}}}\n---\n\
             apiVersion: windlass.dev/v1alpha1\nkind: ClusterPluginPolicy\nmetadata: {{name: shop}}\n\
             spec: {{plugin: shop, source: {{repository: {repository}}}, rules: []}}\n"
        ))
    }

    #[test]
    fn policies_of_objects_stand_beside_the_operators_files() {
        let operators = tempfile::tempdir().expect("a directory");
        std::fs::write(operators.path().join("api.policy.yaml"), "the operator's").expect("written");
        std::fs::write(operators.path().join("shop.policy.yaml"), "does not count").expect("written");
        let objects = objects("r.example/shop");
        assert_eq!(objects.named("ops").pull_secrets, ["login".to_owned()].into());
        let merged = objects.policies(operators.path()).expect("readable").expect("there is a policy");
        let text = |file: &str| std::fs::read_to_string(merged.path().join(file)).expect("it is there");
        assert_eq!(text("api.policy.yaml"), "the operator's");
        assert!(text("shop.policy.yaml").contains(r#""plugin":"shop""#));
    }

    #[test]
    fn a_policy_for_another_repository_is_an_error() {
        let error = objects("r.example/other").policies(Path::new(".")).expect_err("it grants nothing");
        assert!(error.to_string().contains("r.example/other"), "{error}");
    }

    #[test]
    fn plugins_without_policies_leave_the_operators_directory() {
        assert!(read("kind: ClusterPlugin\nmetadata: {name: a}\n").policies(Path::new(".")).is_err());
        let plugin = "kind: ClusterPlugin\nmetadata: {name: a}\nspec: {source: {configMap: {name: files}}}\n";
        assert!(read(plugin).policies(Path::new(".")).expect("no mistake").is_none());
    }
}
