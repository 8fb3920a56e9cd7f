package reconciler

import (
	"encoding/json"

	"windlass.dev/sdk/internal/host"
	"windlass.dev/sdk/manifest"
)

// prepare runs the set-up if it has not run yet. It is nil without a set-up.
var prepare func()

// RegisterSetup is like Register, for a plugin that must run code to determine its watches. For example, a program of
// a framework may build its controllers in main. The set-up runs once in each instance, before the first call, and
// returns the manifest. It must not read or write objects. A panic ends the instance.
func RegisterSetup(setup func() manifest.Manifest, by Func, options ...Option) {
	Register(manifest.Manifest{}, by, options...)
	prepare = func() {
		prepare = nil
		plugin = setup()
	}
	host.Copied = copied
}

// copied stores a raw document unchanged, because the host's documents are valid JSON.
func copied(document string, into any) bool {
	raw, is := into.(*json.RawMessage)
	if is && document != "" {
		*raw = append((*raw)[:0], document...)
		return true
	}
	return false
}

// ready runs the set-up unless it has run already. It panics if no plugin was registered.
func ready() {
	needed()
	if prepare != nil {
		prepare()
	}
}
