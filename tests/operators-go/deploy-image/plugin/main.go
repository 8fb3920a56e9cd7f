// The main program of the plugin: it takes the place of the project's cmd/main.go. It leaves out flags, certificates and
// metrics, which a host serves.
package main

import (
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"

	samplev1alpha1 "sigs.k8s.io/kubebuilder/testdata/project-v4-with-plugins/api/v1alpha1"
	"sigs.k8s.io/kubebuilder/testdata/project-v4-with-plugins/internal/controller"
)

// The project reads its images from the environment of its Pod, which a plugin does not have.
var images = map[string]string{
	"MEMCACHED_IMAGE": "memcached:1.6.26-alpine3.19",
	"BUSYBOX_IMAGE":   "busybox:1.36.1",
}

func main() {
	if err := run(); err != nil {
		ctrl.Log.Error(err, "The manager failed")
		os.Exit(1)
	}
}

func run() error {
	for name, image := range images {
		if err := os.Setenv(name, image); err != nil {
			return err
		}
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, samplev1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	memcached := &controller.MemcachedReconciler{
		Client: mgr.GetClient(), Scheme: mgr.GetScheme(), Recorder: mgr.GetEventRecorder("memcached-controller"),
	}
	if err := memcached.SetupWithManager(mgr); err != nil {
		return err
	}
	busybox := &controller.BusyboxReconciler{
		Client: mgr.GetClient(), Scheme: mgr.GetScheme(), Recorder: mgr.GetEventRecorder("busybox-controller"),
	}
	if err := busybox.SetupWithManager(mgr); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
