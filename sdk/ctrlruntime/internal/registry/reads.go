package registry

import (
	"bytes"
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

// addReads adds watches to the controllers for kinds that they only read: kinds that another controller watches, and
// kinds that windlass.Reads names. If Reads was not called, it instead adds the kinds that the permissions allow to
// watch, as informers would, if the API server is sure to serve them.
func addReads(controllers []manifest.Controller) error {
	read, err := readKinds()
	if err != nil {
		return err
	}
	for place := range controllers {
		for _, watch := range allOf(&controllers[place]) {
			if watch.Projection == nil {
				read.add(schema.FromAPIVersionAndKind(watch.APIVersion, watch.Kind), nil)
			}
		}
	}
	for place := range controllers {
		addReadsTo(&controllers[place], read)
	}
	return nil
}

// reads are the kinds that are read from caches, by their names as text. Sorting the texts makes a smaller component
// than sorting the kinds.
type reads map[string]read

// read is a kind, and the namespaces of its watch. Without namespaces, the cache's options apply.
type read struct {
	kind       schema.GroupVersionKind
	namespaces []string
}

func (reads reads) add(kind schema.GroupVersionKind, namespaces []string) {
	reads[kind.String()] = read{kind, namespaces}
}

func addReadsTo(controller *manifest.Controller, read reads) {
	watched := allOf(controller)
	for _, name := range slices.Sorted(maps.Keys(read)) {
		kind := read[name].kind
		isWatched := slices.ContainsFunc(watched, func(watch manifest.Watch) bool {
			return watch.Projection == nil && watch.Kind == kind.Kind && watch.APIVersion == kind.GroupVersion().String()
		})
		if !isWatched {
			watch := restricted(kind, false)
			watch.Mapping = manifest.ToLabel(unusedLabel)
			if len(watch.Namespaces) == 0 {
				watch.Namespaces = read[name].namespaces
			}
			controller.Watches = append(controller.Watches, watch)
		}
	}
}

func allOf(controller *manifest.Controller) []manifest.Watch {
	return append(append([]manifest.Watch{controller.Primary}, controller.Owns...), controller.Watches...)
}

// readKinds returns the kinds of windlass.Reads, or else the kinds of the scheme that the permissions allow to list and
// watch. A controller waits until all its kinds are served, so kinds of the scheme count only if the API server always
// serves them.
func readKinds() (reads, error) {
	read := reads{}
	scheme := current.controllers[0].Scheme
	for _, object := range current.reads {
		kind, err := kindOf(scheme, object)
		if err != nil {
			return nil, err
		}
		namespaces, _ := watchable(kind)
		read.add(kind, namespaces)
	}
	if current.isReadsGiven {
		return read, nil
	}
	for kind := range scheme.AllKnownTypes() {
		namespaces, is := watchable(kind)
		if is && (isBuiltIn(kind) || isDefined(kind)) &&
			isPreferred(scheme.PrioritizedVersionsForGroup(kind.Group), kind, scheme.Recognizes) {
			read.add(kind, namespaces)
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

// isDefined reports whether the manifest has the definition of a kind. It looks only at the names of the definitions,
// which are unique and have the plural and the group. Definitions may be long, and decoding them would take time in
// each instance.
func isDefined(kind schema.GroupVersionKind) bool {
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	name := []byte(fmt.Sprintf("%q", plural.GroupResource().String()))
	return slices.ContainsFunc(current.description.CRDs, func(definition json.RawMessage) bool {
		return bytes.Contains(definition, name)
	})
}

// watchable reports whether the permissions allow to list and watch a kind, and in which namespaces. No namespaces mean
// all.
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

// isPreferred reports whether a kind is a kind of objects, in the first version of its group that has the kind.
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

// permittedIn is like permitted, and also returns the namespaces in which the permissions hold. No namespaces mean all.
func permittedIn(kind schema.GroupVersionKind, subresource, verb string) (namespaces []string, is bool) {
	for _, rule := range current.description.Permissions {
		if len(rule.Names) > 0 || !slices.Contains(rule.APIGroups, kind.Group) ||
			!slices.Contains(rule.Verbs, verb) && !slices.Contains(rule.Verbs, "*") {
			continue
		}
		if plural, _ := meta.UnsafeGuessKindToResource(kind); slices.Contains(rule.Resources, plural.Resource+subresource) {
			if len(rule.Namespaces) == 0 {
				return nil, true
			}
			namespaces = append(namespaces, rule.Namespaces...)
		}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces), namespaces != nil
}
