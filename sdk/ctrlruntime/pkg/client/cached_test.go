package client

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/internal/kinds"
	"sigs.k8s.io/controller-runtime/internal/shop"
	windlass "windlass.dev/sdk"
)

func TestTheCacheOptionsSayWhichReadsAreLive(t *testing.T) {
	kinds.Reset()
	t.Cleanup(kinds.Reset)
	scheme := runtime.NewScheme()
	if err := shop.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kind := shop.GroupVersion.WithKind("Shop")
	kinds.Cache(kind, kinds.Whole)
	reader := &hostClient{}
	for name, test := range map[string]struct {
		options             *CacheOptions
		typed, unstructured bool
	}{
		"none":         {nil, false, false},
		"no reader":    {&CacheOptions{Unstructured: true}, false, false},
		"a reader":     {&CacheOptions{Reader: reader}, true, false},
		"unstructured": {&CacheOptions{Reader: reader, Unstructured: true}, true, true},
		"disabled":     {&CacheOptions{Reader: reader, Unstructured: true, DisableFor: []Object{&shop.Shop{}}}, false, false},
		"disabled for another": {
			&CacheOptions{Reader: reader, Unstructured: true, DisableFor: []Object{&shop.Item{}}}, true, true,
		},
	} {
		made, err := New(nil, Options{Scheme: scheme, Cache: test.options})
		if err != nil {
			t.Fatal(err)
		}
		client := made.(*hostClient)
		for _, object := range []Object{&shop.Shop{}, &metav1.PartialObjectMetadata{}} {
			if client.getIsCached(context.Background(), object, kind, windlass.Ref{}) != test.typed {
				t.Errorf("%s: a Get of a %T is cached: %v", name, object, !test.typed)
			}
		}
		if client.getIsCached(context.Background(), &unstructured.Unstructured{}, kind, windlass.Ref{}) != test.unstructured ||
			client.listIsCached(context.Background(), &unstructured.UnstructuredList{}, kind) != test.unstructured ||
			client.listIsCached(context.Background(), &shop.ShopList{}, kind) != test.typed {
			t.Errorf("%s: unstructured objects or lists", name)
		}
	}
}
