package reconcile

import (
	"context"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

type objectReconciler[object client.Object] struct {
	client     client.Client
	reconciler ObjectReconciler[object]
}

func (r *objectReconciler[object]) Reconcile(ctx context.Context, request Request) (Result, error) {
	kind := reflect.TypeFor[object]()
	if kind.Kind() != reflect.Pointer {
		return Result{}, TerminalError(errNotAPointer)
	}
	found := reflect.New(kind.Elem()).Interface().(object)
	if err := r.client.Get(ctx, request.NamespacedName, found); err != nil {
		return Result{}, client.IgnoreNotFound(err)
	}
	return r.reconciler.Reconcile(ctx, found)
}
