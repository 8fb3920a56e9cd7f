// Package handler maps events of watched objects to the requests of the primaries that they concern.
//
// EnqueueRequestForObject and EnqueueRequestForOwner become mappings of the plugin's manifest, where they fit. The host
// calls the plugin for all other handlers.
package handler

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/internal/declared"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// EventHandler is a TypedEventHandler of any object.
type EventHandler = TypedEventHandler[client.Object, reconcile.Request]

// TypedEventHandler adds the requests that an event concerns to a queue. This queue is not the host's queue. Each
// request in it at the end runs at once, whatever method added it.
type TypedEventHandler[object any, request comparable] interface {
	Create(context.Context, event.TypedCreateEvent[object], workqueue.TypedRateLimitingInterface[request])
	Update(context.Context, event.TypedUpdateEvent[object], workqueue.TypedRateLimitingInterface[request])
	Delete(context.Context, event.TypedDeleteEvent[object], workqueue.TypedRateLimitingInterface[request])
	// Generic is never called.
	Generic(context.Context, event.TypedGenericEvent[object], workqueue.TypedRateLimitingInterface[request])
}

// Funcs is a TypedFuncs of any object.
type Funcs = TypedFuncs[client.Object, reconcile.Request]

// TypedFuncs is a handler of functions. Events without a function concern no request.
type TypedFuncs[object any, request comparable] struct {
	CreateFunc  func(context.Context, event.TypedCreateEvent[object], workqueue.TypedRateLimitingInterface[request])
	UpdateFunc  func(context.Context, event.TypedUpdateEvent[object], workqueue.TypedRateLimitingInterface[request])
	DeleteFunc  func(context.Context, event.TypedDeleteEvent[object], workqueue.TypedRateLimitingInterface[request])
	GenericFunc func(context.Context, event.TypedGenericEvent[object], workqueue.TypedRateLimitingInterface[request])
}

func (h TypedFuncs[object, request]) Create(
	ctx context.Context, e event.TypedCreateEvent[object], q workqueue.TypedRateLimitingInterface[request],
) {
	if h.CreateFunc != nil {
		h.CreateFunc(ctx, e, q)
	}
}

func (h TypedFuncs[object, request]) Update(
	ctx context.Context, e event.TypedUpdateEvent[object], q workqueue.TypedRateLimitingInterface[request],
) {
	if h.UpdateFunc != nil {
		h.UpdateFunc(ctx, e, q)
	}
}

func (h TypedFuncs[object, request]) Delete(
	ctx context.Context, e event.TypedDeleteEvent[object], q workqueue.TypedRateLimitingInterface[request],
) {
	if h.DeleteFunc != nil {
		h.DeleteFunc(ctx, e, q)
	}
}

func (h TypedFuncs[object, request]) Generic(
	ctx context.Context, e event.TypedGenericEvent[object], q workqueue.TypedRateLimitingInterface[request],
) {
	if h.GenericFunc != nil {
		h.GenericFunc(ctx, e, q)
	}
}

// MapFunc is a TypedMapFunc of any object.
type MapFunc = TypedMapFunc[client.Object, reconcile.Request]

// TypedMapFunc returns the requests that an object concerns. It may read watched kinds, and must not write. The host drops
// requests for primaries that do not exist.
type TypedMapFunc[object any, request comparable] func(context.Context, object) []request

// EnqueueRequestsFromMapFunc returns a handler that calls a function. For an update, it calls the function twice, with
// the old and with the new object.
func EnqueueRequestsFromMapFunc(fn MapFunc) EventHandler {
	return TypedEnqueueRequestsFromMapFunc(fn)
}

// TypedEnqueueRequestsFromMapFunc returns a handler that calls a function. For an update, it calls the function twice,
// with the old and with the new object.
func TypedEnqueueRequestsFromMapFunc[object any, request comparable](fn TypedMapFunc[object, request]) TypedEventHandler[object, request] {
	add := func(ctx context.Context, q workqueue.TypedRateLimitingInterface[request], objects ...object) {
		for _, object := range objects {
			for _, request := range fn(ctx, object) {
				q.Add(request)
			}
		}
	}
	return TypedFuncs[object, request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[object], q workqueue.TypedRateLimitingInterface[request]) {
			add(ctx, q, e.Object)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[object], q workqueue.TypedRateLimitingInterface[request]) {
			add(ctx, q, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[object], q workqueue.TypedRateLimitingInterface[request]) {
			add(ctx, q, e.Object)
		},
	}
}

// EnqueueRequestForObject is a TypedEnqueueRequestForObject of any object.
type EnqueueRequestForObject = TypedEnqueueRequestForObject[client.Object]

// TypedEnqueueRequestForObject runs the request with the namespace and name of the object.
type TypedEnqueueRequestForObject[object client.Object] struct{}

// requestOf is the request with the namespace and name of an object.
func requestOf(object client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}
}

func (*TypedEnqueueRequestForObject[T]) Create(
	_ context.Context, e event.TypedCreateEvent[T], q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	q.Add(requestOf(e.Object))
}

func (*TypedEnqueueRequestForObject[T]) Update(
	_ context.Context, e event.TypedUpdateEvent[T], q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	q.Add(requestOf(e.ObjectNew))
}

func (*TypedEnqueueRequestForObject[T]) Delete(
	_ context.Context, e event.TypedDeleteEvent[T], q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	q.Add(requestOf(e.Object))
}

func (*TypedEnqueueRequestForObject[T]) Generic(
	_ context.Context, e event.TypedGenericEvent[T], q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	q.Add(requestOf(e.Object))
}

// DeclaredMapping is for the manifest.
func (*TypedEnqueueRequestForObject[T]) DeclaredMapping() *declared.Mapping {
	return &declared.Mapping{SameName: true}
}

// LowPriority is the priority of requests for objects that have not changed. The host orders its queue itself.
const LowPriority = -100

// WithLowPriorityWhenUnchanged returns the handler unchanged, because the host orders its queue itself.
func WithLowPriorityWhenUnchanged[object client.Object, request comparable](
	u TypedEventHandler[object, request],
) TypedEventHandler[object, request] {
	return u
}
