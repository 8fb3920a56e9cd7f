package handler

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/internal/declared"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// OwnerOption is an option of EnqueueRequestForOwner.
type OwnerOption func(e ownerOptions)

type ownerOptions interface{ setOnlyController() }

// OnlyControllerOwner restricts the owners to the controller.
func OnlyControllerOwner() OwnerOption {
	return func(e ownerOptions) { e.setOnlyController() }
}

// EnqueueRequestForOwner runs the owners of an object that have the kind of ownerType.
func EnqueueRequestForOwner(
	scheme *runtime.Scheme, mapper meta.RESTMapper, ownerType client.Object, opts ...OwnerOption,
) EventHandler {
	return TypedEnqueueRequestForOwner[client.Object](scheme, mapper, ownerType, opts...)
}

// TypedEnqueueRequestForOwner runs the owners of an object that have the kind of ownerType. It panics if the scheme
// does not know that type.
func TypedEnqueueRequestForOwner[object client.Object](
	scheme *runtime.Scheme, mapper meta.RESTMapper, ownerType client.Object, opts ...OwnerOption,
) TypedEventHandler[object, reconcile.Request] {
	kind, err := apiutil.GVKForObject(ownerType, scheme)
	if err != nil {
		panic(fmt.Sprintf("EnqueueRequestForOwner: %v", err))
	}
	made := &forOwner[object]{mapper: mapper, owner: kind}
	for _, opt := range opts {
		opt(made)
	}
	return made
}

type forOwner[object client.Object] struct {
	mapper         meta.RESTMapper
	owner          schema.GroupVersionKind
	onlyController bool
}

func (e *forOwner[object]) setOnlyController() { e.onlyController = true }

// DeclaredMapping is for the manifest.
func (e *forOwner[object]) DeclaredMapping() *declared.Mapping {
	return &declared.Mapping{Owner: e.owner.GroupKind(), OnlyController: e.onlyController}
}

// add adds the requests of an object's owners. Only the server knows whether an owner has a namespace, so both
// possible requests are added. A request for an owner that does not exist costs nothing.
func (e *forOwner[object]) add(found object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	for _, reference := range found.GetOwnerReferences() {
		if e.matches(reference) {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: found.GetNamespace(), Name: reference.Name}})
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: reference.Name}})
		}
	}
}

func (e *forOwner[object]) matches(reference metav1.OwnerReference) bool {
	version, err := schema.ParseGroupVersion(reference.APIVersion)
	isController := reference.Controller != nil && *reference.Controller
	return err == nil && version.Group == e.owner.Group && reference.Kind == e.owner.Kind && (isController || !e.onlyController)
}

func (e *forOwner[object]) Create(
	_ context.Context, evt event.TypedCreateEvent[object], q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	e.add(evt.Object, q)
}

func (e *forOwner[object]) Update(
	_ context.Context, evt event.TypedUpdateEvent[object], q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	e.add(evt.ObjectOld, q)
	e.add(evt.ObjectNew, q)
}

func (e *forOwner[object]) Delete(
	_ context.Context, evt event.TypedDeleteEvent[object], q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	e.add(evt.Object, q)
}

func (e *forOwner[object]) Generic(
	_ context.Context, evt event.TypedGenericEvent[object], q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	e.add(evt.Object, q)
}
