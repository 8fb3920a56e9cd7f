// Package apiutil finds the kinds of objects.
package apiutil

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GVKForObject returns the kind of an object. Unstructured and partial objects contain their kind. For any other
// object, the scheme must know the Go type under exactly one kind.
func GVKForObject(obj runtime.Object, scheme *runtime.Scheme) (schema.GroupVersionKind, error) {
	_, isUnstructured := obj.(runtime.Unstructured)
	_, isPartial := obj.(*metav1.PartialObjectMetadata)
	_, isPartialList := obj.(*metav1.PartialObjectMetadataList)
	if isUnstructured || isPartial || isPartialList {
		kind := obj.GetObjectKind().GroupVersionKind()
		if kind.Kind == "" {
			return kind, runtime.NewMissingKindErr(fmt.Sprintf("a %T", obj))
		}
		if kind.Version == "" {
			return kind, runtime.NewMissingVersionErr(kind.String())
		}
		return kind, nil
	}
	kinds, isUnversioned, err := scheme.ObjectKinds(obj)
	switch {
	case err != nil:
		return schema.GroupVersionKind{}, err
	case isUnversioned:
		return schema.GroupVersionKind{}, fmt.Errorf("%T has no version, so no kind follows from it", obj)
	case len(kinds) == 1:
		return kinds[0], nil
	}
	own := obj.GetObjectKind().GroupVersionKind()
	for _, kind := range kinds {
		if kind == own {
			return kind, nil
		}
	}
	return schema.GroupVersionKind{}, fmt.Errorf("the scheme knows %T under several kinds, so set the object's TypeMeta: %v", obj, kinds)
}

// IsObjectNamespaced reports whether objects of the kind of obj have a namespace.
func IsObjectNamespaced(obj runtime.Object, scheme *runtime.Scheme, restmapper meta.RESTMapper) (bool, error) {
	kind, err := GVKForObject(obj, scheme)
	if err != nil {
		return false, err
	}
	return IsGVKNamespaced(kind, restmapper)
}

// IsGVKNamespaced reports whether objects of a kind have a namespace.
func IsGVKNamespaced(gvk schema.GroupVersionKind, restmapper meta.RESTMapper) (bool, error) {
	mapping, err := restmapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return false, err
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}
