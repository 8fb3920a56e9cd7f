//! The objects in the files of `windlass rbac --object-file`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;
use windlass_objects::{
    CLUSTER_PLUGIN, CLUSTER_PLUGIN_POLICY, GrantRefusal, OBJECTS_API_VERSION, PluginObject, PolicyObject, judge,
};
use windlass_policy::rights::NamedByObjects;
use windlass_runtime::{CONFIG_SUFFIX, POLICY_SUFFIX};

/// The largest file of objects, in bytes.
const OBJECT_FILE_BYTES_MAX: u64 = 16 << 20;

/// The plugins and policies in such files, by name.
#[derive(Debug, Default)]
pub(crate) struct ObjectFiles {
    plugins: BTreeMap<String, PluginObject>,
    policies: BTreeMap<String, PolicyObject>,
}

impl ObjectFiles {
    /// Reads the files, as far as they are about the plugins of the installation `instance`. They may have objects of
    /// other kinds, too.
    pub(super) fn read(files: &[PathBuf], instance: Option<&str>) -> anyhow::Result<Self> {
        let mut objects = Self::default();
        for file in files {
            let text = windlass_files::read_text(file, OBJECT_FILE_BYTES_MAX)
                .with_context(|| format!("cannot read {}", file.display()))?;
            let documents: Vec<Value> =
                serde_saphyr::from_multiple(&text).with_context(|| format!("{} is not YAML", file.display()))?;
            // `kubectl get -o yaml` prints several objects as a List.
            let items = |document: &Value| document["items"].as_array().cloned();
            let all = documents.into_iter().flat_map(|document| items(&document).unwrap_or_else(|| vec![document]));
            let mut count = 0;
            for object in all {
                count += usize::from(objects.add(&object).with_context(|| format!("in {}", file.display()))?);
            }
            ensure!(
                count > 0,
                "{} has neither a {CLUSTER_PLUGIN} nor a {CLUSTER_PLUGIN_POLICY}: is it the right file?",
                file.display()
            );
        }
        for name in objects.policies.keys().filter(|name| !objects.plugins.contains_key(*name)) {
            eprintln!(
                "windlass: the {CLUSTER_PLUGIN_POLICY} {name} has no {CLUSTER_PLUGIN} in these files, and is left out"
            );
        }
        objects.plugins.retain(|_, plugin| plugin.instance.as_deref() == instance);
        Ok(objects)
    }

    /// Adds an object. False if it is of another kind.
    fn add(&mut self, object: &Value) -> anyhow::Result<bool> {
        let kind = object["kind"].as_str().filter(|kind| [CLUSTER_PLUGIN, CLUSTER_PLUGIN_POLICY].contains(kind));
        let Some(kind) = kind else { return Ok(false) };
        let version = object["apiVersion"].as_str().unwrap_or_default();
        ensure!(
            version == OBJECTS_API_VERSION,
            "a {kind} has the apiVersion {version:?}, but hosts read {OBJECTS_API_VERSION}"
        );
        let former = if kind == CLUSTER_PLUGIN {
            let plugin = PluginObject::read(object).with_context(|| format!("a {kind} has no name"))?;
            self.plugins.insert(plugin.name.clone(), plugin).map(|former| former.name)
        } else {
            let policy = PolicyObject::read(object).with_context(|| format!("a {kind} has no name or no spec"))?;
            self.policies.insert(policy.name.clone(), policy).map(|former| former.name)
        };
        match former {
            Some(name) => bail!("the {kind} {name} is there twice: remove one of them"),
            None => Ok(true),
        }
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

    /// A directory with the policies and configurations of these plugins as files, beside the operator's files in
    /// `policies` and `configs` for other plugins. `None` if no plugin here has a policy here: then the operator's
    /// directories have everything.
    pub(super) fn as_files(&self, policies: &Path, configs: &Path) -> anyhow::Result<Option<TempDir>> {
        let mut files = Vec::new();
        for (name, plugin) in &self.plugins {
            match judge(plugin, &self.policies).map(|judged| (judged.refusal, judged.text)) {
                Ok((None, text)) => files.push((format!("{name}{POLICY_SUFFIX}"), text)),
                Err(GrantRefusal::NoPolicy) => continue,
                Ok((Some(refusal), _)) | Err(refusal) => bail!("the ClusterPlugin {name}: {}", refusal.message()),
            }
            files.extend(plugin.config_file().map(|text| (format!("{name}{CONFIG_SUFFIX}"), text)));
        }
        if files.is_empty() {
            return Ok(None);
        }
        let merged = tempfile::tempdir().context("cannot make a temporary directory")?;
        for (directory, suffix) in [(policies, POLICY_SUFFIX), (configs, CONFIG_SUFFIX)] {
            self.copy(directory, suffix, merged.path())
                .with_context(|| format!("cannot read {}", directory.display()))?;
        }
        for (file, text) in files {
            let path = merged.path().join(file);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(Some(merged))
    }

    /// Copies the files with `suffix` of other plugins.
    fn copy(&self, from: &Path, suffix: &str, to: &Path) -> std::io::Result<()> {
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            let file = entry.file_name();
            let plugin = file.to_str().and_then(|file| file.strip_suffix(suffix));
            if plugin.is_some_and(|plugin| !self.plugins.contains_key(plugin)) {
                std::fs::copy(entry.path(), to.join(&file))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> anyhow::Result<ObjectFiles> {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("objects.yaml");
        std::fs::write(&file, text).expect("written");
        ObjectFiles::read(&[file], None)
    }

    fn objects(repository: &str) -> ObjectFiles {
        read(&format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: other}}\n---\n\
             apiVersion: windlass.dev/v1alpha1\nkind: ClusterPlugin\nmetadata: {{name: shop}}\n\
             spec: {{source: {{oci: {{image: \"r.example/shop:1\", pullSecret: login}}}}, config: {{size: 3}}}}\n---\n\
             apiVersion: windlass.dev/v1alpha1\nkind: ClusterPluginPolicy\nmetadata: {{name: shop}}\n\
             spec: {{plugin: shop, source: {{repository: {repository}}}, rules: []}}\n"
        ))
        .expect("no mistake")
    }

    #[test]
    fn files_of_objects_stand_beside_the_operators() {
        let operators = tempfile::tempdir().expect("a directory");
        for file in ["api.policy.yaml", "api.config.yaml", "shop.policy.yaml", "shop.config.yaml", "api.wasm"] {
            std::fs::write(operators.path().join(file), "the operator's").expect("written");
        }
        let objects = objects("r.example/shop");
        assert_eq!(objects.named("ops").pull_secrets, ["login".to_owned()].into());
        let merged =
            objects.as_files(operators.path(), operators.path()).expect("readable").expect("there is a policy");
        let text = |file: &str| std::fs::read_to_string(merged.path().join(file)).ok();
        for file in ["api.policy.yaml", "api.config.yaml"] {
            assert_eq!(text(file).as_deref(), Some("the operator's"), "{file}");
        }
        assert!(text("shop.policy.yaml").is_some_and(|text| text.contains(r#""plugin":"shop""#)));
        assert!(text("shop.config.yaml").is_some_and(|text| text.contains(r#""size":3"#)));
        assert_eq!(text("api.wasm"), None);
    }

    #[test]
    fn a_policy_for_another_repository_is_an_error() {
        let error = objects("r.example/other").as_files(Path::new("."), Path::new(".")).expect_err("it grants nothing");
        assert!(error.to_string().contains("r.example/other"), "{error}");
    }

    const PLUGIN: &str = "apiVersion: windlass.dev/v1alpha1\nkind: ClusterPlugin\nmetadata: {name: a}\n";

    #[test]
    fn plugins_without_policies_leave_the_operators_directories() {
        let files = |spec: &str| {
            let objects = read(&format!("{PLUGIN}{spec}")).expect("no mistake");
            objects.as_files(Path::new("."), Path::new("."))
        };
        assert!(files("").is_err());
        assert!(files("spec: {source: {configMap: {name: files}}}\n").expect("no mistake").is_none());
    }

    #[test]
    fn a_list_is_read_and_a_file_about_something_else_is_an_error() {
        let item = PLUGIN.replace('\n', "\n  ");
        let list = format!("apiVersion: v1\nkind: List\nitems:\n- {item}\n");
        assert_eq!(read(&list).expect("a list").plugins.len(), 1);
        let twice = format!("{PLUGIN}---\n{PLUGIN}");
        let other = PLUGIN.replace("v1alpha1", "v9");
        for (text, part) in [("kind: ConfigMap\n", "right file"), (&twice, "twice"), (&other, "v9")] {
            let error = read(text).expect_err("a mistake");
            assert!(format!("{error:#}").contains(part), "{error:#}");
        }
    }

    #[test]
    fn plugins_of_other_installations_are_left_out() {
        let blue = format!("{PLUGIN}spec: {{instance: blue, source: {{configMap: {{name: files}}}}}}\n");
        assert!(read(&blue).expect("no mistake").named("ops").config_maps.is_empty());
    }
}
