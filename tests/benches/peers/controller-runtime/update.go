package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// updater writes like most controllers: it creates missing objects, and updates objects that differ in the cache.
type updater struct{ client client.Client }

func (u updater) deployment(ctx context.Context, app *WebApp) (*appsv1.Deployment, controllerutil.OperationResult, error) {
	child := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: app.Namespace}}
	result, err := controllerutil.CreateOrUpdate(ctx, u.client, child, func() error {
		wanted := deploymentSpec(app)
		setLabels(child, app)
		child.Spec.Replicas = wanted.Replicas
		if child.Spec.Selector == nil {
			child.Spec.Selector = wanted.Selector
		}
		child.Spec.Template.Labels = wanted.Template.Labels
		if len(child.Spec.Template.Spec.Containers) == 0 {
			child.Spec.Template.Spec.Containers = wanted.Template.Spec.Containers
		}
		web := &child.Spec.Template.Spec.Containers[0]
		web.Image, web.Ports = app.Spec.Image, wanted.Template.Spec.Containers[0].Ports
		return controllerutil.SetControllerReference(app, child, u.client.Scheme())
	})
	return child, result, err
}

func (u updater) service(ctx context.Context, app *WebApp) (*corev1.Service, controllerutil.OperationResult, error) {
	child := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: app.Namespace}}
	result, err := controllerutil.CreateOrUpdate(ctx, u.client, child, func() error {
		wanted := serviceSpec(app)
		setLabels(child, app)
		child.Spec.Selector, child.Spec.Ports = wanted.Selector, wanted.Ports
		return controllerutil.SetControllerReference(app, child, u.client.Scheme())
	})
	return child, result, err
}

func (u updater) status(ctx context.Context, app *WebApp, status Status) error {
	app.Status = status
	return u.client.Status().Update(ctx, app)
}

func setLabels(child client.Object, app *WebApp) {
	merged := child.GetLabels()
	if merged == nil {
		merged = map[string]string{}
	}
	for name, value := range labels(app) {
		merged[name] = value
	}
	child.SetLabels(merged)
}
