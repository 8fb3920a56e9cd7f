// Package client reads and writes objects, with the interface of controller-runtime's client, through the Windlass
// host.
//
// Reads of watched kinds come from the host's cache, all others from the API server. The host makes the writes. It
// resolves the outcome of each write, and calls the reconciler again only when the caches show the write.
package client

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Object is an object of any kind: typed, unstructured or only metadata.
type Object interface {
	metav1.Object
	runtime.Object
}

// ObjectList is a list of objects of one kind.
type ObjectList interface {
	metav1.ListInterface
	runtime.Object
}

// ObjectKey names an object within its kind.
type ObjectKey = types.NamespacedName

// ObjectKeyFromObject returns the key of an object.
func ObjectKeyFromObject(obj Object) ObjectKey {
	return ObjectKey{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Patch is a change to an object.
type Patch interface {
	// Type is the form of the patch.
	Type() types.PatchType
	// Data is the patch as JSON, for the desired state of the object.
	Data(obj Object) ([]byte, error)
}

// Reader reads objects.
type Reader interface {
	// Get reads an object into obj. If the object does not exist, the error is NotFound, and obj stays as it is.
	Get(ctx context.Context, key ObjectKey, obj Object, opts ...GetOption) error
	// List reads objects into list.
	List(ctx context.Context, list ObjectList, opts ...ListOption) error
}

// Writer writes objects. After a write, the given object has the state that the server returned.
type Writer interface {
	// Apply applies a set of fields, server-side.
	Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...ApplyOption) error
	// Create creates an object.
	Create(ctx context.Context, obj Object, opts ...CreateOption) error
	// Delete deletes an object.
	Delete(ctx context.Context, obj Object, opts ...DeleteOption) error
	// Update replaces an object. If it has a resourceVersion, the update fails with Conflict unless the version is
	// current.
	Update(ctx context.Context, obj Object, opts ...UpdateOption) error
	// Patch changes an object.
	Patch(ctx context.Context, obj Object, patch Patch, opts ...PatchOption) error
	// DeleteAllOf deletes all selected objects of the kind of obj. If the kind has namespaces, it needs InNamespace.
	DeleteAllOf(ctx context.Context, obj Object, opts ...DeleteAllOfOption) error
}

// StatusClient writes the status of objects.
type StatusClient interface {
	// Status returns a writer of the status subresource.
	Status() SubResourceWriter
}

// SubResourceClientConstructor returns clients of subresources.
type SubResourceClientConstructor interface {
	// SubResource returns a client of a subresource, such as "scale" or "eviction".
	SubResource(subResource string) SubResourceClient
}

// StatusWriter writes the status of objects.
type StatusWriter = SubResourceWriter

// SubResourceReader reads a subresource.
type SubResourceReader interface {
	// Get reads the subresource of obj into subResource.
	Get(ctx context.Context, obj Object, subResource Object, opts ...SubResourceGetOption) error
}

// SubResourceWriter writes a subresource.
type SubResourceWriter interface {
	// Create creates the subresource of obj, such as an eviction.
	Create(ctx context.Context, obj Object, subResource Object, opts ...SubResourceCreateOption) error
	// Update replaces the subresource of obj.
	Update(ctx context.Context, obj Object, opts ...SubResourceUpdateOption) error
	// Patch changes the subresource of obj.
	Patch(ctx context.Context, obj Object, patch Patch, opts ...SubResourcePatchOption) error
	// Apply applies fields to the subresource of an object, server-side.
	Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...SubResourceApplyOption) error
}

// SubResourceClient reads and writes a subresource.
type SubResourceClient interface {
	SubResourceReader
	SubResourceWriter
}

// Client reads and writes objects.
type Client interface {
	Reader
	Writer
	StatusClient
	SubResourceClientConstructor

	// Scheme returns the scheme that knows the types of objects.
	Scheme() *runtime.Scheme
	// RESTMapper returns a mapper that asks the API server which kinds it serves.
	RESTMapper() meta.RESTMapper
	// GroupVersionKindFor returns the kind of an object.
	GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error)
	// IsObjectNamespaced reports whether objects of the kind have a namespace.
	IsObjectNamespaced(obj runtime.Object) (bool, error)
}

// WithWatch is a Client that can also watch. The host offers no such client: a watch outlives a call.
type WithWatch interface {
	Client
	Watch(ctx context.Context, obj ObjectList, opts ...ListOption) (watch.Interface, error)
}

// IndexerFunc returns the values of an object in an index.
type IndexerFunc func(Object) []string

// FieldIndexer adds indexes, for lists with MatchingFields.
type FieldIndexer interface {
	// IndexField adds an index over objects of the kind of obj. A list by this index decodes all objects of the kind
	// within its namespace and labels, and calls extractValue for each: the host cannot run the function itself.
	IndexField(ctx context.Context, obj Object, field string, extractValue IndexerFunc) error
}

// IgnoreNotFound returns nil for a NotFound error, and any other error unchanged.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// IgnoreAlreadyExists returns nil for an AlreadyExists error, and any other error unchanged.
func IgnoreAlreadyExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
