package main

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusOf returns the new status, which equals the old one if nothing has changed.
func statusOf(app *WebApp, deployment *appsv1.Deployment) Status {
	isAboutThis := deployment.Status.ObservedGeneration >= deployment.Generation
	isComplete := isAboutThis && deployment.Status.UpdatedReplicas >= app.Spec.Replicas
	ready := deployment.Status.ReadyReplicas
	isReady := isComplete && ready >= app.Spec.Replicas
	status := Status{ObservedGeneration: app.Generation, ReadyReplicas: ready, Phase: phaseOf(app, isReady)}
	status.Conditions = append(status.Conditions, app.Status.Conditions...)
	for _, condition := range conditionsOf(app, ready, isReady, isComplete) {
		condition.ObservedGeneration = app.Generation
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	return status
}

func phaseOf(app *WebApp, isReady bool) string {
	wasReady := app.Status.Phase == "Running" || app.Status.Phase == "Degraded"
	switch {
	case isReady:
		return "Running"
	case wasReady && app.Status.ObservedGeneration == app.Generation:
		return "Degraded"
	default:
		return "Pending"
	}
}

func conditionsOf(app *WebApp, replicas int32, isReady, isComplete bool) []metav1.Condition {
	count := fmt.Sprintf("%d of %d replicas are ready", replicas, app.Spec.Replicas)
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "ReplicasNotReady", Message: count}
	if isReady {
		ready.Status, ready.Reason = metav1.ConditionTrue, "ReplicasReady"
	}
	progressing := metav1.Condition{Type: "Progressing", Status: metav1.ConditionTrue, Reason: "RollingOut", Message: "the Deployment is rolling out this spec"}
	if isComplete {
		progressing.Status, progressing.Reason, progressing.Message = metav1.ConditionFalse, "RolledOut", "the Deployment runs this spec"
	}
	return []metav1.Condition{ready, progressing}
}
