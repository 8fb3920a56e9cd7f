package builder_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/internal/kinds"
	"sigs.k8s.io/controller-runtime/internal/refused"
	"sigs.k8s.io/controller-runtime/internal/registry"
	"sigs.k8s.io/controller-runtime/internal/setup"
	"sigs.k8s.io/controller-runtime/internal/shop"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/windlass"
	sdk "windlass.dev/sdk"
	"windlass.dev/sdk/manifest"
	"windlass.dev/sdk/windlasstest"
)

var nothing = reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })

// newManager returns a manager of a plugin without any controller.
func newManager(t *testing.T, options manager.Options) manager.Manager {
	t.Helper()
	forget := func() {
		registry.Reset()
		refused.Reset()
		kinds.Reset()
	}
	forget()
	t.Cleanup(forget)
	options.Scheme = runtime.NewScheme()
	if err := shop.AddToScheme(options.Scheme); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), options)
	if err != nil {
		t.Fatal(err)
	}
	windlass.Describe(manifest.Manifest{Name: "shops"})
	windlass.Reads()
	return mgr
}

// start ends the set-up and returns the controllers of the manifest as JSON, without their options.
func start(t *testing.T, mgr manager.Manager) string {
	t.Helper()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := mgr.Start(ended); err != nil {
		t.Fatal(err)
	}
	controllers := windlass.Manifest().Controllers
	for place := range controllers {
		controllers[place].Options = nil
	}
	document, err := json.Marshal(controllers)
	if err != nil {
		t.Fatal(err)
	}
	return string(document)
}

const (
	shops  = `"apiVersion":"example.com/v1","kind":"Shop"`
	items  = `"apiVersion":"example.com/v1","kind":"Item"`
	cities = `"apiVersion":"example.com/v1","kind":"City"`
)

func TestEachCallHasItsPlaceInTheManifest(t *testing.T) {
	toAll := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return nil })
	byCode := builder.WithPredicates(predicate.NewPredicateFuncs(func(client.Object) bool { return true }))
	generation := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	for wanted, build := range map[string]func(*builder.Builder, manager.Manager){
		`"primary":{` + shops + `,"predicates":[{"type":"generation"}],"callFields":[]}`: func(b *builder.Builder, _ manager.Manager) {
			b.For(&shop.Shop{}, generation)
		},
		`"primary":{"name":"shop-0",` + shops + `,"codePredicate":true,"callFields":[]}`: func(b *builder.Builder, _ manager.Manager) {
			b.For(&shop.Shop{}, byCode)
		},
		`"owns":[{` + items + `,"projection":{"type":"metadata"}}]`: func(b *builder.Builder, _ manager.Manager) {
			b.For(&shop.Shop{}).Owns(&shop.Item{}, builder.OnlyMetadata)
		},
		`"watches":[{` + items + `,"mapping":{"type":"anyOwner"}}]`: func(b *builder.Builder, _ manager.Manager) {
			b.For(&shop.Shop{}).Owns(&shop.Item{}, builder.MatchEveryOwner)
		},
		`"watches":[{"name":"city-0",` + cities + `,"mapping":{"type":"mapper"}}]`: func(b *builder.Builder, _ manager.Manager) {
			b.For(&shop.Shop{}).Watches(&shop.City{}, toAll)
		},
		`"watches":[{` + cities + `,"mapping":{"type":"sameName"}}]`: func(b *builder.Builder, _ manager.Manager) {
			b.For(&shop.Shop{}).Watches(&shop.City{}, &handler.EnqueueRequestForObject{})
		},
		`"watches":[{` + items + `,"mapping":{"type":"owner"}}]`: func(b *builder.Builder, mgr manager.Manager) {
			owner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &shop.Shop{}, handler.OnlyControllerOwner())
			b.For(&shop.Shop{}).WatchesRawSource(source.Kind[client.Object](mgr.GetCache(), &shop.Item{}, owner))
		},
		// The owner is no primary, so the manifest has no mapping for it.
		`"mapping":{"type":"mapper"}`: func(b *builder.Builder, mgr manager.Manager) {
			owner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &shop.City{})
			b.For(&shop.Shop{}).Watches(&shop.Item{}, owner)
		},
		`"primary":{` + cities: func(b *builder.Builder, _ manager.Manager) {
			b.Named("shop").Watches(&shop.City{}, &handler.EnqueueRequestForObject{})
		},
	} {
		mgr := newManager(t, manager.Options{})
		built := ctrl.NewControllerManagedBy(mgr)
		build(built, mgr)
		if err := built.Complete(nothing); err != nil {
			t.Errorf("%s: %v", wanted, err)
		} else if document := start(t, mgr); !strings.Contains(document, wanted) {
			t.Errorf("%s: %s", wanted, document)
		}
	}
}

func TestEventFiltersApplyToEveryWatch(t *testing.T) {
	mgr := newManager(t, manager.Options{})
	err := ctrl.NewControllerManagedBy(mgr).For(&shop.Shop{}).Owns(&shop.Item{}, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WithEventFilter(predicate.GenerationChangedPredicate{}).Complete(nothing)
	document := start(t, mgr)
	both := `"predicates":[{"predicates":[{"type":"generation"},{"type":"labels"}],"type":"and"}]`
	if err != nil || !strings.Contains(document, both) || strings.Count(document, `"generation"`) != 2 {
		t.Error(document, err)
	}
}

func TestOptionsAreInTheManifest(t *testing.T) {
	resync := time.Hour
	mgr := newManager(t, manager.Options{Cache: cache.Options{SyncPeriod: &resync}})
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute)
	err := ctrl.NewControllerManagedBy(mgr).For(&shop.Shop{}).Named("The_Shop").WithOptions(controller.Options{
		MaxConcurrentReconciles: 100, RateLimiter: limiter, ReconciliationTimeout: time.Minute,
	}).Complete(nothing)
	start(t, mgr)
	described := windlass.Manifest().Controllers[0]
	if err != nil || described.Name != "the-shop" || described.Options.Workers != 64 || described.Options.Deadline != time.Minute ||
		described.Options.BackoffBase != time.Second || described.Options.BackoffMax != time.Minute || described.Options.Resync != time.Hour {
		t.Errorf("%+v, %v", described, err)
	}
}

func TestCacheOptionsRestrictWatches(t *testing.T) {
	mgr := newManager(t, manager.Options{Cache: cache.Options{
		DefaultNamespaces: map[string]cache.Config{"prod": {}, "test": {}},
		ByObject:          map[client.Object]cache.ByObject{&shop.Item{}: {Label: client.MatchingLabelsSelector{}.Selector, Namespaces: map[string]cache.Config{"items": {}}}},
	}})
	err := ctrl.NewControllerManagedBy(mgr).For(&shop.Shop{}).Owns(&shop.Item{}).Complete(nothing)
	document := start(t, mgr)
	if err != nil || !strings.Contains(document, shops+`,"namespaces":["prod","test"]`) || !strings.Contains(document, items+`,"namespaces":["items"]`) {
		t.Error(document, err)
	}
}

func TestASelectorOfANamespaceLeavesTheOthersAsTheyAre(t *testing.T) {
	mgr := newManager(t, manager.Options{Cache: cache.Options{
		DefaultFieldSelector: fields.OneTermEqualSelector("spec.city", "Vienna"),
		DefaultNamespaces:    map[string]cache.Config{"prod": {LabelSelector: labels.SelectorFromSet(labels.Set{"app": "web"})}},
	}})
	err := ctrl.NewControllerManagedBy(mgr).For(&shop.Shop{}).Complete(nothing)
	start(t, mgr)
	primary := windlass.Manifest().Controllers[0].Primary
	if err != nil || primary.FieldSelector != "spec.city=Vienna" || primary.LabelSelector != "app=web" {
		t.Errorf("%+v, %v", primary, err)
	}
}

func TestATransformIsRefused(t *testing.T) {
	t.Cleanup(refused.Reset)
	strip := cache.TransformStripManagedFields()
	other := func(object any) (any, error) { return object, nil }
	for _, options := range []cache.Options{
		{DefaultTransform: other}, {DefaultNamespaces: map[string]cache.Config{"prod": {Transform: other}}},
		{ByObject: map[client.Object]cache.ByObject{&shop.Shop{}: {Transform: other}}},
	} {
		_, err := ctrl.NewManager(nil, manager.Options{Scheme: runtime.NewScheme(), Cache: options})
		if err == nil || !strings.Contains(err.Error(), "a transform function") || !strings.Contains(err.Error(), "builder_test.go:") {
			t.Error(err)
		}
	}
	if _, err := ctrl.NewManager(nil, manager.Options{Scheme: runtime.NewScheme(), Cache: cache.Options{DefaultTransform: strip}}); err != nil {
		t.Error(err)
	}
}

func TestSeveralControllersReadEachOthersKinds(t *testing.T) {
	mgr := newManager(t, manager.Options{})
	windlass.Reads(&shop.City{})
	one, other := 0, 0
	count := func(calls *int) reconcile.Reconciler {
		return reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			*calls++
			return reconcile.Result{}, nil
		})
	}
	if err := ctrl.NewControllerManagedBy(mgr).For(&shop.Shop{}).Complete(count(&one)); err != nil {
		t.Fatal(err)
	}
	if err := ctrl.NewControllerManagedBy(mgr).For(&shop.Shop{}).Complete(nothing); err == nil || !strings.Contains(err.Error(), "Named") {
		t.Errorf("two controllers have one name: %v", err)
	}
	if err := ctrl.NewControllerManagedBy(mgr).For(&shop.Item{}).Complete(count(&other)); err != nil {
		t.Fatal(err)
	}
	document := start(t, mgr)
	const mapping = `,"mapping":{"key":"windlass.dev/only-read","type":"label"}}`
	if strings.Count(document, cities+mapping) != 2 || strings.Count(document, items+mapping) != 1 || strings.Count(document, shops+mapping) != 1 {
		t.Error(document)
	}
	if !kinds.IsCached(shop.GroupVersion.WithKind("City"), kinds.Whole) {
		t.Error("reads of cities are not cached")
	}
	host := windlasstest.New(t)
	request := host.Request(sdk.Ref{APIVersion: "example.com/v1", Kind: "Item", Name: "i"})
	if _, err := windlass.Reconcile(context.Background(), request); err != nil || one != 0 || other != 1 {
		t.Error(err, one, other)
	}
}

func TestHandlersAndPredicatesRunByCode(t *testing.T) {
	mgr := newManager(t, manager.Options{})
	toNames := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: "prod", Name: object.(*shop.City).Labels["shop"]}}}
	})
	isBig := predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return e.Object.GetLabels()["big"] == "yes" },
		DeleteFunc: func(e event.DeleteEvent) bool { return e.Object.GetLabels()["big"] == "yes" },
	}
	err := ctrl.NewControllerManagedBy(mgr).For(&shop.Shop{}).Watches(&shop.City{}, toNames, builder.WithPredicates(isBig)).Complete(nothing)
	if err != nil {
		t.Fatal(err)
	}
	start(t, mgr)
	city := func(shop, big string) sdk.Object {
		return sdk.Object{"apiVersion": "example.com/v1", "kind": "City", "metadata": sdk.Object{
			"name": "vienna", "labels": sdk.Object{"shop": shop, "big": big},
		}}
	}
	windlasstest.New(t)
	for name, test := range map[string]struct {
		change  sdk.Change
		counts  bool
		targets []sdk.Target
	}{
		"created":       {windlasstest.Change("city-0", nil, city("a", "yes")), true, []sdk.Target{sdk.Primary("prod", "a")}},
		"small":         {windlasstest.Change("city-0", nil, city("a", "no")), false, []sdk.Target{sdk.Primary("prod", "a")}},
		"moved":         {windlasstest.Change("city-0", city("a", "no"), city("b", "no")), true, []sdk.Target{sdk.Primary("prod", "a"), sdk.Primary("prod", "b")}},
		"same":          {windlasstest.Change("city-0", city("a", "no"), city("a", "no")), true, []sdk.Target{sdk.Primary("prod", "a")}},
		"deleted":       {windlasstest.Change("city-0", city("a", "yes"), nil), true, []sdk.Target{sdk.Primary("prod", "a")}},
		"small deleted": {windlasstest.Change("city-0", city("a", "no"), nil), true, []sdk.Target{}},
	} {
		test.change.Controller = "shop"
		counts, err := registry.Counts(context.Background(), test.change)
		targets, otherErr := registry.Mapped(context.Background(), test.change)
		if err != nil || otherErr != nil || counts != test.counts || len(targets) != len(test.targets) {
			t.Errorf("%s: %v, %v, %v, %v", name, counts, targets, err, otherErr)
			continue
		}
		for place, target := range targets {
			if target != test.targets[place] {
				t.Errorf("%s: %v", name, targets)
			}
		}
	}
}

// anyDefaulter is a webhook of controller-runtime 0.22 and older.
type anyDefaulter struct{}

func (anyDefaulter) Default(context.Context, runtime.Object) error { return nil }

var _ webhook.CustomDefaulter = anyDefaulter{}

// cityDefaulter is a webhook of newer versions.
type cityDefaulter struct{}

func (cityDefaulter) Default(context.Context, *shop.City) error { return nil }

var _ admission.Defaulter[*shop.City] = cityDefaulter{}

func TestWhatCannotWorkSaysWhereAndWhatToDo(t *testing.T) {
	for what, call := range map[string]func(manager.Manager) error{
		"mgr.Add": func(mgr manager.Manager) error {
			return mgr.Add(manager.RunnableFunc(func(context.Context) error { return nil }))
		},
		"an informer": func(mgr manager.Manager) error {
			_, err := mgr.GetCache().GetInformer(context.Background(), &shop.Shop{})
			return err
		},
		"source.Channel": func(mgr manager.Manager) error {
			channel := source.Channel(make(chan event.TypedGenericEvent[client.Object]), &handler.EnqueueRequestForObject{})
			return ctrl.NewControllerManagedBy(mgr).For(&shop.Shop{}).WatchesRawSource(channel).Complete(nothing)
		},
		"a webhook": func(mgr manager.Manager) error { return ctrl.NewWebhookManagedBy(mgr, &shop.Shop{}).Complete() },
		"a webhook of *shop.Shop": func(mgr manager.Manager) error {
			return ctrl.NewWebhookManagedBy(mgr).For(&shop.Shop{}).WithDefaulter(anyDefaulter{}).WithValidator(nil).Complete()
		},
		"a webhook of *shop.City": func(mgr manager.Manager) error {
			return ctrl.NewWebhookManagedBy(mgr, &shop.City{}).WithDefaulter(cityDefaulter{}).Complete()
		},
		"reading or writing": func(mgr manager.Manager) error {
			setup.Begin()
			defer setup.End()
			return mgr.GetAPIReader().Get(context.Background(), client.ObjectKey{Name: "a"}, &shop.Shop{})
		},
		"the RESTMapper": func(mgr manager.Manager) error {
			_, err := mgr.GetRESTMapper().RESTMapping(shop.GroupVersion.WithKind("Shop").GroupKind())
			return err
		},
	} {
		mgr := newManager(t, manager.Options{})
		err := call(mgr)
		if err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "builder_test.go:") || !strings.Contains(err.Error(), "Instead: ") {
			t.Errorf("%s: %v", what, err)
		}
		func() {
			// The build fails even if main ignores the error.
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, what) {
					t.Errorf("%s: the manifest is made: %q", what, text)
				}
			}()
			start(t, mgr)
		}()
	}
}

func TestAControllerNeedsAPrimary(t *testing.T) {
	mgr := newManager(t, manager.Options{})
	toAll := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return nil })
	if err := ctrl.NewControllerManagedBy(mgr).Named("none").Watches(&shop.City{}, toAll).Complete(nothing); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "controller none: no kind is reconciled") {
			t.Error(text)
		}
	}()
	t.Error(start(t, mgr))
}
