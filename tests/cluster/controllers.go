package main

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	cacheddiscovery "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
)

// resync is client-go's period for replaying an informer's store; no test lasts long enough to see it.
const resync = 12 * time.Hour

// controller is one of Kubernetes' controllers, constructed but not running.
type controller struct {
	run func(context.Context)
	// synced reports whether the controller has synced, if it has caches other than the shared informers; otherwise it
	// is nil.
	synced func() bool
}

// environment has what the constructors share. Informers requested from it start after all constructors have run.
type environment struct {
	*clients
	informers         informers.SharedInformerFactory
	metadataInformers metadatainformer.SharedInformerFactory
	informersStarted  chan struct{}
	gcSyncPeriod      time.Duration
}

// constructors are in the order of --help. They replace kube-controller-manager, which fixes the discovery interval of
// the garbage collector at 30 s, and starts forty controllers that no test needs.
var constructors = []struct {
	name string
	make func(context.Context, *environment) (controller, error)
}{
	{"garbage-collector", newGarbageCollector},
	{"namespace", newNamespaceController},
	{"deployment", newDeploymentController},
	{"replica-set", newReplicaSetController},
	{"service-account", newServiceAccountController},
	{"endpoint-slice", newEndpointSliceController},
	{"fake-kubelet", newFakeKubelet},
}

func controllerNames() []string {
	names := make([]string, 0, len(constructors))
	for _, c := range constructors {
		names = append(names, c.name)
	}
	return names
}

// startControllers runs the selected controllers until ctx ends. It returns once all have synced, or startCtx ends.
func startControllers(ctx, startCtx context.Context, cfg *config, clients *clients) error {
	env := &environment{
		clients:           clients,
		informers:         informers.NewSharedInformerFactory(clients.typed, resync),
		metadataInformers: metadatainformer.NewSharedInformerFactory(clients.metadata, resync),
		informersStarted:  make(chan struct{}),
		gcSyncPeriod:      cfg.gcSyncPeriod,
	}
	controllers, err := construct(ctx, env, cfg.controllers)
	if err != nil {
		return err
	}
	env.informers.Start(ctx.Done())
	env.metadataInformers.Start(ctx.Done())
	close(env.informersStarted)
	for _, c := range controllers {
		go c.run(ctx)
	}
	return waitUntilSynced(startCtx, env, controllers)
}

func construct(ctx context.Context, env *environment, names []string) ([]controller, error) {
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[name] = true
	}
	var controllers []controller
	for _, c := range constructors {
		if !wanted[c.name] {
			continue
		}
		built, err := c.make(ctx, env)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		controllers = append(controllers, built)
	}
	return controllers, nil
}

func waitUntilSynced(ctx context.Context, env *environment, controllers []controller) error {
	for informer, synced := range env.informers.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("the informer of %s: %w", informer, context.Cause(ctx))
		}
	}
	for resource, synced := range env.metadataInformers.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("the informer of %s: %w", resource, context.Cause(ctx))
		}
	}
	for _, c := range controllers {
		if c.synced == nil {
			continue
		}
		err := wait.PollUntilContextCancel(ctx, 25*time.Millisecond, true, func(context.Context) (bool, error) { return c.synced(), nil })
		if err != nil {
			return err
		}
	}
	return nil
}

func newGarbageCollector(ctx context.Context, env *environment) (controller, error) {
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cacheddiscovery.NewMemCacheClient(env.typed.Discovery()))
	gc, err := garbagecollector.NewGarbageCollector(ctx, env.typed, env.metadata, mapper, garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(env.informers, env.metadataInformers), env.informersStarted)
	if err != nil {
		return controller{}, err
	}
	logger := klog.FromContext(ctx)
	return controller{
		run: func(ctx context.Context) {
			go gc.Sync(ctx, env.typed.Discovery(), env.gcSyncPeriod)
			gc.Run(ctx, 20, 30*time.Second)
		},
		synced: func() bool { return gc.IsSynced(logger) },
	}, nil
}

func newNamespaceController(ctx context.Context, env *environment) (controller, error) {
	c := namespace.NewNamespaceController(ctx, env.typed, env.metadata, env.typed.Discovery().ServerPreferredNamespacedResources,
		env.informers.Core().V1().Namespaces(), 5*time.Minute, v1.FinalizerKubernetes)
	return controller{run: func(ctx context.Context) { c.Run(ctx, 10) }}, nil
}

func newDeploymentController(ctx context.Context, env *environment) (controller, error) {
	c, err := deployment.NewDeploymentController(ctx, env.informers.Apps().V1().Deployments(),
		env.informers.Apps().V1().ReplicaSets(), env.informers.Core().V1().Pods(), env.typed)
	if err != nil {
		return controller{}, err
	}
	return controller{run: func(ctx context.Context) { c.Run(ctx, 5) }}, nil
}

func newReplicaSetController(ctx context.Context, env *environment) (controller, error) {
	c := replicaset.NewReplicaSetController(ctx, env.informers.Apps().V1().ReplicaSets(),
		env.informers.Core().V1().Pods(), env.typed, replicaset.BurstReplicas)
	return controller{run: func(ctx context.Context) { c.Run(ctx, 5) }}, nil
}

func newServiceAccountController(ctx context.Context, env *environment) (controller, error) {
	c, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), env.informers.Core().V1().ServiceAccounts(),
		env.informers.Core().V1().Namespaces(), env.typed, serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return controller{}, err
	}
	return controller{run: func(ctx context.Context) { c.Run(ctx, 1) }}, nil
}

func newEndpointSliceController(ctx context.Context, env *environment) (controller, error) {
	core := env.informers.Core().V1()
	c := endpointslice.NewController(ctx, core.Pods(), core.Services(), core.Nodes(),
		env.informers.Discovery().V1().EndpointSlices(), 100, env.typed, 0)
	return controller{run: func(ctx context.Context) { c.Run(ctx, 5) }}, nil
}
