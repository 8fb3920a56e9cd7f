package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"windlass.dev/sdk/manifest"
)

// unusedLabel is a label that no object has. A watch that maps by it only fills a cache.
const unusedLabel = "windlass.dev/only-read"

// addReads adds watches to the controllers, for kinds that they only read: those that another controller watches, those
// that windlass.Reads names, or, if it was not called, those that the permissions allow to watch, as informers do, if the
// API server is sure to serve them.
func addReads(controllers []manifest.Controller) error {
	read, err := readKinds()
	if err != nil {
		return err
	}
	for place := range controllers {
		for _, watch := range allOf(&controllers[place]) {
			if watch.Projection == nil {
				read[schema.FromAPIVersionAndKind(watch.APIVersion, watch.Kind)] = nil
			}
		}
	}
	for place := range controllers {
		addReadsTo(&controllers[place], read)
	}
	return nil
}

// reads are the kinds that are read from caches, with the namespaces of their watches; none: as the cache's options say.
type reads map[schema.GroupVersionKind][]string

func addReadsTo(controller *manifest.Controller, read reads) {
	watched := allOf(controller)
	inOrder := func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) }
	for _, kind := range slices.SortedFunc(maps.Keys(read), inOrder) {
		isWatched := slices.ContainsFunc(watched, func(watch manifest.Watch) bool {
			return watch.Projection == nil && watch.Kind == kind.Kind && watch.APIVersion == kind.GroupVersion().String()
		})
		if !isWatched {
			watch := restricted(kind, false)
			watch.Mapping = manifest.ToLabel(unusedLabel)
			if len(watch.Namespaces) == 0 {
				watch.Namespaces = read[kind]
			}
			controller.Watches = append(controller.Watches, watch)
		}
	}
}

func allOf(controller *manifest.Controller) []manifest.Watch {
	return append(append([]manifest.Watch{controller.Primary}, controller.Owns...), controller.Watches...)
}

// readKinds returns the kinds of windlass.Reads, or those of the scheme that the permissions allow to list and watch. A
// controller waits until all its kinds are served, so the latter are only kinds that the API server always serves.
func readKinds() (reads, error) {
	read := reads{}
	scheme := current.controllers[0].Scheme
	for _, object := range current.reads {
		kind, err := kindOf(scheme, object)
		if err != nil {
			return nil, err
		}
		read[kind] = nil
	}
	if current.isReadsGiven {
		return read, nil
	}
	defined, err := definedKinds(current.description.CRDs)
	if err != nil {
		return nil, err
	}
	for kind := range scheme.AllKnownTypes() {
		if !isPreferred(scheme.PrioritizedVersionsForGroup(kind.Group), kind, scheme.Recognizes) || !isBuiltIn(kind) && !defined[kind] {
			continue
		}
		if namespaces, is := watchable(kind); is {
			read[kind] = namespaces
		}
	}
	return read, nil
}

// builtIn are the groups of kube-apiserver that an operator may want to cache.
var builtIn = map[string]bool{
	"": true, "apps": true, "batch": true, "autoscaling": true, "policy": true, "networking.k8s.io": true,
	"rbac.authorization.k8s.io": true, "storage.k8s.io": true, "scheduling.k8s.io": true, "coordination.k8s.io": true,
	"discovery.k8s.io": true, "events.k8s.io": true, "node.k8s.io": true, "apiextensions.k8s.io": true,
	"admissionregistration.k8s.io": true, "apiregistration.k8s.io": true,
}

// isBuiltIn reports whether every API server serves a kind.
func isBuiltIn(kind schema.GroupVersionKind) bool {
	return builtIn[kind.Group] && !strings.Contains(kind.Version, "alpha") && !strings.Contains(kind.Version, "beta")
}

// definedKinds returns the kinds of CustomResourceDefinitions.
func definedKinds(definitions []json.RawMessage) (map[schema.GroupVersionKind]bool, error) {
	defined := map[schema.GroupVersionKind]bool{}
	for _, document := range definitions {
		var definition struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct{ Name string }
			}
		}
		if err := json.Unmarshal(document, &definition); err != nil {
			return nil, fmt.Errorf("a CustomResourceDefinition of the manifest cannot be read: %w", err)
		}
		for _, version := range definition.Spec.Versions {
			defined[schema.GroupVersionKind{Group: definition.Spec.Group, Version: version.Name, Kind: definition.Spec.Names.Kind}] = true
		}
	}
	return defined, nil
}

// watchable reports whether the permissions allow to list and watch a kind, and in which namespaces; none: in all.
func watchable(kind schema.GroupVersionKind) (namespaces []string, is bool) {
	listed, canList := permittedIn(kind, "", "list")
	watched, canWatch := permittedIn(kind, "", "watch")
	switch {
	case !canList || !canWatch:
		return nil, false
	case listed == nil:
		return watched, true
	case watched == nil:
		return listed, true
	}
	for _, namespace := range listed {
		if slices.Contains(watched, namespace) {
			namespaces = append(namespaces, namespace)
		}
	}
	return namespaces, namespaces != nil
}

// isPreferred reports whether a kind is one of objects, in the first version of its group that has it.
func isPreferred(versions []schema.GroupVersion, kind schema.GroupVersionKind, known func(schema.GroupVersionKind) bool) bool {
	if kind.Version == "__internal" || strings.HasSuffix(kind.Kind, "List") || strings.HasSuffix(kind.Kind, "Options") {
		return false
	}
	for _, version := range versions {
		if known(version.WithKind(kind.Kind)) {
			return version == kind.GroupVersion()
		}
	}
	return true
}

// permitted reports whether a permission has a verb for a kind, or for a subresource such as "/status", of all names.
func permitted(kind schema.GroupVersionKind, subresource, verb string) bool {
	_, is := permittedIn(kind, subresource, verb)
	return is
}

// permittedIn is permitted, with the namespaces in which the permissions hold; none: in all.
func permittedIn(kind schema.GroupVersionKind, subresource, verb string) (namespaces []string, is bool) {
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	for _, rule := range current.description.Permissions {
		if slices.Contains(rule.APIGroups, kind.Group) && slices.Contains(rule.Resources, plural.Resource+subresource) &&
			(slices.Contains(rule.Verbs, verb) || slices.Contains(rule.Verbs, "*")) && len(rule.Names) == 0 {
			if len(rule.Namespaces) == 0 {
				return nil, true
			}
			namespaces = append(namespaces, rule.Namespaces...)
		}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces), namespaces != nil
}
