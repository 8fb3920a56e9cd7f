// The WebApp controller as a team would write it with controller-runtime, for comparison with windlass.
//
// It does the same as plugins/webapp: the same Deployment, Service, status and Events. main.go sets everything up,
// reconciler.go decides, update.go and apply.go contain the two ways of writing, children.go and status.go are pure,
// and api.go defines the kind. density.go is a different controller, of which many run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type settings struct {
	workers  int
	writes   string
	strip    bool
	pods     bool
	operator string
	metrics  string
}

func main() {
	var set settings
	flag.IntVar(&set.workers, "workers", 8, "how many WebApps are reconciled at once")
	flag.StringVar(&set.writes, "writes", "update", "update: create and update; apply: server-side apply")
	flag.BoolVar(&set.strip, "strip", false, "keep no managedFields in the caches")
	flag.BoolVar(&set.pods, "pods", false, "watch and cache all Pods, too")
	flag.StringVar(&set.operator, "operator", "", "run the operator with this number among many, instead of the WebApp controller")
	flag.StringVar(&set.metrics, "metrics", "0", "serve metrics at this address, and elect a leader, who reports some of them; 0 for neither")
	flag.Parse()
	if err := run(set); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(set settings) error {
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	addToScheme(scheme)
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	// The client has no rate limits, because the server has its own.
	config.QPS = -1
	options := ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 metricsserver.Options{BindAddress: set.metrics},
		LeaderElection:          set.metrics != "0",
		LeaderElectionID:        "webapp",
		LeaderElectionNamespace: "default",
	}
	if set.strip {
		options.Cache = cache.Options{DefaultTransform: cache.TransformStripManagedFields()}
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return err
	}
	if set.operator != "" {
		err = registerOperator(mgr, set.operator)
	} else {
		err = register(mgr, set)
	}
	if err != nil {
		return err
	}
	// The manager calls this when the caches have synced.
	ready := manager.RunnableFunc(func(context.Context) error { fmt.Println("ready"); return nil })
	if err := mgr.Add(ready); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func register(mgr manager.Manager, set settings) error {
	r := &reconciler{client: mgr.GetClient(), events: mgr.GetEventRecorder("webapp")}
	switch set.writes {
	case "update":
		r.writer = updater{r.client}
	case "apply":
		r.writer = applier{r.client}
	default:
		return fmt.Errorf("--writes=%s: it must be update or apply", set.writes)
	}
	built := ctrl.NewControllerManagedBy(mgr).
		For(&WebApp{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: set.workers})
	if set.pods {
		nobody := func(context.Context, client.Object) []reconcile.Request { return nil }
		built = built.Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(nobody))
	}
	return built.Complete(r)
}
