//! The form of a plugin in a registry: an OCI manifest with one layer, the component, and a configuration.
//!
//! It follows the layout of WebAssembly artefacts (config `application/vnd.wasm.config.v0+json`), so other tools read
//! it. Those accept exactly one layer. So everything else that belongs to a plugin is in the configuration, in a field
//! that other tools ignore (ADR 47).

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::digest::ContentDigest;
use crate::error::OciError;
use crate::limits::RegistryLimits;

pub(crate) const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const CONFIG_TYPE: &str = "application/vnd.wasm.config.v0+json";
pub(crate) const LAYER_TYPE: &str = "application/wasm";
/// Indexes: of OCI, and of docker.
pub(crate) const INDEX_TYPES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];
/// The largest size of all documents of a plugin together, in bytes. Written as JSON, they may grow.
pub const PUBLISHED_DOCUMENTS_BYTES_MAX: usize = 4 << 20;
/// The number of values that a configuration may have. A value takes more memory than its text, so this bounds the
/// memory of a reader: text of 8 MiB, such as `[0,0,…]`, would take over 100 MiB. A plugin's manifest has some
/// hundreds.
const CONFIG_VALUES_MAX: usize = 1 << 16;
/// The first bytes of every WebAssembly file.
pub(crate) const WASM_MAGIC: &[u8] = b"\0asm";
const CREATED: &str = "1970-01-01T00:00:00Z";

/// The texts that people read about a plugin. A publisher writes them, so they prove nothing: a host asks the plugin
/// itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Documents {
    /// The plugin's manifest, as its `describe` answered.
    pub manifest: Value,
    /// A draft of its policy, in YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The definitions of its kinds, in YAML: its author's `crd.yaml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definitions: Option<String>,
    /// Its author's `README.md`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readme: Option<String>,
    /// A bill of materials, in JSON of SPDX or `CycloneDX`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sbom: Option<String>,
}

/// The names of a component's imports and exports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentNames {
    pub exports: Vec<String>,
    pub imports: Vec<String>,
}

/// The configuration.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WasmConfig {
    created: String,
    architecture: String,
    os: String,
    layer_digests: Vec<String>,
    #[serde(default)]
    component: Option<ComponentNames>,
    #[serde(rename = "dev.windlass.documents", default, skip_serializing_if = "Option::is_none")]
    documents: Option<Documents>,
}

/// The reference of a manifest to its contents.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    urls: Vec<String>,
}

/// The fields of a manifest that are read. Unknown fields are ignored, as the specification asks.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OciManifest {
    schema_version: u32,
    media_type: Option<String>,
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
    manifests: Option<IgnoredAny>,
}

/// A digest and a size in bytes, which contents must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatedContent {
    pub(crate) digest: ContentDigest,
    pub(crate) size: u64,
}

impl StatedContent {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { digest: ContentDigest::of(bytes), size: bytes.len() as u64 }
    }
}

/// The contents of a plugin's artefact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) component: StatedContent,
    pub(crate) config: StatedContent,
}

/// Reads a manifest, and refuses everything that is not a plugin's.
pub(crate) fn read_manifest(bytes: &[u8], limits: &RegistryLimits) -> Result<Contents, OciError> {
    let malformed = OciError::Malformed { what: "the manifest" };
    let Ok(OciManifest { schema_version: 2, media_type, config, layers, manifests }) = serde_json::from_slice(bytes)
    else {
        return Err(malformed);
    };
    let is_index = media_type.as_deref().is_some_and(|it| INDEX_TYPES.contains(&it));
    if is_index || manifests.is_some() {
        return Err(OciError::Index);
    }
    if media_type.is_some_and(|it| it != MANIFEST_TYPE) {
        return Err(OciError::MediaType { what: "the manifest", expected: MANIFEST_TYPE });
    }
    // An image with archives is the most likely mistake, so it has its own error.
    if layers.iter().any(|layer| is_archive(&layer.media_type)) {
        return Err(OciError::Archive);
    }
    let [layer] = layers.as_slice() else { return Err(OciError::Layers { count: layers.len() }) };
    let config = config.ok_or(malformed)?;
    let component = stated(layer, "the layer", LAYER_TYPE, limits.component_bytes)?;
    Ok(Contents { component, config: stated(&config, "the configuration", CONFIG_TYPE, limits.config_bytes)? })
}

fn is_archive(media_type: &str) -> bool {
    ["tar", "gzip", "zstd", "zip"].iter().any(|word| media_type.contains(word))
}

fn stated(it: &Descriptor, what: &'static str, expected: &'static str, most: u64) -> Result<StatedContent, OciError> {
    if it.media_type != expected {
        return Err(OciError::MediaType { what, expected });
    }
    if !it.urls.is_empty() {
        return Err(OciError::ForeignUrls);
    }
    if it.size > most {
        return Err(too_large(what, most));
    }
    let digest = ContentDigest::parse(&it.digest).ok_or(OciError::Algorithm { what })?;
    Ok(StatedContent { digest, size: it.size })
}

/// The error for contents of more than `most` bytes.
pub(crate) fn too_large(what: &'static str, most: u64) -> OciError {
    let advice = if what == "the layer" {
        "a host would not load such a plugin; its limit is `--limit file=…`"
    } else {
        "no plugin needs so much, so it was not read further"
    };
    OciError::TooLarge { what, most, advice }
}

/// Reads a configuration: the component's names, and the documents if it has some.
pub(crate) fn read_config(bytes: &[u8]) -> Result<(ComponentNames, Option<Documents>), OciError> {
    let malformed = OciError::Malformed { what: "the configuration" };
    if values(bytes) > CONFIG_VALUES_MAX {
        return Err(malformed);
    }
    let Ok(config) = serde_json::from_slice::<WasmConfig>(bytes) else { return Err(malformed) };
    Ok((config.component.unwrap_or_default(), config.documents))
}

/// The most values that a JSON text can have: it counts what stands before a value. Where the text is not JSON, a
/// parser stops, so what this counts behind that place does not matter.
fn values(json: &[u8]) -> usize {
    let (mut in_string, mut is_escaped, mut count) = (false, false, 1);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b':' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

/// The manifest and the configuration of a plugin, as bytes. Equal plugins have equal bytes, so the time is a constant.
pub(crate) fn written(component: &StatedContent, names: &ComponentNames, documents: &Documents) -> (Vec<u8>, Vec<u8>) {
    let config = WasmConfig {
        created: CREATED.to_owned(),
        architecture: "wasm".to_owned(),
        os: "wasip2".to_owned(),
        layer_digests: vec![component.digest.to_string()],
        component: Some(names.clone()),
        documents: Some(documents.clone()),
    };
    let config = json!(config).to_string().into_bytes();
    let text = |field: &str| documents.manifest[field].as_str().unwrap_or_default();
    let config_content = StatedContent::of(&config);
    let descriptor = |media_type: &str, content: &StatedContent| json!({"mediaType": media_type, "digest": content.digest.as_str(), "size": content.size});
    let mut layer = descriptor(LAYER_TYPE, component);
    layer["annotations"] = json!({"org.opencontainers.image.title": format!("{}.wasm", text("name"))});
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": descriptor(CONFIG_TYPE, &config_content),
        "layers": [layer],
        "annotations": {
            "org.opencontainers.image.title": text("name"),
            "org.opencontainers.image.version": text("version"),
        },
    });
    (manifest.to_string().into_bytes(), config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_reads_as_it_is_written_and_always_gets_the_same_bytes() {
        let component = StatedContent::of(b"\0asm and more");
        let names = ComponentNames { exports: vec!["a".to_owned()], imports: vec!["b".to_owned()] };
        let documents = Documents {
            manifest: json!({"name": "shop", "version": "1.0.0"}),
            readme: Some("# Shop\n".to_owned()),
            ..Documents::default()
        };
        let (manifest, config) = written(&component, &names, &documents);
        assert_eq!((manifest.clone(), config.clone()), written(&component, &names, &documents));
        let contents = read_manifest(&manifest, &RegistryLimits::default()).expect("it is valid");
        assert_eq!(contents, Contents { component, config: StatedContent::of(&config) });
        assert_eq!(read_config(&config).expect("it is valid"), (names, Some(documents)));
    }

    #[test]
    fn a_configuration_of_another_tool_has_no_documents() {
        let config = json!({
            "created": "2026-11-28T00:00:00Z", "author": null, "architecture": "wasm", "os": "wasip2",
            "layerDigests": [], "component": {"exports": [], "imports": ["x"], "target": null},
        });
        let (names, documents) = read_config(config.to_string().as_bytes()).expect("it is valid");
        assert_eq!((names.imports, documents), (vec!["x".to_owned()], None));
    }

    #[test]
    fn a_configuration_with_too_many_values_is_not_parsed() {
        let is_read = |names: usize| {
            let names = vec![r#""x""#; names].join(",");
            let text = format!(
                r#"{{"created": "a \\\" [,", "architecture": "wasm", "os": "wasip2", "layerDigests": [],
                    "component": {{"exports": [], "imports": [{names}]}}}}"#
            );
            read_config(text.as_bytes()).is_ok()
        };
        assert!(is_read(CONFIG_VALUES_MAX / 2));
        assert!(!is_read(CONFIG_VALUES_MAX));
    }

    #[test]
    fn punctuation_within_strings_is_no_value() {
        assert_eq!(values(br#"{"a": "[,{\",:\\", "b": [1, 2]}"#), 7);
        let documents = Documents { readme: Some("a, [b]: {c}\n".repeat(CONFIG_VALUES_MAX)), ..Documents::default() };
        let content = StatedContent::of(b"");
        let (_, config) = written(&content, &ComponentNames::default(), &documents);
        assert!(read_config(&config).is_ok());
    }
}
