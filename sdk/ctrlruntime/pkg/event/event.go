// Package event has the changes of objects that predicates and handlers receive.
package event

import "sigs.k8s.io/controller-runtime/pkg/client"

type (
	// CreateEvent is a TypedCreateEvent of any object.
	CreateEvent = TypedCreateEvent[client.Object]
	// UpdateEvent is a TypedUpdateEvent of any object.
	UpdateEvent = TypedUpdateEvent[client.Object]
	// DeleteEvent is a TypedDeleteEvent of any object.
	DeleteEvent = TypedDeleteEvent[client.Object]
	// GenericEvent is a TypedGenericEvent of any object.
	GenericEvent = TypedGenericEvent[client.Object]
)

// TypedCreateEvent says that a watch shows an object for the first time.
type TypedCreateEvent[object any] struct {
	Object object
	// IsInInitialList is never set: the host does not say which objects belong to a watch's first list.
	IsInInitialList bool
}

// TypedUpdateEvent says that an object has changed.
type TypedUpdateEvent[object any] struct {
	ObjectOld object
	ObjectNew object
}

// TypedDeleteEvent says that an object was deleted, or has left the watch's selectors.
type TypedDeleteEvent[object any] struct {
	// Object is the last known state.
	Object object
	// DeleteStateUnknown is never set.
	DeleteStateUnknown bool
}

// TypedGenericEvent is an event from outside the cluster. The host never sends one.
type TypedGenericEvent[object any] struct {
	Object object
}
