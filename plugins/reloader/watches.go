package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"windlass.dev/sdk"
	"windlass.dev/sdk/cache"
	"windlass.dev/sdk/manifest"
)

// deployment is the kind of workload that can be paused.
const deployment = "Deployment"

// workloads are the names of the controllers, and the kinds that they reconcile.
var workloads = map[string]windlass.Kind{
	"daemonsets":   {APIVersion: "apps/v1", Kind: "DaemonSet"},
	"deployments":  {APIVersion: "apps/v1", Kind: deployment},
	"statefulsets": {APIVersion: "apps/v1", Kind: "StatefulSet"},
}

// sourceKinds are the kinds of sources, by the names of their watches.
var sourceKinds = map[string]Kind{"configmaps": ConfigMap, "secrets": Secret}

var plugin = manifest.Manifest{
	Name:        "reloader",
	Version:     "0.1.0",
	Description: "Replaces the Pods of workloads when their ConfigMaps and Secrets change.",
	Controllers: []manifest.Controller{controller("daemonsets"), controller("deployments"), controller("statefulsets")},
	Permissions: []manifest.Permission{{
		APIGroups: []string{"apps"}, Verbs: []string{"patch"},
		Resources: []string{"daemonsets", "deployments", "statefulsets"},
	}},
	Config: &manifest.Config{Schema: json.RawMessage(settingsSchema)},
}

func controller(name string) manifest.Controller {
	return manifest.Controller{
		Name: name,
		Primary: manifest.Watch{
			APIVersion: workloads[name].APIVersion, Kind: workloads[name].Kind, Projection: manifest.Fields(workloadFields()...),
			Indexes:    append(referenceIndexes(), manifest.ByField(byNamespace, "/metadata/namespace")),
			Predicates: []manifest.Predicate{manifest.AnnotationsChanged, manifest.FieldsChanged(workloadFields()...)},
		},
		Watches: []manifest.Watch{
			sources("configmaps", "", "/data", "/binaryData"),
			// Helm keeps each release of each chart in a Secret. No workload uses these.
			sources("secrets", "type!=helm.sh/release.v1", "/data"),
			{
				APIVersion: "v1", Kind: "Namespace", Projection: manifest.MetadataOnly(),
				Indexes:    []manifest.Index{manifest.ByField(byName, "/metadata/name")},
				Predicates: []manifest.Predicate{manifest.LabelsChanged}, Mapping: manifest.ToReferrers(byNamespace),
			},
		},
		Options: &manifest.Options{WithoutStatus: true},
	}
}

const (
	byName      = "name"
	byNamespace = "namespace"
)

// sources watches the digests of ConfigMaps or Secrets. What else changes in them concerns no workload.
func sources(name, fieldSelector string, data ...string) manifest.Watch {
	annotation := func(key string) string { return "/metadata/annotations/" + escaped(key) }
	changed := manifest.FieldsChanged("/digest", "/metadata/labels", annotation(match), annotation(ignore))
	return manifest.Watch{
		Name: name, APIVersion: "v1", Kind: string(sourceKinds[name]), FieldSelector: fieldSelector,
		Projection: manifest.Digest(data...), Predicates: []manifest.Predicate{changed}, Mapping: manifest.ToMapped(),
	}
}

// Both kinds of containers in a Pod template.
var containerLists = [...]string{template + "/spec/containers/*", template + "/spec/initContainers/*"}

// workloadFields are the pointers to the fields of Workload. They leave out the values of environment variables, in
// which some people keep passwords. The cache also keeps the fields of predicates, so these are the same.
func workloadFields() []string {
	volume := template + "/spec/volumes/*"
	fields := []string{"/spec/paused", template + "/metadata/annotations", volume + "/name"}
	for _, container := range containerLists {
		fields = append(fields, container+"/name", container+"/env/*/name", container+"/volumeMounts/*/name")
	}
	for _, kind := range kinds {
		for _, reference := range kind.references() {
			fields = append(fields, reference.Base+reference.Name)
		}
	}
	return fields
}

// references are the places in a workload that refer to sources of the kind.
func (kind Kind) references() []manifest.ReferencePath {
	own, inVolume := "/configMap", manifest.ReferencePath{Base: template + "/spec/volumes/*/configMap", Name: "/name"}
	if kind == Secret {
		own, inVolume = "/secret", manifest.ReferencePath{Base: template + "/spec/volumes/*/secret", Name: "/secretName"}
	}
	inProjected := manifest.ReferencePath{Base: template + "/spec/volumes/*/projected/sources/*" + own, Name: "/name"}
	all := []manifest.ReferencePath{inVolume, inProjected}
	for _, container := range containerLists {
		all = append(all, manifest.ReferencePath{Base: container + "/env/*/valueFrom" + own + "KeyRef", Name: "/name"})
		all = append(all, manifest.ReferencePath{Base: container + "/envFrom/*" + own + "Ref", Name: "/name"})
	}
	return all
}

// indexOf returns the name of the index over one of the references.
func (kind Kind) indexOf(reference int) string {
	return fmt.Sprintf("%s-%d", strings.ToLower(string(kind)), reference)
}

func referenceIndexes() []manifest.Index {
	var all []manifest.Index
	for _, kind := range kinds {
		for place, reference := range kind.references() {
			all = append(all, manifest.ByReference(kind.indexOf(place), reference))
		}
	}
	return all
}

// toWorkloads maps a change of a source to the workloads that may reload: those that use it, by the indexes, and those
// whose annotations name it.
func toWorkloads(_ context.Context, change windlass.Change) ([]windlass.Target, error) {
	states, err := windlass.States[Source](change)
	if err != nil || len(states) == 0 {
		return nil, err
	}
	settings, err := settings()
	if err != nil {
		return nil, err
	}
	kind, source := sourceKinds[change.Watch], states[0].Metadata
	if settings.ignores(kind) || slices.Contains(settings.IgnoreNamespaces, source.Namespace) {
		return nil, nil
	}
	var targets []windlass.Target
	for place := range kind.references() {
		targets = append(targets, windlass.Indexed(kind.indexOf(place), source.Namespace+"/"+source.Name))
	}
	// No index can find patterns, so this reads a few annotations of each workload in the namespace.
	query := cache.Query{Kind: workloads[change.Controller], Namespace: source.Namespace}
	for _, key := range kind.choices() {
		place := "/metadata/annotations/" + escaped(key)
		query.Fields = append(query.Fields, place, template+place)
	}
	for workload, err := range cache.List[Workload](query) {
		if err != nil {
			return nil, err
		}
		if list, _ := namesIn(workload.choosing(kind)[kind.annotations().reload]); list.fit(source.Name) {
			targets = append(targets, windlass.Primary(workload.Metadata.Namespace, workload.Metadata.Name))
		}
	}
	return targets, nil
}
