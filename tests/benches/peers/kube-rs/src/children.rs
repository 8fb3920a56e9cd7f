//! The desired children of a `WebApp`, and the comparison with the existing ones.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, PodSpec, PodTemplateSpec, Service, ServicePort, ServiceSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{Resource, ResourceExt};

use crate::api::WebApp;

fn selector(app: &WebApp) -> BTreeMap<String, String> {
    let of = |name: &str, value: String| (name.to_owned(), value);
    [of("app.kubernetes.io/name", "webapp".to_owned()), of("app.kubernetes.io/instance", app.name_any())].into()
}

/// Exactly the plugin's labels, so that a contender finds nothing to correct in the previous contender's objects.
fn labels(app: &WebApp) -> BTreeMap<String, String> {
    let mut labels = selector(app);
    labels.insert("app.kubernetes.io/managed-by".to_owned(), "windlass".to_owned());
    labels
}

fn metadata(app: &WebApp) -> ObjectMeta {
    ObjectMeta {
        name: Some(app.name_any()),
        namespace: app.namespace(),
        labels: Some(labels(app)),
        owner_references: app.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}

pub(crate) fn deployment(app: &WebApp) -> Deployment {
    let port = ContainerPort {
        name: Some("http".to_owned()),
        container_port: app.spec.port,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    };
    let container = Container {
        name: "web".to_owned(),
        image: Some(app.spec.image.clone()),
        ports: Some(vec![port]),
        ..Container::default()
    };
    let spec = DeploymentSpec {
        replicas: Some(app.spec.replicas),
        selector: LabelSelector { match_labels: Some(selector(app)), ..LabelSelector::default() },
        template: PodTemplateSpec {
            metadata: Some(ObjectMeta { labels: Some(labels(app)), ..ObjectMeta::default() }),
            spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
        },
        ..DeploymentSpec::default()
    };
    Deployment { metadata: metadata(app), spec: Some(spec), ..Deployment::default() }
}

pub(crate) fn service(app: &WebApp) -> Service {
    let port = ServicePort {
        name: Some("http".to_owned()),
        port: 80,
        target_port: Some(IntOrString::String("http".to_owned())),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    };
    let spec = ServiceSpec { selector: Some(selector(app)), ports: Some(vec![port]), ..ServiceSpec::default() };
    Service { metadata: metadata(app), spec: Some(spec), ..Service::default() }
}

/// Whether a child contains the wanted fields of its kind.
pub(crate) trait Child: Resource {
    fn holds(&self, wanted: &Self) -> bool;
}

impl Child for Deployment {
    fn holds(&self, wanted: &Self) -> bool {
        let parts = |deployment: &Self| {
            let spec = deployment.spec.as_ref()?;
            let container = spec.template.spec.as_ref()?.containers.first()?;
            Some((spec.replicas, container.image.clone(), container.ports.clone()))
        };
        parts(self) == parts(wanted)
    }
}

impl Child for Service {
    fn holds(&self, wanted: &Self) -> bool {
        let parts = |service: &Self| {
            let spec = service.spec.as_ref()?;
            let port = spec.ports.as_ref()?.first()?;
            Some((spec.selector.clone(), port.port, port.target_port.clone()))
        };
        parts(self) == parts(wanted)
    }
}

/// Whether a child has the wanted owner, labels and fields.
pub(crate) fn is_right<K: Child>(cached: &K, wanted: &K) -> bool {
    let labels = cached.labels();
    let controller =
        |child: &K| child.owner_references().iter().find(|it| it.controller == Some(true)).map(|it| it.uid.clone());
    controller(cached) == controller(wanted)
        && wanted.labels().iter().all(|(name, value)| labels.get(name) == Some(value))
        && cached.holds(wanted)
}
