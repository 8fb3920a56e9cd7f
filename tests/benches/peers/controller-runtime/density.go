package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// registerOperator sets up one of many operators: it has its own kind, and owns Pods and ConfigMaps.
func registerOperator(mgr manager.Manager, name string) error {
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(schema.GroupVersionKind{
		Group: "op" + name + ".density.windlass.dev", Version: "v1", Kind: "Op" + name,
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("operator").
		For(kind).
		Owns(&corev1.Pod{}).
		Owns(&corev1.ConfigMap{}).
		Complete(&operator{client: mgr.GetClient(), kind: kind})
}

type operator struct {
	client client.Client
	kind   *unstructured.Unstructured
}

// Reconcile reads its object, and logs that it did.
func (o *operator) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := o.kind.DeepCopy()
	if err := o.client.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	log.FromContext(ctx).Info("reconciled")
	return ctrl.Result{}, nil
}
