// Package cache has the keys of objects, and a store in memory with indexes. The host has the informers and their
// caches, so this package has none.
package cache

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// KeyFunc returns the key of an object.
type KeyFunc func(obj any) (string, error)

// KeyError says that an object has no key.
type KeyError struct {
	Obj any
	Err error
}

// Error names the object.
func (k KeyError) Error() string { return fmt.Sprintf("no key for object %+v: %v", k.Obj, k.Err) }

// Unwrap returns the reason.
func (k KeyError) Unwrap() error { return k.Err }

// ExplicitKey is a key that stands for an object.
type ExplicitKey string

// DeletedFinalStateUnknown stands for a deleted object of which only an earlier state is known.
type DeletedFinalStateUnknown struct {
	Key string
	Obj any
}

// ObjectName is the namespace and name of an object.
type ObjectName struct {
	Namespace string
	Name      string
}

// NewObjectName returns a name. The namespace of a cluster-scoped object is empty.
func NewObjectName(namespace, name string) ObjectName {
	return ObjectName{Namespace: namespace, Name: name}
}

// NamespacedNameAsObjectName converts a name.
func NamespacedNameAsObjectName(name types.NamespacedName) ObjectName {
	return NewObjectName(name.Namespace, name.Name)
}

// AsNamespacedName converts a name.
func (o ObjectName) AsNamespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
}

// Parts returns the namespace and the name.
func (o ObjectName) Parts() (namespace, name string) { return o.Namespace, o.Name }

// String returns "NAMESPACE/NAME", or only the name without a namespace.
func (o ObjectName) String() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// ParseObjectName is the inverse of [ObjectName.String].
func ParseObjectName(text string) (ObjectName, error) {
	namespace, name, err := SplitMetaNamespaceKey(text)
	return ObjectName{Namespace: namespace, Name: name}, err
}

// MetaObjectToName returns the name of an object.
func MetaObjectToName(obj metav1.Object) ObjectName {
	return NewObjectName(obj.GetNamespace(), obj.GetName())
}

// ObjectToName returns the name of an object, which must have metadata.
func ObjectToName(obj any) (ObjectName, error) {
	object, err := meta.Accessor(obj)
	if err != nil {
		return ObjectName{}, fmt.Errorf("the object has no metadata: %w", err)
	}
	return MetaObjectToName(object), nil
}

// MetaNamespaceKeyFunc returns the key of an object with metadata: "NAMESPACE/NAME", or only the name.
func MetaNamespaceKeyFunc(obj any) (string, error) {
	if key, is := obj.(ExplicitKey); is {
		return string(key), nil
	}
	name, err := ObjectToName(obj)
	return name.String(), err
}

// DeletionHandlingMetaNamespaceKeyFunc is [MetaNamespaceKeyFunc], and also takes [DeletedFinalStateUnknown].
func DeletionHandlingMetaNamespaceKeyFunc(obj any) (string, error) {
	if deleted, is := obj.(DeletedFinalStateUnknown); is {
		return deleted.Key, nil
	}
	return MetaNamespaceKeyFunc(obj)
}

// SplitMetaNamespaceKey returns the parts of a key that [MetaNamespaceKeyFunc] has made.
func SplitMetaNamespaceKey(key string) (namespace, name string, err error) {
	switch parts := strings.Split(key, "/"); len(parts) {
	case 1:
		return "", parts[0], nil
	case 2:
		return parts[0], parts[1], nil
	default:
		return "", "", fmt.Errorf("unexpected key format: %q", key)
	}
}
