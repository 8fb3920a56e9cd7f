package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// writer is one of the two ways of writing. A correct child is not written.
type writer interface {
	// deployment creates or corrects the Deployment, and returns its current state.
	deployment(context.Context, *WebApp) (*appsv1.Deployment, controllerutil.OperationResult, error)
	service(context.Context, *WebApp) (*corev1.Service, controllerutil.OperationResult, error)
	status(context.Context, *WebApp, Status) error
}

type reconciler struct {
	client client.Client
	events events.EventRecorder
	writer writer
}

// Reconcile creates or corrects both children, and writes the status if it has changed.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var app WebApp
	if err := r.client.Get(ctx, request.NamespacedName, &app); err != nil || app.DeletionTimestamp != nil {
		// The garbage collector deletes the children, because they have an owner.
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	deployment, result, err := r.writer.deployment(ctx, &app)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("deployment: %w", err)
	}
	r.announce(ctx, &app, deployment, "Deployment", result)
	service, result, err := r.writer.service(ctx, &app)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("service: %w", err)
	}
	r.announce(ctx, &app, service, "Service", result)
	status := statusOf(&app, deployment)
	if equality.Semantic.DeepEqual(status, app.Status) {
		return ctrl.Result{}, nil
	}
	if err := r.writer.status(ctx, &app, status); err != nil {
		return ctrl.Result{}, fmt.Errorf("status: %w", err)
	}
	return ctrl.Result{}, nil
}

func (r *reconciler) announce(ctx context.Context, app *WebApp, child client.Object, kind string, result controllerutil.OperationResult) {
	reason, action, what := "Updated", "Update", "updated to the new spec"
	switch result {
	case controllerutil.OperationResultNone:
		return
	case controllerutil.OperationResultCreated:
		reason, action, what = "Created", "Create", "created"
	}
	log.FromContext(ctx).Info("applied a child", "kind", kind, "reason", reason)
	r.events.Eventf(app, child, corev1.EventTypeNormal, reason, action, "%s %s: %s", kind, child.GetName(), what)
}
