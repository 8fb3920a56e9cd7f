// Package mapper is a RESTMapper that asks the API server, through the host, which kinds it serves.
package mapper

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/internal/status"
	windlass "windlass.dev/sdk"
	"windlass.dev/sdk/live"
)

// Mapper keeps no answers, because the host already caches the answers of the API server.
type Mapper struct {
	// Closed returns the reason why the mapper cannot ask now, or nil.
	Closed func() error
}

var _ meta.RESTMapper = &Mapper{}

// RESTMapping returns the mapping of a kind in one of the versions, or in the server's preferred version.
func (mapper *Mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mappings, err := mapper.RESTMappings(gk, versions...)
	if err != nil {
		return nil, err
	}
	return mappings[0], nil
}

// RESTMappings returns the mappings of a kind in the versions that the server serves.
func (mapper *Mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	if err := mapper.closed(); err != nil {
		return nil, err
	}
	var found []*meta.RESTMapping
	for _, version := range versions {
		if version == "" {
			continue
		}
		kind := gk.WithVersion(version)
		served, err := live.Served(windlass.Kind{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind})
		if err != nil {
			return nil, status.Of(err)
		}
		if served != nil {
			found = append(found, mapping(kind, served))
		}
	}
	if len(found) == 0 && len(versions) == 0 {
		listed, err := kinds()
		if err != nil {
			return nil, err
		}
		for _, one := range listed {
			if kind := kindOf(one); kind.GroupKind() == gk {
				found = append(found, mapping(kind, &one.Served))
			}
		}
	}
	if len(found) == 0 {
		return nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: versions}
	}
	return found, nil
}

func (mapper *Mapper) closed() error {
	if mapper.Closed == nil {
		return nil
	}
	return mapper.Closed()
}

func mapping(kind schema.GroupVersionKind, served *live.ServedKind) *meta.RESTMapping {
	scope := meta.RESTScopeRoot
	if served.Namespaced {
		scope = meta.RESTScopeNamespace
	}
	return &meta.RESTMapping{
		Resource: kind.GroupVersion().WithResource(served.Resource), GroupVersionKind: kind, Scope: scope,
	}
}

func kinds() ([]live.ListedKind, error) {
	listed, err := live.Kinds()
	return listed, status.Of(err)
}

func kindOf(listed live.ListedKind) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(listed.Kind.APIVersion, listed.Kind.Kind)
}

// KindsFor returns the kinds of a resource, which may lack the group or the version.
func (mapper *Mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	if err := mapper.closed(); err != nil {
		return nil, err
	}
	listed, err := kinds()
	if err != nil {
		return nil, err
	}
	var found []schema.GroupVersionKind
	for _, one := range listed {
		kind := kindOf(one)
		if one.Served.Resource != resource.Resource || resource.Group != "" && kind.Group != resource.Group ||
			resource.Version != "" && kind.Version != resource.Version {
			continue
		}
		found = append(found, kind)
	}
	if len(found) == 0 {
		return nil, &meta.NoResourceMatchError{PartialResource: resource}
	}
	return found, nil
}

// KindFor returns the only kind of a resource.
func (mapper *Mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	found, err := mapper.KindsFor(resource)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	if len(found) > 1 {
		return schema.GroupVersionKind{}, &meta.AmbiguousResourceError{PartialResource: resource, MatchingKinds: found}
	}
	return found[0], nil
}

// ResourcesFor completes a resource that lacks the group or the version.
func (mapper *Mapper) ResourcesFor(input schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	found, err := mapper.KindsFor(input)
	if err != nil {
		return nil, err
	}
	resources := make([]schema.GroupVersionResource, len(found))
	for place, kind := range found {
		resources[place] = kind.GroupVersion().WithResource(input.Resource)
	}
	return resources, nil
}

// ResourceFor completes a resource that only one group has.
func (mapper *Mapper) ResourceFor(input schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	found, err := mapper.ResourcesFor(input)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	if len(found) > 1 {
		return schema.GroupVersionResource{}, &meta.AmbiguousResourceError{PartialResource: input, MatchingResources: found}
	}
	return found[0], nil
}

// ResourceSingularizer returns the lower-case kind of a resource, which is its singular in nearly all APIs.
func (mapper *Mapper) ResourceSingularizer(resource string) (string, error) {
	kind, err := mapper.KindFor(schema.GroupVersionResource{Resource: resource})
	if err != nil {
		return resource, err
	}
	return strings.ToLower(kind.Kind), nil
}
