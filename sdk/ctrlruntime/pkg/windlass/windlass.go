// Package windlass has declarations for plugins that controller-runtime has no calls for. It is part of Windlass.
package windlass

import (
	"context"

	"sigs.k8s.io/controller-runtime/internal/registry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sdk "windlass.dev/sdk"
	"windlass.dev/sdk/manifest"
)

// Describe sets the manifest's name, version, permissions, definitions, finalizers and the like: everything except
// Controllers, which follow from the calls of package builder. Call it from an init function of package main.
//
// Without a name, the plugin has the name of the main module. Without Finalizers, it may set and remove any finalizer.
func Describe(description manifest.Manifest) {
	description.Controllers = nil
	registry.Describe(description)
}

// Reads adds kinds that the plugin reads from caches although no controller watches them. Call it during the set-up.
// Reads of all other kinds are live, and need a permission.
//
// Without any call of Reads, every kind of the scheme that a permission allows to list and watch is cached, because a
// cache of controller-runtime would need these rights. This may fill caches that the plugin never reads. It applies
// only to built-in kinds and to kinds of the manifest's CRDs, because a controller waits until the API server serves
// all kinds that it watches.
func Reads(objects ...client.Object) { registry.Read(objects...) }

// Environment names environment variables that the operator's configuration may set, in its field env. They are set
// before main. A plugin has no other environment variables. Call it from an init function of package main. If Describe
// sets Config, its schema must have the field.
func Environment(names ...string) { registry.Environment(names...) }

// Flags names flags that the operator's configuration may set, in its field flags, for package flag in main. A plugin
// has no other arguments. Call it from an init function of package main. If Describe sets Config, its schema must have
// the field.
func Flags(names ...string) { registry.Flags(names...) }

// Manifest returns the manifest, after the manager's Start. It is for tests.
func Manifest() manifest.Manifest { return registry.Setup() }

// Reconcile answers a call of the host. It is for tests, with package windlasstest.
func Reconcile(ctx context.Context, request sdk.Request) (sdk.Outcome, error) {
	return registry.Reconcile(ctx, request)
}
