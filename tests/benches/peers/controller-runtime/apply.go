package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const owner = client.FieldOwner("webapp")

// applier writes with server-side apply, and only if the cached object differs, because an apply without a change costs
// the server as much as one with a change.
type applier struct{ client client.Client }

func (a applier) deployment(ctx context.Context, app *WebApp) (*appsv1.Deployment, controllerutil.OperationResult, error) {
	child := &appsv1.Deployment{}
	result, err := a.differs(ctx, app, child, func() bool {
		return equality.Semantic.DeepDerivative(deploymentSpec(app), child.Spec)
	})
	if err != nil || result == controllerutil.OperationResultNone {
		return child, result, err
	}
	port := coreapply.ContainerPort().WithName(portName).WithContainerPort(app.Spec.Port).WithProtocol(corev1.ProtocolTCP)
	web := coreapply.Container().WithName(container).WithImage(app.Spec.Image).WithPorts(port)
	template := coreapply.PodTemplateSpec().WithLabels(labels(app)).WithSpec(coreapply.PodSpec().WithContainers(web))
	wanted := appsapply.Deployment(app.Name, app.Namespace).WithLabels(labels(app)).WithOwnerReferences(reference(app)).
		WithSpec(appsapply.DeploymentSpec().WithReplicas(app.Spec.Replicas).
			WithSelector(metaapply.LabelSelector().WithMatchLabels(selector(app))).WithTemplate(template))
	if err := a.client.Apply(ctx, wanted, owner, client.ForceOwnership); err != nil {
		return nil, result, err
	}
	// Only two parts of the answer are needed: the child's name, for an Event, and the counts, for the status.
	applied := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: app.Namespace, UID: *wanted.UID, Generation: *wanted.Generation}}
	applied.Status = child.Status
	return applied, result, nil
}

func (a applier) service(ctx context.Context, app *WebApp) (*corev1.Service, controllerutil.OperationResult, error) {
	child := &corev1.Service{}
	result, err := a.differs(ctx, app, child, func() bool {
		return equality.Semantic.DeepDerivative(serviceSpec(app), child.Spec)
	})
	if err != nil || result == controllerutil.OperationResultNone {
		return child, result, err
	}
	port := coreapply.ServicePort().WithName(portName).WithPort(servicePort).WithTargetPort(intstr.FromString(portName)).WithProtocol(corev1.ProtocolTCP)
	wanted := coreapply.Service(app.Name, app.Namespace).WithLabels(labels(app)).WithOwnerReferences(reference(app)).
		WithSpec(coreapply.ServiceSpec().WithSelector(selector(app)).WithPorts(port))
	if err := a.client.Apply(ctx, wanted, owner, client.ForceOwnership); err != nil {
		return nil, result, err
	}
	applied := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: app.Namespace, UID: *wanted.UID}}
	return applied, result, nil
}

func (a applier) status(ctx context.Context, app *WebApp, status Status) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return err
	}
	wanted := &unstructured.Unstructured{Object: map[string]any{"status": fields}}
	wanted.SetGroupVersionKind(groupVersion.WithKind("WebApp"))
	wanted.SetName(app.Name)
	wanted.SetNamespace(app.Namespace)
	return a.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), owner, client.ForceOwnership)
}

// differs reads a child from the cache, and returns whether it has to be written.
func (a applier) differs(ctx context.Context, app *WebApp, child client.Object, isRight func() bool) (controllerutil.OperationResult, error) {
	err := a.client.Get(ctx, client.ObjectKeyFromObject(app), child)
	switch {
	case apierrors.IsNotFound(err):
		return controllerutil.OperationResultCreated, nil
	case err != nil:
		return controllerutil.OperationResultNone, err
	case metav1.IsControlledBy(child, app) && isRight() && equality.Semantic.DeepDerivative(labels(app), child.GetLabels()):
		return controllerutil.OperationResultNone, nil
	default:
		return controllerutil.OperationResultUpdated, nil
	}
}

func reference(app *WebApp) *metaapply.OwnerReferenceApplyConfiguration {
	return metaapply.OwnerReference().WithAPIVersion(groupVersion.String()).WithKind("WebApp").
		WithName(app.Name).WithUID(app.UID).WithController(true).WithBlockOwnerDeletion(true)
}
