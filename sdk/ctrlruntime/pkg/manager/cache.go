package manager

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/internal/kinds"
	"sigs.k8s.io/controller-runtime/internal/refused"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hostCache reads from the host's caches.
type hostCache struct{ client client.Client }

func (c *hostCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.client.Get(ctx, key, obj, opts...)
}

func (c *hostCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.client.List(ctx, list, opts...)
}

func refuseInformer() error {
	return refused.Call("an informer of its own", "no code of a plugin runs between calls, so nothing can handle its events",
		"watch the kind by a controller: Watches with a map function")
}

func (*hostCache) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, refuseInformer()
}

func (*hostCache) GetInformerForKind(
	context.Context, schema.GroupVersionKind, ...cache.InformerGetOption,
) (cache.Informer, error) {
	return nil, refuseInformer()
}

func (*hostCache) RemoveInformer(context.Context, client.Object) error { return nil }

func (*hostCache) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (*hostCache) WaitForCacheSync(context.Context) bool { return true }

func (c *hostCache) IndexField(_ context.Context, obj client.Object, field string, extractValue client.IndexerFunc) error {
	kind, err := c.client.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	values := func(object any) []string { return extractValue(object.(client.Object)) }
	if !kinds.Index(kind, reflect.TypeOf(obj), field, values) {
		return fmt.Errorf("there is an index %q over %s already", field, kind.Kind)
	}
	return nil
}
