// Package call records the state of a call: the namespace of its primary, its failed reads, and the objects that the
// caches show in an old state. controller-runtime's caches catch up while a reconciler retries
// (retry.RetryOnConflict). The host's caches do not change until the call ends.
package call

import (
	"context"
	"sync"

	windlass "windlass.dev/sdk"
)

type key struct{}

type stale struct {
	mutex   sync.Mutex
	objects map[windlass.Ref]bool
}

// namespace is the namespace of the latest call's primary. An instance serves one call at a time.
var namespace string

// Namespace returns the namespace of the primary; empty if it has none, or outside a call.
func Namespace() string { return namespace }

// Begin returns the context of a call about a primary in this namespace.
func Begin(ctx context.Context, ofPrimary string) context.Context {
	namespace = ofPrimary
	return context.WithValue(ctx, key{}, &stale{objects: map[windlass.Ref]bool{}})
}

// Outdated records that the server has another state of an object than the caches. It does nothing outside a call.
func Outdated(ctx context.Context, object windlass.Ref) {
	if known, is := ctx.Value(key{}).(*stale); is {
		known.mutex.Lock()
		defer known.mutex.Unlock()
		known.objects[object] = true
	}
}

// IsAnyOutdated reports whether the caches show an old state of an object of a kind.
func IsAnyOutdated(ctx context.Context, kind windlass.Kind) bool {
	known, is := ctx.Value(key{}).(*stale)
	if !is {
		return false
	}
	known.mutex.Lock()
	defer known.mutex.Unlock()
	for object := range known.objects {
		if object.APIVersion == kind.APIVersion && object.Kind == kind.Kind {
			return true
		}
	}
	return false
}

// IsOutdated reports whether the caches show an old state of an object.
func IsOutdated(ctx context.Context, object windlass.Ref) bool {
	known, is := ctx.Value(key{}).(*stale)
	if !is {
		return false
	}
	known.mutex.Lock()
	defer known.mutex.Unlock()
	return known.objects[object]
}
