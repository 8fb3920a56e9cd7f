// The main program of the plugin. An operator in a Pod has flags, certificates, probes and metrics here, which a host
// serves.
package main

import (
	"os"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/windlass"
	"windlass.dev/sdk/manifest"

	cronv1 "windlass.dev/plugins/cronjob/api/v1"
	"windlass.dev/plugins/cronjob/controller"
)

func init() {
	windlass.Describe(manifest.Manifest{
		Name: "cronjob", Version: "0.1.0",
		Description: "Starts the Jobs of each CronJob of kubebuilder's book",
		Finalizers:  []string{},
	})
}

func main() {
	if err := run(); err != nil {
		ctrl.Log.Error(err, "the manager failed")
		os.Exit(1)
	}
}

func run() error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{batchv1.AddToScheme, cronv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	reconciler := &controller.CronJobReconciler{
		Client: mgr.GetClient(), Scheme: mgr.GetScheme(), Recorder: mgr.GetEventRecorder("cronjob"), Now: time.Now,
	}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
