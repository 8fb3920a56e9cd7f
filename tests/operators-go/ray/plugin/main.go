// The main program of the plugin: it takes the place of KubeRay's main.go. It leaves out flags, files with logs, metrics
// and webhooks, which a host serves.
package main

import (
	"context"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"

	configapi "github.com/ray-project/kuberay/ray-operator/apis/config/v1alpha1"
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
)

func main() {
	if err := run(); err != nil {
		ctrl.Log.Error(err, "The manager failed")
		os.Exit(1)
	}
}

func run() error {
	// As in KubeRay's own test suite.
	if err := os.Setenv(utils.RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV, "10"); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, rayv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	ctx := context.Background()
	options := ray.RayClusterReconcilerOptions{
		HeadSidecarContainers: []corev1.Container{{Name: "fluentbit", Image: "fluent/fluent-bit:1.9.6"}},
	}
	if err := ray.NewReconciler(ctx, mgr, options).SetupWithManager(mgr, 1); err != nil {
		return err
	}
	if err := ray.NewRayServiceReconciler(ctx, mgr, configapi.Configuration{}).SetupWithManager(mgr, 1); err != nil {
		return err
	}
	jobs := ray.NewRayJobReconciler(ctx, mgr, ray.RayJobReconcilerOptions{}, configapi.Configuration{})
	if err := jobs.SetupWithManager(mgr, 1); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
