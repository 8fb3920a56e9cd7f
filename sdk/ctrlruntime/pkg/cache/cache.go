// Package cache has the manager's options for caches. The host has the caches themselves.
package cache

import (
	"context"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AllNamespaces is the key of Options.DefaultNamespaces for all namespaces.
const AllNamespaces = ""

// Cache reads from the host's caches.
type Cache interface {
	client.Reader
	Informers
}

// Informers has methods that fail, except for indexes: the handler of an informer would have to run between
// calls.
type Informers interface {
	// GetInformer is refused.
	GetInformer(ctx context.Context, obj client.Object, opts ...InformerGetOption) (Informer, error)
	// GetInformerForKind is refused.
	GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...InformerGetOption) (Informer, error)
	// RemoveInformer does nothing.
	RemoveInformer(ctx context.Context, obj client.Object) error
	// Start waits for the end of the context.
	Start(ctx context.Context) error
	// WaitForCacheSync returns true: the host makes no call before its caches have their first lists.
	WaitForCacheSync(ctx context.Context) bool
	client.FieldIndexer
}

// Informer is the type of GetInformer's result, which is always nil.
type Informer interface {
	HasSynced() bool
	IsStopped() bool
}

// InformerGetOptions are the options of GetInformer.
type InformerGetOptions struct{}

// InformerGetOption is an option of GetInformer.
type InformerGetOption func(*InformerGetOptions)

// BlockUntilSynced has no effect.
func BlockUntilSynced(bool) InformerGetOption { return func(*InformerGetOptions) {} }

// TransformFunc changes objects before an informer keeps them.
type TransformFunc = func(any) (any, error)

// Options restrict the caches. Fields that are not described here have no effect.
type Options struct {
	Scheme *runtime.Scheme
	// SyncPeriod is the interval at which every primary runs again without a change.
	SyncPeriod                  *time.Duration
	ReaderFailOnMissingInformer bool
	// DefaultNamespaces are the namespaces of the kinds that are not in ByObject. A configuration may have selectors
	// only if there is one namespace.
	DefaultNamespaces map[string]Config
	// DefaultLabelSelector is for the kinds that are not in ByObject.
	DefaultLabelSelector labels.Selector
	// DefaultFieldSelector is for the kinds that are not in ByObject.
	DefaultFieldSelector fields.Selector
	// DefaultTransform may only be TransformStripManagedFields, which has no effect.
	DefaultTransform             TransformFunc
	DefaultUnsafeDisableDeepCopy *bool
	DefaultEnableWatchBookmarks  *bool
	// ByObject restricts the kinds of objects.
	ByObject map[client.Object]ByObject
}

// ByObject restricts the cache of a kind.
type ByObject struct {
	Namespaces            map[string]Config
	Label                 labels.Selector
	Field                 fields.Selector
	Transform             TransformFunc
	UnsafeDisableDeepCopy *bool
	EnableWatchBookmarks  *bool
	SyncPeriod            *time.Duration
}

// Config restricts the cache of a namespace.
type Config struct {
	LabelSelector         labels.Selector
	FieldSelector         fields.Selector
	Transform             TransformFunc
	UnsafeDisableDeepCopy *bool
	EnableWatchBookmarks  *bool
	SyncPeriod            *time.Duration
}

// TransformStripManagedFields returns a function without effect: the host's caches leave managedFields out.
func TransformStripManagedFields() TransformFunc { return unchanged }

func unchanged(object any) (any, error) { return object, nil }

// IsWithoutEffect reports whether a function is nil or comes from TransformStripManagedFields.
func IsWithoutEffect(transform TransformFunc) bool {
	return transform == nil || reflect.ValueOf(transform).Pointer() == reflect.ValueOf(unchanged).Pointer()
}
