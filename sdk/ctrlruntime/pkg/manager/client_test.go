package manager

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/internal/shop"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestNewClientReceivesTheCache(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := shop.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	given := &client.CacheOptions{DisableFor: []client.Object{&shop.Shop{}}}
	for _, options := range []*client.CacheOptions{nil, given} {
		var received client.Options
		made, err := New(nil, Options{
			Scheme: scheme, Client: client.Options{Cache: options},
			NewClient: func(config *rest.Config, options client.Options) (client.Client, error) {
				received = options
				return client.New(config, options)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if received.Cache == nil || received.Cache.Reader == nil || received.Mapper == nil || made.GetClient() == nil {
			t.Errorf("%+v", received)
		}
		if options != nil && len(received.Cache.DisableFor) != 1 {
			t.Errorf("%+v", received.Cache)
		}
	}
	if given.Reader != nil {
		t.Error("the author's options have changed")
	}
}
