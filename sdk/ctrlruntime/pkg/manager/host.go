package manager

import (
	"context"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/internal/mapper"
	"sigs.k8s.io/controller-runtime/internal/refused"
	"sigs.k8s.io/controller-runtime/internal/registry"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// New returns a manager. The configuration has no effect.
func New(configuration *rest.Config, options Options) (Manager, error) {
	if options.Scheme == nil {
		options.Scheme = scheme.Scheme
	}
	if options.Client.Scheme == nil {
		options.Client.Scheme = options.Scheme
	}
	restMapper := &mapper.Mapper{Closed: closed}
	if options.Client.Mapper == nil {
		options.Client.Mapper = restMapper
	}
	cached, err := client.NewCached(client.Options{Scheme: options.Scheme, Mapper: restMapper})
	if err != nil {
		return nil, err
	}
	cacheOptions := client.CacheOptions{}
	if options.Client.Cache != nil {
		cacheOptions = *options.Client.Cache
	}
	if cacheOptions.Reader == nil {
		cacheOptions.Reader = &hostCache{cached}
	}
	options.Client.Cache = &cacheOptions
	newClient := options.NewClient
	if newClient == nil {
		newClient = client.New
	}
	made, err := newClient(configuration, options.Client)
	if err != nil {
		return nil, err
	}
	live, err := client.New(configuration, client.Options{Scheme: options.Scheme, Mapper: restMapper})
	if err != nil {
		return nil, err
	}
	if err := restrict(options.Scheme, options.Cache); err != nil {
		return nil, err
	}
	return &manager{options: options, client: made, cached: cached, live: live, mapper: restMapper}, nil
}

// closed is the error of the mapper during the set-up.
func closed() error {
	if registry.IsStarted() {
		return nil
	}
	return refused.Call("asking the RESTMapper during the set-up", "the manifest must be the same on every cluster",
		"ask in the reconciler (client.RESTMapper()), or watch the kind always: a controller waits for kinds that are not served")
}

// restrict passes the restrictions of caches on to the manifest.
func restrict(scheme *runtime.Scheme, options cache.Options) error {
	registry.Resync(options.SyncPeriod)
	if err := checkTransforms(options); err != nil {
		return err
	}
	all := registry.Scope{
		LabelSelector: selectorText(options.DefaultLabelSelector), FieldSelector: fieldText(options.DefaultFieldSelector),
	}
	if err := narrow(&all, options.DefaultNamespaces); err != nil {
		return err
	}
	registry.Restrict(schema.GroupKind{}, all)
	for object, by := range options.ByObject {
		kind, err := apiutil.GVKForObject(object, scheme)
		if err != nil {
			return err
		}
		scope := all
		if by.Label != nil {
			scope.LabelSelector = selectorText(by.Label)
		}
		if by.Field != nil {
			scope.FieldSelector = fieldText(by.Field)
		}
		if err := narrow(&scope, by.Namespaces); err != nil {
			return err
		}
		registry.Restrict(kind.GroupKind(), scope)
	}
	return nil
}

// checkTransforms refuses functions that change objects before they are cached: reconcilers would see other objects.
func checkTransforms(options cache.Options) error {
	all := []cache.TransformFunc{options.DefaultTransform}
	configs := func(of map[string]cache.Config) {
		for _, config := range of {
			all = append(all, config.Transform)
		}
	}
	configs(options.DefaultNamespaces)
	for _, by := range options.ByObject {
		all = append(all, by.Transform)
		configs(by.Namespaces)
	}
	for _, transform := range all {
		if !cache.IsWithoutEffect(transform) {
			return refused.Call("a transform function in cache.Options", "the host's caches run no code of the plugin",
				"remove it. If it only saves memory, nothing else is needed: the host's caches leave managedFields out, and its OnlyMetadata "+
					"watches keep metadata alone. If it changes what reconcilers see, change the objects after reading them")
		}
	}
	return nil
}

// narrow sets the namespaces of a scope. The selectors of a namespace replace the selectors of the scope.
func narrow(scope *registry.Scope, namespaces map[string]cache.Config) error {
	if namespaces == nil {
		return nil
	}
	scope.Namespaces = slices.Sorted(maps.Keys(namespaces))
	for _, one := range namespaces {
		if one.LabelSelector == nil && one.FieldSelector == nil {
			continue
		}
		if len(namespaces) > 1 {
			return refused.Call("a selector of one of several namespaces in cache.Options", "a watch has the same selectors in all of its "+
				"namespaces", "set DefaultLabelSelector or ByObject's Label")
		}
		if one.LabelSelector != nil {
			scope.LabelSelector = selectorText(one.LabelSelector)
		}
		if one.FieldSelector != nil {
			scope.FieldSelector = fieldText(one.FieldSelector)
		}
	}
	if _, everywhere := namespaces[cache.AllNamespaces]; everywhere {
		scope.Namespaces = nil
	}
	return nil
}

func selectorText(selector labels.Selector) string {
	if selector == nil {
		return ""
	}
	return selector.String()
}

func fieldText(selector fields.Selector) string {
	if selector == nil {
		return ""
	}
	return selector.String()
}

type manager struct {
	options Options
	client  client.Client
	// cached is the client of the cache.
	cached client.Client
	live   client.Client
	mapper meta.RESTMapper
}

func (m *manager) Add(Runnable) error { return refuseAdd() }

func (*manager) Elected() <-chan struct{} {
	elected := make(chan struct{})
	close(elected)
	return elected
}

func (*manager) AddHealthzCheck(string, healthz.Checker) error { return nil }

func (*manager) AddReadyzCheck(string, healthz.Checker) error { return nil }

func (*manager) Start(ctx context.Context) error {
	registry.Start(ctx)
	return nil
}

func (m *manager) GetWebhookServer() webhook.Server {
	if m.options.WebhookServer != nil {
		return m.options.WebhookServer
	}
	return webhook.NewServer(webhook.Options{})
}

func (m *manager) GetLogger() logr.Logger { return log.Log }

func (m *manager) GetControllerOptions() config.Controller { return m.options.Controller }

func (*manager) GetConfig() *rest.Config { return &rest.Config{} }

func (m *manager) GetScheme() *runtime.Scheme { return m.options.Scheme }

func (m *manager) GetClient() client.Client { return m.client }

func (m *manager) GetAPIReader() client.Reader { return m.live }

func (m *manager) GetRESTMapper() meta.RESTMapper { return m.mapper }

func (m *manager) GetFieldIndexer() client.FieldIndexer { return m.GetCache() }

func (m *manager) GetCache() cache.Cache { return &hostCache{m.cached} }

func (m *manager) GetEventRecorderFor(string) record.EventRecorder {
	return &oldRecorder{recorder{m.options.Scheme}}
}

func (m *manager) GetEventRecorder(string) events.EventRecorder {
	return &newRecorder{recorder{m.options.Scheme}}
}
