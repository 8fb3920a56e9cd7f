package client_test

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/internal/shop"
	"sigs.k8s.io/controller-runtime/pkg/client"
	windlass "windlass.dev/sdk"
	"windlass.dev/sdk/windlasstest"
)

func newNamespaced(t *testing.T) (*windlasstest.Host, client.Client) {
	t.Helper()
	host, c := newClient(t)
	host.Define("spec:\n  group: example.com\n  scope: Cluster\n  names: {kind: City}\n  versions: [{name: v1}]\n")
	host.Define("spec:\n  group: example.com\n  scope: Namespaced\n  names: {kind: Shop}\n  versions: [{name: v1}]\n")
	return host, client.NewNamespacedClient(c, "prod")
}

func named(namespace, name string) *shop.Shop {
	return &shop.Shop{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
}

func TestANamespacedClientReadsOneNamespace(t *testing.T) {
	_, c := newNamespaced(t)
	var found shop.Shop
	if err := c.Get(ctx, client.ObjectKey{Name: "a"}, &found); err != nil || found.Namespace != "prod" {
		t.Error(err, found)
	}
	var list shop.ShopList
	if err := c.List(ctx, &list, client.InNamespace("test")); err != nil || len(list.Items) != 2 {
		t.Error(err, list.Items)
	}
	if err := c.Get(ctx, client.ObjectKey{Namespace: "test", Name: "c"}, &found); err == nil || !strings.Contains(err.Error(), "NewNamespacedClient") {
		t.Error("another namespace:", err)
	}
}

func TestANamespacedClientWritesToOneNamespace(t *testing.T) {
	host, c := newNamespaced(t)
	host.Primary = windlass.Ref{APIVersion: "example.com/v1", Kind: "Shop", Namespace: "test", Name: "c"}
	fields := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Shop", "metadata": map[string]any{"name": "a"},
	}}
	if err := errors.Join(
		c.Create(ctx, named("", "new")),
		c.Status().Patch(ctx, named("", "a"), client.RawPatch("application/merge-patch+json", []byte(`{"status":{}}`))),
		c.Apply(ctx, client.ApplyConfigurationFromUnstructured(fields), client.FieldOwner("me")),
		c.Delete(ctx, named("prod", "b")),
		c.DeleteAllOf(ctx, &shop.Shop{}, client.MatchingLabels{"app": "web"}),
	); err != nil {
		t.Fatal(err)
	}
	if len(host.Writes()) != 5 {
		t.Errorf("%+v", host.Writes())
	}
	for name, namespace := range map[string]string{"new": "prod", "c": "test"} {
		if host.Object(windlass.Ref{APIVersion: "example.com/v1", Kind: "Shop", Namespace: namespace, Name: name}) == nil {
			t.Errorf("%s/%s is missing", namespace, name)
		}
	}
	for what, err := range map[string]error{
		"create": c.Create(ctx, named("test", "new")),
		"update": c.Update(ctx, named("test", "c")),
		"delete": c.Delete(ctx, named("test", "c")),
		"status": c.Status().Update(ctx, named("test", "c")),
	} {
		if err == nil || !strings.Contains(err.Error(), "test/") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := c.Create(ctx, &shop.City{ObjectMeta: metav1.ObjectMeta{Name: "graz"}}); err != nil {
		t.Error("a cluster-scoped object:", err)
	}
}
