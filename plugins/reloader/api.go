package main

import (
	"maps"
	"slices"
	"strings"

	"windlass.dev/sdk"
)

// The annotations of the original.
const (
	prefix = "reloader.stakater.com/"

	auto   = prefix + "auto"
	search = prefix + "search"
	// On ConfigMaps and Secrets.
	match  = prefix + "match"
	ignore = prefix + "ignore"
	// On a Pod template, by the reload strategy `annotations`.
	lastReloadedFrom = prefix + "last-reloaded-from"

	pausePeriod = "deployment." + prefix + "pause-period"
	// On a Deployment that the original has paused.
	pausedAt = "deployment." + prefix + "paused-at"
)

// The annotations of this plugin, on workloads.
const (
	// seen has the digest of each ConfigMap and Secret that the workload's Pods have been started with, or that it had
	// when the plugin first saw it.
	seen = "reloader.windlass.dev/seen"
	// changedAt is when a change came that waits for the end of the pause period.
	changedAt = "reloader.windlass.dev/changed-at"
)

// Kind is the kind of a source: an object whose changes reload workloads.
type Kind string

// The kinds of sources.
const (
	ConfigMap Kind = "ConfigMap"
	Secret    Kind = "Secret"
)

var kinds = []Kind{ConfigMap, Secret}

// annotations are the annotations of a workload that are about one kind of sources.
type annotations struct{ auto, reload, exclude string }

// suffix is the last part of the names of environment variables, and the type in the annotation of a Pod template.
func (kind Kind) suffix() string { return strings.ToUpper(string(kind)) }

func (kind Kind) annotations() annotations {
	name := strings.ToLower(string(kind))
	return annotations{
		auto: name + "." + prefix + "auto", reload: name + "." + prefix + "reload",
		exclude: name + "s.exclude." + prefix + "reload",
	}
}

// choices are the keys of the annotations that choose sources of the kind, on a workload or on its Pod template.
func (kind Kind) choices() []string {
	keys := kind.annotations()
	return []string{auto, search, keys.auto, keys.reload}
}

// Ref names a source in the namespace of the workload.
type Ref struct {
	kind Kind
	name string
}

// String returns the ref as it is in the annotation `seen`, and in texts for people.
func (ref Ref) String() string { return string(ref.kind) + "/" + ref.name }

func (ref Ref) in(namespace string) windlass.Ref {
	return windlass.Ref{APIVersion: "v1", Kind: string(ref.kind), Namespace: namespace, Name: ref.name}
}

// Source is a ConfigMap or a Secret, as the cache keeps it.
type Source struct {
	Metadata windlass.Metadata
	Digest   string
}

// Workload is a Deployment, a DaemonSet or a StatefulSet, as far as the cache keeps it.
type Workload struct {
	APIVersion, Kind string
	Metadata         windlass.Metadata
	Spec             struct {
		Paused   bool
		Template struct {
			Metadata struct{ Annotations map[string]string }
			Spec     PodSpec
		}
	}
}

// choosing returns the annotations that choose the sources of a kind. Those of the Pod template count only if the
// workload has none of them. If they were merged, a template's `auto: "true"` would override a workload's opt-out.
func (workload *Workload) choosing(kind Kind) map[string]string {
	for _, key := range kind.choices() {
		if _, has := workload.Metadata.Annotations[key]; has {
			return workload.Metadata.Annotations
		}
	}
	return workload.Spec.Template.Metadata.Annotations
}

// PodSpec is the part of a Pod's spec that refers to sources.
type PodSpec struct {
	InitContainers, Containers []Container
	Volumes                    []Volume
}

// Container is a container of a Pod template. The values of its environment are not in the cache.
type Container struct {
	Name         string
	Env          []Variable
	EnvFrom      []struct{ ConfigMapRef, SecretRef named }
	VolumeMounts []named
}

// Variable is an environment variable.
type Variable struct {
	Name      string
	ValueFrom struct{ ConfigMapKeyRef, SecretKeyRef named }
}

// Volume is a volume of a Pod template.
type Volume struct {
	Name      string
	ConfigMap named
	Secret    struct{ SecretName string }
	Projected struct {
		Sources []struct{ ConfigMap, Secret named }
	}
}

type named struct{ Name string }

// refs is a set of sources.
type refs map[Ref]bool

func (refs refs) add(kind Kind, name string) {
	if name != "" {
		refs[Ref{kind, name}] = true
	}
}

// sorted returns the set in order.
func (refs refs) sorted() []Ref {
	return slices.SortedFunc(maps.Keys(refs), func(a, b Ref) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
}

// references returns the sources that the containers of a template use. A volume that none of them mounts does not
// count.
func (spec *PodSpec) references() refs {
	all := refs{}
	for _, containers := range [][]Container{spec.InitContainers, spec.Containers} {
		for place := range containers {
			maps.Copy(all, spec.usedBy(&containers[place]))
		}
	}
	return all
}

// usedBy returns the sources in the environment and the mounted volumes of a container.
func (spec *PodSpec) usedBy(container *Container) refs {
	all := container.environment()
	for place := range spec.Volumes {
		if slices.Contains(container.VolumeMounts, named{spec.Volumes[place].Name}) {
			maps.Copy(all, spec.Volumes[place].references())
		}
	}
	return all
}

// environment returns the sources in the environment of a container.
func (container *Container) environment() refs {
	all := refs{}
	for _, variable := range container.Env {
		all.add(ConfigMap, variable.ValueFrom.ConfigMapKeyRef.Name)
		all.add(Secret, variable.ValueFrom.SecretKeyRef.Name)
	}
	for _, source := range container.EnvFrom {
		all.add(ConfigMap, source.ConfigMapRef.Name)
		all.add(Secret, source.SecretRef.Name)
	}
	return all
}

func (volume *Volume) references() refs {
	all := refs{}
	all.add(ConfigMap, volume.ConfigMap.Name)
	all.add(Secret, volume.Secret.SecretName)
	for _, source := range volume.Projected.Sources {
		all.add(ConfigMap, source.ConfigMap.Name)
		all.add(Secret, source.Secret.Name)
	}
	return all
}

// users returns the places of the containers that use a source. Init containers do not count: the original marks none.
func (spec *PodSpec) users(ref Ref) []int {
	var users []int
	for place := range spec.Containers {
		if spec.usedBy(&spec.Containers[place])[ref] {
			users = append(users, place)
		}
	}
	return users
}
