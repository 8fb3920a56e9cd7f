package controllerutil_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/internal/shop"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/finalizer"
	windlass "windlass.dev/sdk"
	"windlass.dev/sdk/windlasstest"
)

var ctx = context.Background()

func schemeOf(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := shop.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

func newClient(t *testing.T) (*windlasstest.Host, client.Client) {
	t.Helper()
	made, err := client.NewCached(client.Options{Scheme: schemeOf(t)})
	if err != nil {
		t.Fatal(err)
	}
	return windlasstest.New(t), made
}

func newShop(namespace string) *shop.Shop {
	return &shop.Shop{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: namespace, UID: "u"}}
}

func newItem() *shop.Item {
	return &shop.Item{ObjectMeta: metav1.ObjectMeta{Name: "i", Namespace: "prod"}}
}

func TestAnObjectHasOneController(t *testing.T) {
	scheme, item := schemeOf(t), newItem()
	owner := newShop("prod")
	for range 2 {
		if err := controllerutil.SetControllerReference(owner, item, scheme); err != nil {
			t.Fatal(err)
		}
	}
	reference := item.OwnerReferences[0]
	if len(item.OwnerReferences) != 1 || reference.APIVersion != "example.com/v1" || reference.Kind != "Shop" || reference.UID != "u" ||
		!*reference.Controller || !*reference.BlockOwnerDeletion || !controllerutil.HasControllerReference(item) {
		t.Errorf("%+v", item.OwnerReferences)
	}
	other := newShop("prod")
	other.Name = "b"
	var owned *controllerutil.AlreadyOwnedError
	if err := controllerutil.SetControllerReference(other, item, scheme); !errors.As(err, &owned) || owned.Owner.Name != "a" {
		t.Error(err)
	}
	err := controllerutil.SetOwnerReference(other, item, scheme, controllerutil.WithBlockOwnerDeletion(false))
	if err != nil || len(item.OwnerReferences) != 2 || item.OwnerReferences[1].Controller != nil || *item.OwnerReferences[1].BlockOwnerDeletion {
		t.Errorf("%+v, %v", item.OwnerReferences, err)
	}
	if has, err := controllerutil.HasOwnerReference(item.OwnerReferences, other, scheme); !has || err != nil {
		t.Error(has, err)
	}
	if err := controllerutil.RemoveControllerReference(other, item, scheme); err == nil {
		t.Error("an owner that is no controller is removed as one")
	}
	if err := controllerutil.RemoveControllerReference(owner, item, scheme); err != nil || len(item.OwnerReferences) != 1 {
		t.Error(err)
	}
	if err := controllerutil.RemoveOwnerReference(owner, item, scheme); err == nil {
		t.Error("an owner is removed twice")
	}
}

func TestAnOwnerIsInTheNamespaceOfTheObject(t *testing.T) {
	scheme := schemeOf(t)
	if err := controllerutil.SetControllerReference(newShop("test"), newItem(), scheme); err == nil {
		t.Error("an owner of another namespace")
	}
	if err := controllerutil.SetOwnerReference(newShop("test"), &shop.City{}, scheme); err == nil {
		t.Error("an object without a namespace has an owner in one")
	}
	if err := controllerutil.SetControllerReference(&shop.City{}, newItem(), scheme); err != nil {
		t.Error(err)
	}
}

func TestFinalizersAreASet(t *testing.T) {
	object := newShop("prod")
	added, again := controllerutil.AddFinalizer(object, "x/a"), controllerutil.AddFinalizer(object, "x/a")
	if !added || again || !controllerutil.ContainsFinalizer(object, "x/a") || len(object.Finalizers) != 1 {
		t.Error(added, again, object.Finalizers)
	}
	if !controllerutil.RemoveFinalizer(object, "x/a") || controllerutil.RemoveFinalizer(object, "x/a") || len(object.Finalizers) != 0 {
		t.Error(object.Finalizers)
	}
}

func TestCreateOrUpdateWritesOnlyDifferences(t *testing.T) {
	host, c := newClient(t)
	for wanted, price := range map[controllerutil.OperationResult]int64{"created": 1} {
		item := newItem()
		if result, err := controllerutil.CreateOrUpdate(ctx, c, item, func() error { item.Price = price; return nil }); err != nil || result != wanted {
			t.Error(result, err)
		}
	}
	item := newItem()
	mutate := func() error { item.Price = 1; return nil }
	if result, err := controllerutil.CreateOrUpdate(ctx, c, item, mutate); err != nil || result != "unchanged" || len(host.Writes()) != 1 {
		t.Error(result, err, len(host.Writes()))
	}
	item = newItem()
	if result, err := controllerutil.CreateOrUpdate(ctx, c, item, func() error { item.Price = 2; return nil }); err != nil || result != "updated" {
		t.Error(result, err)
	}
	item = newItem()
	if _, err := controllerutil.CreateOrUpdate(ctx, c, item, func() error { item.Name = "other"; return nil }); err == nil {
		t.Error("the function may rename the object")
	}
	item = newItem()
	host.Fail("get", "Item", windlass.Forbidden)
	if _, err := controllerutil.CreateOrUpdate(ctx, c, item, mutate); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
}

func TestCreateOrPatchWritesTheStatusToo(t *testing.T) {
	host, c := newClient(t)
	for place, test := range []struct {
		items, status int64
		result        controllerutil.OperationResult
		writes        int
	}{
		{1, 1, "created", 1}, {1, 1, "unchanged", 0}, {2, 1, "updated", 1}, {2, 2, "updatedStatusOnly", 1}, {3, 3, "updatedStatus", 2},
	} {
		host.Forget()
		object := newShop("prod")
		object.UID = ""
		result, err := controllerutil.CreateOrPatch(ctx, c, object, func() error {
			object.Spec.Items, object.Status.Items = test.items, test.status
			return nil
		})
		kept := windlasstest.Read[shop.Shop](host, windlass.Ref{APIVersion: "example.com/v1", Kind: "Shop", Namespace: "prod", Name: "a"})
		if err != nil || result != test.result || len(host.Writes()) != test.writes || kept.Spec.Items != test.items || kept.Status.Items != test.status {
			t.Errorf("%d: %s, %v, %d writes, %+v", place, result, err, len(host.Writes()), kept)
		}
	}
}

func TestCreateOrPatchRemovesAStatus(t *testing.T) {
	host, c := newClient(t)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Shop", "metadata": map[string]any{"name": "a", "namespace": "prod"},
		"status": map[string]any{"items": int64(1)},
	}}
	host.Put(object.Object)
	result, err := controllerutil.CreateOrPatch(ctx, c, object, func() error {
		unstructured.RemoveNestedField(object.Object, "status")
		return nil
	})
	writes := host.Writes()
	if err != nil || result != "updatedStatusOnly" || len(writes) != 1 || writes[0].Options.Subresource != "status" {
		t.Fatal(result, err, writes)
	}
	if body, _ := json.Marshal(writes[0].Body); string(body) != `{"status":null}` {
		t.Errorf("%s", body)
	}
}

type cleaning struct{ err error }

func (c cleaning) Finalize(_ context.Context, object client.Object) (finalizer.Result, error) {
	return finalizer.Result{StatusUpdated: true}, c.err
}

func TestFinalizersRunOnceTheObjectIsBeingDeleted(t *testing.T) {
	all := finalizer.NewFinalizers()
	if err := errors.Join(all.Register("x/good", cleaning{}), all.Register("x/bad", cleaning{errors.New("no")})); err != nil {
		t.Fatal(err)
	}
	if err := all.Register("x/good", cleaning{}); err == nil {
		t.Error("one name for two finalizers")
	}
	object := newShop("prod")
	if result, err := all.Finalize(ctx, object); err != nil || !result.Updated || len(object.Finalizers) != 2 {
		t.Error(result, err, object.Finalizers)
	}
	object.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Time}
	result, err := all.Finalize(ctx, object)
	if err == nil || !result.Updated || !result.StatusUpdated || len(object.Finalizers) != 1 || object.Finalizers[0] != "x/bad" {
		t.Error(result, err, object.Finalizers)
	}
}
