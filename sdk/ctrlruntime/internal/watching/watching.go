// Package watching describes the watches of controllers without their Go types: the parts that the manifest can
// express, and functions for all other parts.
package watching

import (
	"context"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/internal/codec"
	"sigs.k8s.io/controller-runtime/internal/declared"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Watch is a watch of a controller.
type Watch struct {
	// Object has the Go type of the objects.
	Object client.Object
	// OnlyMetadata is true if the objects are PartialObjectMetadata.
	OnlyMetadata bool
	// Updates are the predicates that the manifest can express; nil if there are none.
	Updates *declared.Updates
	// Judge evaluates the other predicates, for a creation (without an old object) or an update; nil if there are none.
	Judge func(before, now client.Object) bool
	// Mapping is the handler as the manifest expresses it, or nil if the manifest cannot.
	Mapping *declared.Mapping
	// Map runs the handler, for an event with the old object, the new one, or both.
	Map func(ctx context.Context, before, now client.Object) []reconcile.Request
}

// Of describes a watch. The object is also the type of the events that predicates and the handler receive.
func Of[object client.Object](
	of object, by handler.TypedEventHandler[object, reconcile.Request], predicates ...predicate.TypedPredicate[object],
) *Watch {
	_, isPartial := any(of).(*metav1.PartialObjectMetadata)
	watch := &Watch{Object: of, OnlyMetadata: isPartial, Mapping: declared.OfHandler(by), Updates: declared.Predicates()}
	var judges []predicate.TypedPredicate[object]
	for _, one := range predicates {
		if updates := declared.OfPredicate(one); updates != nil {
			watch.Updates = watch.Updates.And(updates)
		} else {
			judges = append(judges, one)
		}
	}
	if judges != nil {
		all := predicate.And(judges...)
		watch.Judge = func(before, now client.Object) bool {
			if before == nil {
				return all.Create(event.TypedCreateEvent[object]{Object: now.(object)})
			}
			return all.Update(event.TypedUpdateEvent[object]{ObjectOld: before.(object), ObjectNew: now.(object)})
		}
	}
	// Here only the handler's own code can refuse a deletion, because the host has already decided that the deletion
	// counts.
	deletes := predicate.And(predicates...)
	watch.Map = func(ctx context.Context, before, now client.Object) []reconcile.Request {
		queue := &requests{}
		switch {
		case before == nil:
			by.Create(ctx, event.TypedCreateEvent[object]{Object: now.(object)}, queue)
		case now != nil:
			by.Update(ctx, event.TypedUpdateEvent[object]{ObjectOld: before.(object), ObjectNew: now.(object)}, queue)
		default:
			if deleted := (event.TypedDeleteEvent[object]{Object: before.(object)}); deletes.Delete(deleted) {
				by.Delete(ctx, deleted, queue)
			}
		}
		return queue.found
	}
	return watch
}

// Decode reads a state of an object of this watch; nil for an empty document.
func (watch *Watch) Decode(document []byte, kind schema.GroupVersionKind) (client.Object, error) {
	if len(document) == 0 {
		return nil, nil
	}
	object, is := reflect.New(reflect.TypeOf(watch.Object).Elem()).Interface().(client.Object)
	if !is {
		return nil, fmt.Errorf("%T is no object", watch.Object)
	}
	if err := codec.Decode(document, object); err != nil {
		return nil, err
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	return object, nil
}
