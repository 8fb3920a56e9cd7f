package controllerruntime_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/internal/registry"
	"sigs.k8s.io/controller-runtime/internal/shop"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/windlass"
	sdk "windlass.dev/sdk"
	"windlass.dev/sdk/manifest"
	"windlass.dev/sdk/windlasstest"
)

const finalizer = "example.com/shop"

// shopReconciler is written as a user of kubebuilder would write it.
type shopReconciler struct {
	client.Client
	Scheme   *runtime.Scheme
	Recorder record.EventRecorder
}

func (r *shopReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	logger := log.FromContext(ctx, "city", "Vienna")
	var found shop.Shop
	if err := r.Get(ctx, req.NamespacedName, &found); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !found.DeletionTimestamp.IsZero() {
		if controllerutil.RemoveFinalizer(&found, finalizer) {
			return ctrl.Result{}, r.Update(ctx, &found)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(&found, finalizer) {
		if err := r.Update(ctx, &found); err != nil {
			return ctrl.Result{}, err
		}
	}
	if found.Spec.Items < 0 {
		return ctrl.Result{}, reconcile.TerminalError(apierrors.NewBadRequest("less than nothing"))
	}
	item := &shop.Item{ObjectMeta: metav1.ObjectMeta{Name: found.Name, Namespace: found.Namespace}}
	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, item, func() error {
		item.Price = found.Spec.Items
		return ctrl.SetControllerReference(&found, item, r.Scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if result != controllerutil.OperationResultNone {
		logger.Info("wrote the item", "result", result, "item", item)
		r.Recorder.Eventf(&found, "Normal", "Wrote", "the item costs %d", item.Price)
	}
	found.Status.Items = item.Price
	return ctrl.Result{RequeueAfter: time.Minute}, r.Status().Update(ctx, &found)
}

func (r *shopReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&shop.Shop{}).Owns(&shop.Item{}).
		WithEventFilter(predicate.GenerationChangedPredicate{}).Complete(r)
}

// run is like a main that kubebuilder generates.
func run(t *testing.T) {
	t.Helper()
	opts := zap.Options{Development: true}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&opts)))
	scheme := runtime.NewScheme()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := shop.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme: scheme, HealthProbeBindAddress: ":8081", LeaderElection: true, LeaderElectionID: "a.example.com",
	})
	if err != nil {
		t.Fatal(err)
	}
	reconciler := &shopReconciler{mgr.GetClient(), mgr.GetScheme(), mgr.GetEventRecorderFor("shop")}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		t.Fatal(err)
	}
	if err := mgr.Start(ended); err != nil {
		t.Fatal(err)
	}
}

// started returns a host after the set-up of the plugin.
func started(t *testing.T) *windlasstest.Host {
	t.Helper()
	registry.Reset()
	t.Cleanup(registry.Reset)
	host := windlasstest.New(t)
	windlass.Describe(manifest.Manifest{
		Name: "shops", Version: "1.2.3", Finalizers: []string{finalizer},
		Permissions: []manifest.Permission{
			{APIGroups: []string{"example.com"}, Resources: []string{"cities"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"example.com"}, Resources: []string{"shops/status"}, Verbs: []string{"update"}},
		},
		CRDs: []json.RawMessage{json.RawMessage(`{"metadata":{"name":"cities.example.com"}}`)},
	})
	run(t)
	return host
}

func TestTheManifestFollowsFromTheBuilder(t *testing.T) {
	started(t)
	document, err := json.MarshalIndent(windlass.Manifest().Controllers, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	wanted := `[{"name":"shop",
		"primary":{"apiVersion":"example.com/v1","kind":"Shop","predicates":[{"type":"generation"}],"callFields":[]},
		"owns":[{"apiVersion":"example.com/v1","kind":"Item","predicates":[{"type":"generation"}]}],
		"watches":[{"apiVersion":"example.com/v1","kind":"City","mapping":{"key":"windlass.dev/only-read","type":"label"}}],
		"options":{"workers":1}}]`
	if !sameJSON(string(document), wanted) {
		t.Error(string(document))
	}
}

func sameJSON(one, other string) bool {
	compact := func(text string) string {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			return err.Error()
		}
		document, _ := json.Marshal(value)
		return string(document)
	}
	return compact(one) == compact(other)
}

var target = sdk.Ref{APIVersion: "example.com/v1", Kind: "Shop", Namespace: "prod", Name: "a"}

// put stores a shop that wants this many items.
func put(host *windlasstest.Host, items int) {
	host.Put(sdk.Object{
		"apiVersion": "example.com/v1", "kind": "Shop", "metadata": sdk.Object{"name": "a", "namespace": "prod", "uid": "u"},
		"spec": sdk.Object{"items": items},
	})
}

func TestAReconcilerRunsUnchanged(t *testing.T) {
	host := started(t)
	windlass.Manifest()
	put(host, 3)
	outcome, err := host.Reconcile(windlass.Reconcile, target)
	if err != nil || outcome.After() != time.Minute {
		t.Fatal(outcome, err)
	}
	item := windlasstest.Read[shop.Item](host, sdk.Ref{APIVersion: "example.com/v1", Kind: "Item", Namespace: "prod", Name: "a"})
	if item == nil || item.Price != 3 || len(item.OwnerReferences) != 1 || item.OwnerReferences[0].UID != "u" {
		t.Errorf("the item: %+v", item)
	}
	after := windlasstest.Read[shop.Shop](host, target)
	if after.Status.Items != 3 || after.Finalizers[0] != finalizer {
		t.Errorf("the shop: %+v", after)
	}
	event := host.Events()[0]
	if event.Note != "the item costs 3" || event.Reason != "Wrote" || event.Regarding.Name != "a" || event.Regarding.UID != "u" {
		t.Errorf("the event: %+v", event)
	}
	line := host.Lines()[0]
	if line.Message != "wrote the item" || line.Fields["result"] != "created" || line.Fields["item"] != "prod/a" || line.Fields["city"] != "Vienna" {
		t.Errorf("the log: %+v", line)
	}
}

func TestASecondCallChangesNothing(t *testing.T) {
	host := started(t)
	windlass.Manifest()
	put(host, 3)
	for range 2 {
		host.Forget()
		if _, err := host.Reconcile(windlass.Reconcile, target); err != nil {
			t.Fatal(err)
		}
	}
	if writes := host.Writes(); len(writes) != 1 || writes[0].Options.Subresource != "status" {
		t.Errorf("%+v", writes)
	}
}

func TestAnObjectThatIsGoneNeedsNothing(t *testing.T) {
	host := started(t)
	windlass.Manifest()
	if outcome, err := host.Reconcile(windlass.Reconcile, target); err != nil || outcome != sdk.Done || len(host.Writes()) != 0 {
		t.Error(outcome, err, host.Writes())
	}
}

func TestTheHostKnowsTheClassOfAnError(t *testing.T) {
	host := started(t)
	windlass.Manifest()
	put(host, 3)
	host.Fail("create", "Item", sdk.Conflict)
	if _, err := host.Reconcile(windlass.Reconcile, target); !sdk.IsConflict(err) || !apierrors.IsConflict(err) {
		t.Error(err)
	}
	put(host, -1)
	if _, err := host.Reconcile(windlass.Reconcile, target); !sdk.IsTerminal(err) || !strings.Contains(err.Error(), "less than nothing") {
		t.Error(err)
	}
}
