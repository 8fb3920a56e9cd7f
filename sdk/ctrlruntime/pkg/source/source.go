// Package source has the sources of a controller's events. Only objects of the cluster can be a source.
package source

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/internal/refused"
	"sigs.k8s.io/controller-runtime/internal/watching"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Source is a TypedSource of requests.
type Source = TypedSource[reconcile.Request]

// TypedSource is a source of events. The host calls no source; a controller uses the description of its
// sources.
type TypedSource[request comparable] interface {
	Start(context.Context, workqueue.TypedRateLimitingInterface[request]) error
}

// SyncingSource is a TypedSyncingSource of requests.
type SyncingSource = TypedSyncingSource[reconcile.Request]

// TypedSyncingSource is a source that has a first list.
type TypedSyncingSource[request comparable] interface {
	TypedSource[request]
	WaitForSync(ctx context.Context) error
}

// Kind returns a source of the events of a kind.
func Kind[object client.Object](
	cache cache.Cache, obj object, handler handler.TypedEventHandler[object, reconcile.Request],
	predicates ...predicate.TypedPredicate[object],
) SyncingSource {
	return TypedKind(cache, obj, handler, predicates...)
}

// TypedKind returns a source of the events of a kind. The requests must be of the type reconcile.Request.
func TypedKind[object client.Object, request comparable](
	_ cache.Cache, obj object, by handler.TypedEventHandler[object, request], predicates ...predicate.TypedPredicate[object],
) TypedSyncingSource[request] {
	made := &kind[request]{}
	if fits, is := any(by).(handler.TypedEventHandler[object, reconcile.Request]); is {
		made.watch = watching.Of(obj, fits, predicates...)
	}
	return made
}

type kind[request comparable] struct{ watch *watching.Watch }

// DeclaredWatch is for the controller; nil if the type of requests is not reconcile.Request.
func (k *kind[request]) DeclaredWatch() *watching.Watch { return k.watch }

// Start does nothing: the host watches.
func (*kind[request]) Start(context.Context, workqueue.TypedRateLimitingInterface[request]) error {
	return nil
}

// WaitForSync returns at once: the host makes no call before its caches have their first lists.
func (*kind[request]) WaitForSync(context.Context) error { return nil }

// Func is a TypedFunc of requests.
type Func = TypedFunc[reconcile.Request]

// TypedFunc is a function as a source. A controller refuses it.
type TypedFunc[request comparable] func(context.Context, workqueue.TypedRateLimitingInterface[request]) error

// Start calls the function.
func (f TypedFunc[request]) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[request]) error {
	return f(ctx, queue)
}

// ChannelOpt is an option of Channel.
type ChannelOpt[object any, request comparable] func(*channel[object, request])

type channel[object any, request comparable] struct{}

// Start is refused.
func (*channel[object, request]) Start(context.Context, workqueue.TypedRateLimitingInterface[request]) error {
	return refuseChannel()
}

func refuseChannel() error {
	return refused.Call("source.Channel", "no code of a plugin runs between calls, so nothing can send an event",
		"have a watch cause the call, or return a Result with RequeueAfter and look again")
}

// WithPredicates is an option of Channel.
func WithPredicates[object any, request comparable](...predicate.TypedPredicate[object]) ChannelOpt[object, request] {
	return func(*channel[object, request]) {}
}

// WithBufferSize is an option of Channel.
func WithBufferSize[object any, request comparable](int) ChannelOpt[object, request] {
	return func(*channel[object, request]) {}
}

// Channel returns a source that a controller refuses.
func Channel[object any](
	source <-chan event.TypedGenericEvent[object], handler handler.TypedEventHandler[object, reconcile.Request],
	opts ...ChannelOpt[object, reconcile.Request],
) Source {
	return TypedChannel(source, handler, opts...)
}

// TypedChannel returns a source that a controller refuses.
func TypedChannel[object any, request comparable](
	<-chan event.TypedGenericEvent[object], handler.TypedEventHandler[object, request], ...ChannelOpt[object, request],
) TypedSource[request] {
	return &channel[object, request]{}
}
