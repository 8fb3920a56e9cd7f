//! Reads the types of kinds from an API server, for `windlass types`. The server is a cluster's, or the embedded one.
//! The embedded server publishes the schemas of definitions, after it has checked them, and those of built-in kinds.

use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

use http::Request;
use serde_json::{Value, json};
use windlass_kube::client::Connection;
use windlass_types::{Model, ReadError, Schemas, Wanted, read};

use crate::objects::{DEFINITIONS, message_of};

/// A kind with its group and version, such as `apps/v1/Deployment` or `v1/Pod`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindName {
    group: String,
    version: String,
    kind: String,
}

impl fmt::Display for KindName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, version, kind } = self;
        if group.is_empty() { write!(out, "{version}/{kind}") } else { write!(out, "{group}/{version}/{kind}") }
    }
}

/// The error for a text that is not a [`KindName`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a kind is written as GROUP/VERSION/KIND, such as apps/v1/Deployment, or as VERSION/KIND for the core group")]
pub struct KindNameError;

impl KindName {
    /// The version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }
}

impl FromStr for KindName {
    type Err = KindNameError;

    fn from_str(text: &str) -> Result<Self, KindNameError> {
        let parts: Vec<&str> = text.split('/').collect();
        let (group, version, kind) = match parts.as_slice() {
            [version, kind] => ("", *version, *kind),
            [group, version, kind] if !group.is_empty() => (*group, *version, *kind),
            _ => return Err(KindNameError),
        };
        let is_name = |text: &str| {
            text.starts_with(|first: char| first.is_ascii_alphanumeric())
                && text.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-".contains(letter))
        };
        if !is_name(version) || !is_name(kind) || !(group.is_empty() || is_name(group)) {
            return Err(KindNameError);
        }
        Ok(Self { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() })
    }
}

/// The reason why types cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TypesError {
    /// There is no definition to read.
    #[error("{file} has no CustomResourceDefinition")]
    NoDefinition { file: String },
    /// No definition serves the wanted version.
    #[error("{file} has no version {version} that is served: it has {}", versions.join(", "))]
    NoVersion { file: String, version: String, versions: Vec<String> },
    /// The API server refuses the definition.
    #[error("{file}: {name}: {message}")]
    Definition { file: String, name: String, message: String },
    /// The server publishes no document for the version.
    #[error("{server} does not serve {group_version}")]
    NotServed { server: String, group_version: String },
    /// The server did not answer with the document.
    #[error("{server} does not show the schemas of {group_version}: {message}")]
    NoDocument { server: String, group_version: String, message: String },
    /// The cluster has no definition of the kind.
    #[error("{place} has no CustomResourceDefinition of {kind}{}", because(message.as_deref()))]
    NotDefined { place: String, kind: KindName, message: Option<String> },
    /// The server publishes the version, but not the kind.
    #[error("{server} has {source}")]
    NoKind { server: String, source: ReadError },
}

/// The types of the definitions in `file`: of all versions that are served, or only of `version`. The stored version's
/// types have the name of the kind, and those of other versions also have the version in their names. `embedded` is an
/// embedded API server without other definitions.
pub async fn of_definitions(
    embedded: &Connection,
    file: &str,
    definitions: &[Value],
    version: Option<&str>,
) -> Result<Model, TypesError> {
    let file = file.to_owned();
    if definitions.is_empty() {
        return Err(TypesError::NoDefinition { file });
    }
    let (mut wanted, mut versions) = (Vec::new(), Vec::new());
    for definition in definitions {
        define(embedded, &file, definition).await?;
        for found in definition["spec"]["versions"].as_array().into_iter().flatten() {
            let name = found["name"].as_str().unwrap_or_default();
            if found["served"] != true {
                continue;
            }
            versions.push(name.to_owned());
            if version.is_none_or(|version| version == name) {
                wanted.push(wanted_version(definition, found, version.is_some()));
            }
        }
    }
    if let Some(version) = version.filter(|_| wanted.is_empty()) {
        versions.sort();
        versions.dedup();
        return Err(TypesError::NoVersion { file, version: version.to_owned(), versions });
    }
    model(embedded, &file, &file, &wanted).await
}

fn wanted_version(definition: &Value, version: &Value, is_only: bool) -> Wanted {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&definition["spec"]["names"]["kind"]), text(&version["name"]));
    let is_plain = is_only || version["storage"] == true;
    Wanted {
        group: text(&definition["spec"]["group"]),
        name: if is_plain { kind.clone() } else { format!("{kind}-{name}") },
        version: name,
        kind,
    }
}

/// The types of kinds that a server serves. `place` describes the server in the generated file and in errors.
pub async fn of_kinds(server: &Connection, place: &str, kinds: &[KindName]) -> Result<Model, TypesError> {
    let named: Vec<String> = kinds.iter().map(KindName::to_string).collect();
    let source = format!("{} of {place}", named.join(", "));
    let wanted: Vec<Wanted> = kinds
        .iter()
        .cloned()
        .map(|KindName { group, version, kind }| Wanted { group, version, name: kind.clone(), kind })
        .collect();
    model(server, place, &source, &wanted).await
}

/// The definition of a kind in a cluster, without the fields that the server adds.
pub async fn definition_of(cluster: &Connection, place: &str, kind: &KindName) -> Result<Value, TypesError> {
    let absent = |message| TypesError::NotDefined { place: place.to_owned(), kind: kind.clone(), message };
    let request = Request::get(DEFINITIONS).body(vec![]).map_err(|error| absent(Some(error.to_string())))?;
    let list: Result<Value, _> = cluster.client.request(request).await;
    let list = list.map_err(|error| absent(Some(message_of(&error))))?;
    let is_it = |spec: &Value| spec["group"] == *kind.group && spec["names"]["kind"] == *kind.kind;
    let found =
        list["items"].as_array().into_iter().flatten().find(|it| is_it(&it["spec"])).ok_or_else(|| absent(None))?;
    Ok(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": found["metadata"]["name"]}, "spec": found["spec"],
    }))
}

/// The message by which the server refuses to create the object, which has the resource `plural`. `None` if it accepts
/// the object.
pub async fn refusal(embedded: &Connection, plural: &str, object: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let namespace = match text(&object["metadata"]["namespace"]) {
        namespace if namespace.is_empty() => String::new(),
        namespace => format!("namespaces/{namespace}/"),
    };
    let path = format!("/apis/{}/{namespace}{plural}", text(&object["apiVersion"]));
    let request = Request::post(path).header("Content-Type", "application/json").body(object.to_string().into_bytes());
    let answer: Result<Value, _> = match request {
        Ok(request) => embedded.client.request(request).await,
        Err(error) => return Some(error.to_string()),
    };
    answer.err().map(|error| message_of(&error))
}

fn because(message: Option<&str>) -> String {
    message.map(|message| format!(": {message}")).unwrap_or_default()
}

async fn define(embedded: &Connection, file: &str, definition: &Value) -> Result<(), TypesError> {
    let refused = |message: String| TypesError::Definition {
        file: file.to_owned(),
        name: definition["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        message,
    };
    let request = Request::post(DEFINITIONS).header("Content-Type", "application/json");
    let request = request.body(definition.to_string().into_bytes()).map_err(|error| refused(error.to_string()))?;
    let answer: Result<Value, _> = embedded.client.request(request).await;
    answer.map(drop).map_err(|error| refused(message_of(&error)))
}

async fn model(connection: &Connection, server: &str, source: &str, wanted: &[Wanted]) -> Result<Model, TypesError> {
    let mut versions: Vec<String> = wanted.iter().map(group_version).collect();
    versions.sort();
    versions.dedup();
    let mut schemas = Schemas::default();
    for group_version in versions {
        let root = if group_version.contains('/') { "apis" } else { "api" };
        let (server, gv) = (server.to_owned(), group_version.clone());
        let failed =
            |message: String| TypesError::NoDocument { server: server.clone(), group_version: gv.clone(), message };
        let request = Request::get(format!("/openapi/v3/{root}/{group_version}")).body(vec![]);
        let request = request.map_err(|error| failed(error.to_string()))?;
        let document: Result<Value, _> = connection.client.request(request).await;
        schemas.add(&document.map_err(|error| match error {
            kube::Error::Api(status) if status.code == 404 => {
                TypesError::NotServed { server: server.clone(), group_version: gv.clone() }
            }
            error => failed(message_of(&error)),
        })?);
    }
    read(source, &schemas, wanted).map_err(|source| TypesError::NoKind { server: server.to_owned(), source })
}

/// Writes the types to a file. A failure leaves an existing file as it was. A link stays, and the file that it names is
/// replaced. A file that is not regular, such as `/dev/stdout`, cannot be replaced, so the text is written to it.
pub fn write(out: &Path, text: &str) -> io::Result<()> {
    match std::fs::metadata(out) {
        Ok(it) if it.is_file() => windlass_files::replace(&out.canonicalize()?, text.as_bytes()),
        Ok(_) => std::fs::write(out, text),
        Err(_) => windlass_files::replace(out, text.as_bytes()),
    }
}

fn group_version(wanted: &Wanted) -> String {
    let Wanted { group, version, .. } = wanted;
    if group.is_empty() { version.clone() } else { format!("{group}/{version}") }
}

#[cfg(test)]
mod tests {
    use http::Uri;
    use windlass_apiserver::{ApiServer, Config};

    use super::*;

    fn embedded() -> (ApiServer, Connection) {
        let server = ApiServer::in_process(&Config::default());
        let connection = Connection::in_process(server.service(), &Uri::from_static("http://embedded"));
        (server, connection)
    }

    fn definition(versions: &Value) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "shops.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"kind": "Shop", "plural": "shops"},
                "versions": versions,
            },
        })
    }

    fn version(name: &str, is_served: bool, is_stored: bool) -> Value {
        let spec = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
        json!({"name": name, "served": is_served, "storage": is_stored, "schema": schema})
    }

    fn names(model: &Model) -> Vec<&str> {
        let names = model.declarations.iter().map(|declaration| declaration.name.as_str());
        names.filter(|name| name.starts_with("Shop")).collect()
    }

    #[tokio::test]
    async fn the_types_of_other_versions_have_the_version_in_their_names() {
        let versions = json!([version("v1", true, false), version("v2", true, true), version("v3", false, false)]);
        let definitions = [definition(&versions)];
        for (wanted, expected) in [
            (None, vec!["ShopV1", "ShopV1Spec", "Shop", "ShopSpec"]),
            (Some("v1"), vec!["Shop", "ShopSpec"]),
            (Some("v2"), vec!["Shop", "ShopSpec"]),
        ] {
            let (_server, embedded) = embedded();
            let model = of_definitions(&embedded, "crd.yaml", &definitions, wanted).await.expect("it is served");
            assert_eq!(names(&model), expected);
        }
        let (_server, embedded) = embedded();
        let error = of_definitions(&embedded, "crd.yaml", &definitions, Some("v3")).await.expect_err("not served");
        assert_eq!(error.to_string(), "crd.yaml has no version v3 that is served: it has v1, v2");
    }

    #[tokio::test]
    async fn a_definition_that_a_server_refuses_is_an_error() {
        let (_server, embedded) = embedded();
        let mut wrong = version("v1", true, true);
        wrong["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({"properties": {"size": {"type": "integer"}}});
        let error = of_definitions(&embedded, "crd.yaml", &[definition(&json!([wrong]))], None).await;
        let error = error.expect_err("it has no type").to_string();
        assert!(
            error.starts_with("crd.yaml: shops.example.com: ") && error.contains("properties[spec].type"),
            "{error}"
        );
        let error = of_definitions(&embedded, "crd.yaml", &[], None).await.expect_err("there is none");
        assert_eq!(error.to_string(), "crd.yaml has no CustomResourceDefinition");
    }

    #[tokio::test]
    async fn built_in_kinds_come_from_the_server() {
        let (_server, embedded) = embedded();
        let parsed = |text: &str| text.parse::<KindName>().expect("a kind");
        let model = of_kinds(&embedded, "Kubernetes", &[parsed("apps/v1/Deployment"), parsed("v1/ConfigMap")]).await;
        let model = model.expect("both are built in");
        assert_eq!(model.source, "apps/v1/Deployment, v1/ConfigMap of Kubernetes");
        assert!(model.declaration("DeploymentSpec").is_some() && model.declaration("ConfigMap").is_some());
        let error = of_kinds(&embedded, "Kubernetes", &[parsed("apps/v1/Deploy")]).await.expect_err("no such kind");
        assert_eq!(error.to_string(), "Kubernetes has no schema for Deploy of apps/v1");
        let error = of_kinds(&embedded, "Kubernetes", &[parsed("apps/v9/Deployment")]).await.expect_err("no version");
        assert_eq!(error.to_string(), "Kubernetes does not serve apps/v9");
    }

    #[test]
    fn a_file_is_replaced_whole_and_a_link_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, link, old] = ["types.rs", "link.rs", "old.rs"].map(|name| folder.path().join(name));
        write(&file, "one").expect("a new file");
        std::fs::hard_link(&file, &old).expect("linked");
        std::os::unix::fs::symlink("types.rs", &link).expect("linked");
        write(&link, "two").expect("an existing file");
        let text = |path: &Path| std::fs::read_to_string(path).expect("a file");
        assert_eq!((text(&file).as_str(), link.is_symlink()), ("two", true));
        assert_eq!(text(&old), "one", "an interrupted write must not touch the old file");
        write(Path::new("/dev/null"), "three").expect("a device");
        assert!(write(&folder.path().join("no/types.rs"), "four").is_err());
    }

    #[test]
    fn a_kind_has_two_or_three_parts() {
        for wrong in ["", "Pod", "a/b/c/d", "/v1/Pod", "v1/", "v1/Pod?x", "../v1/Pod"] {
            assert_eq!(wrong.parse::<KindName>(), Err(KindNameError), "{wrong}");
        }
        let core = KindName { group: String::new(), version: "v1".into(), kind: "Pod".into() };
        assert_eq!("v1/Pod".parse::<KindName>(), Ok(core));
    }
}
