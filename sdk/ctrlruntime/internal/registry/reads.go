package registry

import (
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
// that windlass.Reads names, or, if it was not called, those that the permissions allow to watch, as informers do.
func addReads(controllers []manifest.Controller) error {
	kinds, err := readKinds()
	if err != nil {
		return err
	}
	for place := range controllers {
		for _, watch := range allOf(&controllers[place]) {
			if watch.Projection == nil {
				kinds = append(kinds, schema.FromAPIVersionAndKind(watch.APIVersion, watch.Kind))
			}
		}
	}
	read := map[string]schema.GroupVersionKind{}
	for _, kind := range kinds {
		read[kind.String()] = kind
	}
	for place := range controllers {
		addReadsTo(&controllers[place], read)
	}
	return nil
}

func addReadsTo(controller *manifest.Controller, read map[string]schema.GroupVersionKind) {
	watched := allOf(controller)
	// Sorting the texts makes a smaller component than sorting the kinds.
	for _, name := range slices.Sorted(maps.Keys(read)) {
		kind := read[name]
		isWatched := slices.ContainsFunc(watched, func(watch manifest.Watch) bool {
			return watch.Projection == nil && watch.Kind == kind.Kind && watch.APIVersion == kind.GroupVersion().String()
		})
		if !isWatched {
			watch := restricted(kind, false)
			watch.Mapping = manifest.ToLabel(unusedLabel)
			controller.Watches = append(controller.Watches, watch)
		}
	}
}

func allOf(controller *manifest.Controller) []manifest.Watch {
	return append(append([]manifest.Watch{controller.Primary}, controller.Owns...), controller.Watches...)
}

// readKinds returns the kinds of windlass.Reads, or those of the scheme that the permissions allow to list and watch.
func readKinds() (read []schema.GroupVersionKind, err error) {
	scheme := current.controllers[0].Scheme
	for _, object := range current.reads {
		kind, err := kindOf(scheme, object)
		if err != nil {
			return nil, err
		}
		read = append(read, kind)
	}
	if current.isReadsGiven {
		return read, nil
	}
	for kind := range scheme.AllKnownTypes() {
		if permitted(kind, "", "list") && permitted(kind, "", "watch") &&
			isPreferred(scheme.PrioritizedVersionsForGroup(kind.Group), kind, scheme.Recognizes) {
			read = append(read, kind)
		}
	}
	return read, nil
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
	for _, rule := range current.description.Permissions {
		if len(rule.Names) > 0 || !slices.Contains(rule.APIGroups, kind.Group) ||
			!slices.Contains(rule.Verbs, verb) && !slices.Contains(rule.Verbs, "*") {
			continue
		}
		if plural, _ := meta.UnsafeGuessKindToResource(kind); slices.Contains(rule.Resources, plural.Resource+subresource) {
			return true
		}
	}
	return false
}
