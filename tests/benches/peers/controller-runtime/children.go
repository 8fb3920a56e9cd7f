package main

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The desired children of a WebApp. Pure: nothing here calls the server.

const (
	servicePort = 80
	portName    = "http"
	container   = "web"
)

func selector(app *WebApp) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "webapp", "app.kubernetes.io/instance": app.Name}
}

// labels are exactly the plugin's labels, so that a contender finds nothing to correct in the previous contender's
// objects.
func labels(app *WebApp) map[string]string {
	labels := selector(app)
	labels["app.kubernetes.io/managed-by"] = "windlass"
	return labels
}

func deploymentSpec(app *WebApp) appsv1.DeploymentSpec {
	ports := []corev1.ContainerPort{{Name: portName, ContainerPort: app.Spec.Port, Protocol: corev1.ProtocolTCP}}
	containers := []corev1.Container{{Name: container, Image: app.Spec.Image, Ports: ports}}
	return appsv1.DeploymentSpec{
		Replicas: &app.Spec.Replicas,
		Selector: &metav1.LabelSelector{MatchLabels: selector(app)},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels(app)},
			Spec:       corev1.PodSpec{Containers: containers},
		},
	}
}

func serviceSpec(app *WebApp) corev1.ServiceSpec {
	port := corev1.ServicePort{Name: portName, Port: servicePort, TargetPort: intstr.FromString(portName), Protocol: corev1.ProtocolTCP}
	return corev1.ServiceSpec{Selector: selector(app), Ports: []corev1.ServicePort{port}}
}
