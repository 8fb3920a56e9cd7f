// Package cluster has the part of a manager that reads and writes objects. A plugin has one cluster.
package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/internal/refused"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
)

// Cluster reads and writes objects.
type Cluster interface {
	recorder.Provider

	// GetConfig returns a configuration without content: the host has the connection.
	GetConfig() *rest.Config
	// GetCache reads from the host's caches.
	GetCache() cache.Cache
	// GetScheme returns the scheme that knows the types of objects.
	GetScheme() *runtime.Scheme
	// GetClient returns a client that reads watched kinds from the host's caches.
	GetClient() client.Client
	// GetFieldIndexer adds indexes.
	GetFieldIndexer() client.FieldIndexer
	// GetRESTMapper asks the API server which kinds it serves. During the set-up it fails.
	GetRESTMapper() meta.RESTMapper
	// GetAPIReader reads from the API server.
	GetAPIReader() client.Reader
	// Start ends the set-up.
	Start(ctx context.Context) error
}

// Options are the options of New.
type Options struct {
	Scheme *runtime.Scheme
}

// Option is an option of New.
type Option func(*Options)

// New is refused.
func New(*rest.Config, ...Option) (Cluster, error) {
	return nil, refused.Call("cluster.New", "a plugin runs in one cluster, and has no connections of its own",
		"run a host in the other cluster")
}
