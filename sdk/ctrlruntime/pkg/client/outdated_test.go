package client

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	client, err := newClient(Options{Scheme: runtime.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	a := windlass.Ref{APIVersion: "example.com/v1", Kind: "Shop", Namespace: "prod", Name: "a"}
	b := a
	b.Name = "b"
	for verb, reason := range map[string]windlass.Reason{"update": windlass.Conflict, "create": windlass.AlreadyExists} {
		host, ctx := windlasstest.New(t), call.Begin(context.Background())
		host.Fail(verb, "Shop", reason)
		if verb == "update" {
			err = client.Status().Update(ctx, object)
		} else {
			err = client.Create(ctx, object)
		}
		if err == nil || client.isCached(ctx, kind, a, kinds.Whole) || !client.isCached(ctx, kind, b, kinds.Whole) {
			t.Errorf("%s: the next read is from the cache (%v)", verb, err)
		}
		if !client.isCached(call.Begin(context.Background()), kind, a, kinds.Whole) {
			t.Errorf("%s: a read of the next call is live", verb)
		}
	}
}
