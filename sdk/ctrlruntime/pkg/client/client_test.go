package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/internal/call"
	"sigs.k8s.io/controller-runtime/internal/kinds"
	"sigs.k8s.io/controller-runtime/internal/shop"
	"sigs.k8s.io/controller-runtime/pkg/client"
	windlass "windlass.dev/sdk"
	"windlass.dev/sdk/windlasstest"
)

var (
	ctx       = context.Background()
	shopKind  = shop.GroupVersion.WithKind("Shop")
	shopOfA   = windlass.Ref{APIVersion: "example.com/v1", Kind: "Shop", Namespace: "prod", Name: "a"}
	keyOfShop = client.ObjectKey{Namespace: "prod", Name: "a"}
)

// newClient returns a host with the shops a, b and c of two namespaces, and a client whose reads of shops are cached.
func newClient(t *testing.T) (*windlasstest.Host, client.Client) {
	t.Helper()
	kinds.Reset()
	t.Cleanup(kinds.Reset)
	kinds.Cache(shopKind, kinds.Whole)
	scheme := runtime.NewScheme()
	if err := shop.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	made, err := client.NewCached(client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	host := windlasstest.New(t)
	for place, name := range []string{"a", "b", "c"} {
		namespace := []string{"prod", "prod", "test"}[place]
		host.Put(windlass.Object{
			"apiVersion": "example.com/v1", "kind": "Shop", "spec": windlass.Object{"items": place + 1, "city": "Vienna"},
			"metadata": windlass.Object{"name": name, "namespace": namespace, "labels": windlass.Object{"name": name, "app": "web"}},
		})
	}
	return host, made
}

func TestGetReplacesTheObject(t *testing.T) {
	_, c := newClient(t)
	found := shop.Shop{Spec: shop.ShopSpec{Doors: []string{"stays?"}}}
	if err := c.Get(ctx, keyOfShop, &found); err != nil || found.Spec.Items != 1 || found.Spec.Doors != nil || found.Kind != "Shop" {
		t.Errorf("%+v, %v", found, err)
	}
	untyped := &unstructured.Unstructured{}
	untyped.SetGroupVersionKind(shopKind)
	if err := c.Get(ctx, keyOfShop, untyped); err != nil || untyped.GetLabels()["app"] != "web" {
		t.Errorf("%+v, %v", untyped, err)
	}
	items, _, _ := unstructured.NestedInt64(untyped.Object, "spec", "items")
	if items != 1 {
		t.Errorf("the items of an unstructured object: %v", items)
	}
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(shopKind)
	if err := c.Get(ctx, keyOfShop, partial); err != nil || partial.Labels["app"] != "web" {
		t.Errorf("%+v, %v", partial, err)
	}
}

func TestAMissingObjectIsNotFoundAndLeavesTheVariable(t *testing.T) {
	_, c := newClient(t)
	found := shop.Shop{ObjectMeta: metav1.ObjectMeta{Name: "z"}}
	err := c.Get(ctx, client.ObjectKey{Namespace: "prod", Name: "z"}, &found)
	if !apierrors.IsNotFound(err) || client.IgnoreNotFound(err) != nil || found.Name != "z" {
		t.Errorf("%+v, %v", found, err)
	}
	if !windlass.IsNotFound(fmt.Errorf("so: %w", err)) {
		t.Error("the host does not know the class")
	}
}

func TestAKindThatIsNotServedDoesNotMatch(t *testing.T) {
	host, c := newClient(t)
	city := &shop.City{ObjectMeta: metav1.ObjectMeta{Name: "vienna"}}
	requests := map[string]func() error{
		"list":   func() error { return c.List(ctx, &shop.CityList{}) },
		"get":    func() error { return c.SubResource("other").Get(ctx, city, city) },
		"delete": func() error { return c.DeleteAllOf(ctx, city, client.InNamespace("prod")) },
	}
	host.Put(windlass.Object{"apiVersion": "example.com/v1", "kind": "City", "metadata": windlass.Object{"name": "vienna"}})
	for _, isServed := range []bool{true, false} {
		for name, request := range requests {
			for _, verb := range []string{"list", "deletecollection"} {
				host.FailWith(verb, "City", 1, &windlass.APIError{Reason: windlass.NotFound})
			}
			err := request()
			var noMatch *meta.NoKindMatchError
			isNoMatch := meta.IsNoMatchError(err) && errors.As(err, &noMatch) && noMatch.GroupKind.Kind == "City"
			if isNoMatch == isServed || apierrors.IsNotFound(err) != isServed || !windlass.IsNotFound(err) {
				t.Errorf("served %v, %s: %v", isServed, name, err)
			}
		}
		host.Unserve(windlass.Kind{APIVersion: "example.com/v1", Kind: "City"})
	}
}

func TestARefusedApplyHasItsCause(t *testing.T) {
	host, c := newClient(t)
	fields := &unstructured.Unstructured{}
	fields.SetGroupVersionKind(shopKind)
	fields.SetName("a")
	for text, has := range map[string]bool{
		"Apply failed with 1 conflict: conflict with \"other\": .spec.items": true,
		"the object has been modified":                                       false,
	} {
		host.FailWith("apply", "Shop", 1, &windlass.APIError{Reason: windlass.Conflict, Message: text})
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(fields))
		if !apierrors.IsConflict(err) || apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) != has {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestALiveListHasAsManyObjectsAsItsLimit(t *testing.T) {
	host, c := newClient(t)
	for number := range 1202 {
		host.Put(windlass.Object{"apiVersion": "example.com/v1", "kind": "City", "metadata": windlass.Object{"name": fmt.Sprint("city-", number)}})
	}
	seen := map[string]bool{}
	var cities shop.CityList
	for _, wanted := range []int{1201, 1} {
		if err := c.List(ctx, &cities, client.Limit(1201), client.Continue(cities.Continue)); err != nil || len(cities.Items) != wanted {
			t.Error(len(cities.Items), err)
		}
		for _, city := range cities.Items {
			seen[city.Name] = true
		}
	}
	if cities.Continue != "" || len(seen) != 1202 {
		t.Error(cities.Continue, len(seen))
	}
}

func TestFieldOwnersStayDifferent(t *testing.T) {
	host, c := newClient(t)
	suffixes := map[string]string{}
	long := strings.Repeat("long", 8)
	for _, owner := range []string{"shop-a", "Shop-a", "shop_a", "---", "__", "-shop-a", long, long + "r"} {
		object := &shop.Shop{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "prod"}}
		if err := c.Patch(ctx, object, client.MergeFrom(object.DeepCopy()), client.FieldOwner(owner)); err != nil {
			t.Fatal(err)
		}
		suffix := host.Writes()[0].Options.ManagerSuffix
		host.Forget()
		if other, is := suffixes[suffix]; is || suffix == "" || len(suffix) > 32 || strings.Trim(suffix, "-") != suffix {
			t.Errorf("%q and %q have the suffix %q", owner, other, suffix)
		}
		suffixes[suffix] = owner
	}
	if suffixes["shop-a"] != "shop-a" || suffixes[long] != long {
		t.Error(suffixes)
	}
}

func TestADeletionKeepsTheDependentsThatTheAPIServerKeeps(t *testing.T) {
	host, c := newClient(t)
	for kind, orphans := range map[schema.GroupVersionKind]bool{
		{Group: "batch", Version: "v1", Kind: "Job"}: true, {Version: "v1", Kind: "ReplicationController"}: true,
		{Group: "batch", Version: "v1", Kind: "CronJob"}: false,
	} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		object.SetNamespace("prod")
		object.SetName("a")
		errs := []error{
			client.IgnoreNotFound(c.Delete(ctx, object)), c.DeleteAllOf(ctx, object, client.InNamespace("prod")),
			client.IgnoreNotFound(c.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground))),
		}
		writes := host.Writes()
		host.Forget()
		if errors.Join(errs...) != nil {
			t.Fatal(errs)
		}
		// The value without any option is the host's default: Background.
		background := writes[2].Deletion.Propagation
		if (writes[0].Deletion.Propagation != background) != orphans || (writes[1].Deletion.Propagation != background) != orphans {
			t.Errorf("%v: %+v", kind, writes)
		}
	}
}

func TestAKeyWithoutANamespaceFindsOnlyClusterScopedObjects(t *testing.T) {
	host, c := newClient(t)
	host.Primary = shopOfA
	host.Put(windlass.Object{"apiVersion": "example.com/v1", "kind": "City", "metadata": windlass.Object{"name": "vienna"}})
	// This shop stands for a shop in the namespace of the primary, which the host would find.
	host.Put(windlass.Object{"apiVersion": "example.com/v1", "kind": "Shop", "metadata": windlass.Object{"name": "no-namespace"}})
	kinds.SetNamespaced(shopKind, true)
	ctx := call.Begin(ctx, "prod")
	t.Cleanup(func() { call.Begin(ctx, "") })
	if err := c.Get(ctx, client.ObjectKey{Name: "no-namespace"}, &shop.Shop{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if err := c.Get(ctx, client.ObjectKey{Name: "vienna"}, &shop.City{}); err != nil {
		t.Error(err)
	}
}

func TestACollectionOfAllNamespacesIsNotDeleted(t *testing.T) {
	host, c := newClient(t)
	host.Primary = shopOfA
	host.Define("spec:\n  group: example.com\n  scope: Cluster\n  names: {kind: City}\n  versions: [{name: v1}]\n")
	if err := c.DeleteAllOf(ctx, &shop.Shop{}, client.MatchingLabels{"app": "web"}); !apierrors.IsMethodNotSupported(err) || len(host.Writes()) > 0 {
		t.Error(err, host.Writes())
	}
	if err := c.DeleteAllOf(ctx, &shop.City{}); err != nil || len(host.Writes()) != 1 {
		t.Error(err, host.Writes())
	}
}

func TestTheNamespaceOfAClusterScopedKindDoesNotMatter(t *testing.T) {
	host, c := newClient(t)
	host.Define("spec:\n  group: example.com\n  scope: Cluster\n  names: {kind: City}\n  versions: [{name: v1}]\n")
	host.Put(windlass.Object{"apiVersion": "example.com/v1", "kind": "City", "metadata": windlass.Object{"name": "vienna"}})
	for _, isCached := range []bool{false, true} {
		var city shop.City
		if err := c.Get(ctx, client.ObjectKey{Namespace: "prod", Name: "vienna"}, &city); err != nil || city.Name != "vienna" {
			t.Errorf("cached %v: %v", isCached, err)
		}
		var cities shop.CityList
		if err := c.List(ctx, &cities, client.InNamespace("prod")); err != nil || len(cities.Items) != 1 {
			t.Errorf("cached %v: %v, %v", isCached, cities.Items, err)
		}
		kinds.Cache(shop.GroupVersion.WithKind("City"), kinds.Whole)
	}
	if err := c.Get(ctx, client.ObjectKey{Namespace: "prod", Name: "vienna"}, &shop.Shop{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

func TestErrorsHaveTheStatusOfTheAPI(t *testing.T) {
	host, c := newClient(t)
	for reason, is := range map[windlass.Reason]func(error) bool{
		windlass.NotFound: apierrors.IsNotFound, windlass.AlreadyExists: apierrors.IsAlreadyExists,
		windlass.Conflict: apierrors.IsConflict, windlass.Invalid: apierrors.IsInvalid, windlass.Forbidden: apierrors.IsForbidden,
		windlass.TooManyRequests: apierrors.IsTooManyRequests, windlass.Timeout: apierrors.IsTimeout,
		windlass.NotGranted: apierrors.IsForbidden, windlass.ServerError: apierrors.IsInternalError,
		windlass.Expired: apierrors.IsResourceExpired, windlass.LeaseLost: apierrors.IsServiceUnavailable,
	} {
		status := metav1.StatusReason("")
		if reason == windlass.ServerError {
			status = metav1.StatusReasonInternalError
		}
		host.FailWith("create", "Shop", 1, &windlass.APIError{Reason: reason, StatusReason: string(status), Resource: "shops.example.com"})
		err := c.Create(ctx, &shop.Shop{ObjectMeta: metav1.ObjectMeta{Name: "new", Namespace: "prod"}})
		var status2 *apierrors.StatusError
		if !is(err) || !windlass.Is(err, reason) || !errors.As(err, &status2) || status2.Status().Details.Kind != "shops" {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

func TestAMissingRightSaysTheLineToAdd(t *testing.T) {
	host, c := newClient(t)
	host.FailWith("get", "City", 1, &windlass.APIError{Reason: windlass.NotGranted, Resource: "cities.example.com/status", Verb: "get"})
	err := c.Get(ctx, client.ObjectKey{Name: "vienna"}, &shop.City{})
	wanted := `{APIGroups: []string{"example.com"}, Resources: []string{"cities/status"}, Verbs: []string{"get"}}`
	if err == nil || !strings.Contains(err.Error(), wanted) {
		t.Error(err)
	}
}

// names are the names of the shops of a list.
func names(t *testing.T, c client.Reader, opts ...client.ListOption) string {
	t.Helper()
	var list shop.ShopList
	if err := c.List(ctx, &list, opts...); err != nil {
		t.Error(err)
	}
	var all []string
	for _, one := range list.Items {
		all = append(all, one.Name)
	}
	return strings.Join(all, "")
}

func TestListsSelect(t *testing.T) {
	_, c := newClient(t)
	index := func(object any) []string { return []string{fmt.Sprint(object.(*shop.Shop).Spec.Items), "any"} }
	kinds.Index(shopKind, typeOf(&shop.Shop{}), "spec.items", index)
	for wanted, opts := range map[string][]client.ListOption{
		"abc": nil,
		"ab":  {client.InNamespace("prod")},
		"b":   {client.MatchingLabels{"app": "web", "name": "b"}},
		"c":   {client.InNamespace("test"), client.HasLabels{"app"}},
		"a":   {client.Limit(1)},
	} {
		if found := names(t, c, opts...); found != wanted {
			t.Errorf("%v: %s instead of %s", opts, found, wanted)
		}
	}
	byFields := client.MatchingFields{"spec.items": "2", "metadata.namespace": "prod"}
	if one, all := names(t, c, byFields), names(t, c, client.MatchingFields{"spec.items": "any"}); one != "b" || all != "abc" {
		t.Error(one, all)
	}
	if err := c.List(ctx, &shop.ShopList{}, client.MatchingFields{"spec.city": "Vienna"}); err == nil || !strings.Contains(err.Error(), "IndexField") {
		t.Error(err)
	}
}

func TestASelectorOfNothingSelectsNothing(t *testing.T) {
	host, c := newClient(t)
	live, err := client.New(nil, client.Options{Scheme: c.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	for _, nothing := range []interface {
		client.ListOption
		client.DeleteAllOfOption
	}{
		client.MatchingLabelsSelector{Selector: labels.Nothing()}, client.MatchingLabelsSelector{},
		client.MatchingFieldsSelector{Selector: fields.Nothing()}, client.MatchingFieldsSelector{},
	} {
		if cached, read := names(t, c, nothing), names(t, live, nothing); cached != "" || read != "" {
			t.Errorf("%#v: %s, %s", nothing, cached, read)
		}
		if err := c.DeleteAllOf(ctx, &shop.Shop{}, client.InNamespace("prod"), nothing); err != nil || len(host.Writes()) > 0 {
			t.Errorf("%#v: %v, %+v", nothing, err, host.Writes())
		}
	}
}

func TestListsHaveAnyForm(t *testing.T) {
	host, c := newClient(t)
	untyped := &unstructured.UnstructuredList{}
	untyped.SetGroupVersionKind(shop.GroupVersion.WithKind("ShopList"))
	if err := c.List(ctx, untyped); err != nil || len(untyped.Items) != 3 || untyped.Items[2].GetName() != "c" {
		t.Error(untyped, err)
	}
	partial := &metav1.PartialObjectMetadataList{}
	partial.SetGroupVersionKind(shop.GroupVersion.WithKind("ShopList"))
	if err := c.List(ctx, partial); err != nil || len(partial.Items) != 3 || partial.Items[0].Labels["app"] != "web" {
		t.Error(partial, err)
	}
	host.Put(windlass.Object{"apiVersion": "example.com/v1", "kind": "Item", "metadata": windlass.Object{"name": "i"}, "price": 7})
	var items shop.ItemList
	if err := c.List(ctx, &items); err != nil || len(items.Items) != 1 || items.Items[0].Price != 7 {
		t.Error(items, err)
	}
	var cities shop.CityList
	if err := c.List(ctx, &cities); err != nil || cities.Items == nil || meta.LenList(&cities) != 0 {
		t.Error(cities, err)
	}
}

func TestWritesReturnTheNewState(t *testing.T) {
	host, c := newClient(t)
	created := &shop.Shop{ObjectMeta: metav1.ObjectMeta{Name: "new", Namespace: "prod"}, Spec: shop.ShopSpec{Items: 1}}
	if err := c.Create(ctx, created, client.FieldOwner("my-shop")); err != nil || created.UID == "" || created.ResourceVersion == "" {
		t.Fatal(created, err)
	}
	if write := host.Writes()[0]; write.Options.ManagerSuffix != "my-shop" || write.Target.Kind != "Shop" {
		t.Errorf("%+v", write)
	}
	created.Spec.Items = 2
	if err := c.Update(ctx, created, client.DryRunAll); err != nil || created.Spec.Items != 2 {
		t.Fatal(created, err)
	}
	if write := host.Writes()[1]; !write.Options.DryRun || write.Options.Subresource != "" {
		t.Errorf("%+v", write)
	}
	created.Status.Items = 2
	if err := c.Status().Update(ctx, created); err != nil || created.Status.Items != 2 {
		t.Fatal(created, err)
	}
	if write := host.Writes()[2]; write.Options.Subresource != "status" || write.Verb != "update" {
		t.Errorf("%+v", write)
	}
}

func TestMetadataAloneIsNotWritten(t *testing.T) {
	host, c := newClient(t)
	partial := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "prod"}}
	partial.SetGroupVersionKind(shopKind)
	whole := &shop.Shop{ObjectMeta: partial.ObjectMeta}
	for name, err := range map[string]error{
		"create": c.Create(ctx, partial), "update": c.Update(ctx, partial), "status": c.Status().Update(ctx, partial),
		"subresource": c.SubResource("eviction").Create(ctx, whole, partial),
		"body":        c.Status().Update(ctx, whole, client.WithSubResourceBody(partial)),
		"get":         c.SubResource("scale").Get(ctx, partial, whole),
	} {
		if err == nil || !strings.Contains(err.Error(), "metadata alone") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(host.Writes()) > 0 {
		t.Errorf("%+v", host.Writes())
	}
	before := partial.DeepCopy()
	partial.Labels = map[string]string{"new": "1"}
	if err := c.Patch(ctx, partial, client.MergeFrom(before)); err != nil || partial.Labels["app"] != "web" {
		t.Errorf("a patch of metadata: %+v, %v", partial, err)
	}
}

func TestDeletionsHavePreconditions(t *testing.T) {
	host, c := newClient(t)
	gone := &shop.Shop{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "prod"}}
	uid, version := types.UID("other"), "7"
	err := c.Delete(ctx, gone, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.GracePeriodSeconds(2),
		client.PropagationPolicy(metav1.DeletePropagationForeground))
	write := host.Writes()[0]
	if err == nil || write.Target.UID != "other" || write.Deletion.ResourceVersion != "7" || write.Deletion.GracePeriod != 2*time.Second {
		t.Errorf("%+v, %v", write, err)
	}
	if err := c.Delete(ctx, gone); err != nil || host.Object(shopOfA) != nil {
		t.Error(err)
	}
	if err := c.Delete(ctx, gone); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if err := c.DeleteAllOf(ctx, &shop.Shop{}, client.InNamespace("test"), client.MatchingLabels{"app": "web"}); err != nil || names(t, c) != "b" {
		t.Error(err, names(t, c))
	}
}

func TestWrappersAddOptionsBeforeTheCallers(t *testing.T) {
	host, c := newClient(t)
	c = client.WithFieldOwner(client.NewDryRunClient(client.WithFieldValidation(c, "Strict")), "owner")
	made := func() *shop.Shop { return &shop.Shop{ObjectMeta: metav1.ObjectMeta{Name: "new", Namespace: "prod"}} }
	if err := errors.Join(c.Create(ctx, made()), c.Create(ctx, made(), client.FieldOwner("mine"))); err != nil {
		t.Fatal(err)
	}
	one, other := host.Writes()[0].Options, host.Writes()[1].Options
	if !one.DryRun || one.ManagerSuffix != "owner" || one.FieldValidation != 0 || other.ManagerSuffix != "mine" {
		t.Errorf("%+v, %+v", one, other)
	}
}
