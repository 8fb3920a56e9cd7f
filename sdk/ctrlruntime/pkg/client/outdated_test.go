package client

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/internal/call"
	"sigs.k8s.io/controller-runtime/internal/kinds"
	windlass "windlass.dev/sdk"
	"windlass.dev/sdk/windlasstest"
)

func TestAReadAfterAConflictIsLive(t *testing.T) {
	t.Cleanup(kinds.Reset)
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Shop"})
	object.SetNamespace("prod")
	object.SetName("a")
	kind := object.GroupVersionKind()
	kinds.Cache(kind, kinds.Whole)
	client, err := newClient(Options{Scheme: runtime.NewScheme(), Cache: &CacheOptions{Reader: &hostClient{}, Unstructured: true}})
	if err != nil {
		t.Fatal(err)
	}
	a := windlass.Ref{APIVersion: "example.com/v1", Kind: "Shop", Namespace: "prod", Name: "a"}
	b := a
	b.Name = "b"
	writes := map[string]func(context.Context) error{
		"update": func(ctx context.Context) error { return client.Status().Update(ctx, object) },
		"create": func(ctx context.Context) error { return client.Create(ctx, object) },
		"delete": func(ctx context.Context) error {
			return client.Delete(ctx, object, Preconditions{UID: new(types.UID("u"))})
		},
		"apply": func(ctx context.Context) error { return client.Apply(ctx, ApplyConfigurationFromUnstructured(object)) },
	}
	list := &unstructured.UnstructuredList{}
	for verb, write := range writes {
		host, ctx := windlasstest.New(t), call.Begin(context.Background(), "prod")
		reason := windlass.Conflict
		if verb == "create" {
			reason = windlass.AlreadyExists
		}
		host.Fail(verb, "Shop", reason)
		err := write(ctx)
		if err == nil || client.listIsCached(ctx, list, kind) || client.getIsCached(ctx, object, kind, a) || !client.getIsCached(ctx, object, kind, b) {
			t.Errorf("%s: the next read is from the cache (%v)", verb, err)
		}
		if next := call.Begin(context.Background(), "prod"); !client.getIsCached(next, object, kind, a) || !client.listIsCached(next, list, kind) {
			t.Errorf("%s: a read of the next call is live", verb)
		}
	}
}
