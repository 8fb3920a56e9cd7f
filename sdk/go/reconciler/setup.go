package reconciler

import "windlass.dev/sdk/manifest"

// prepare is the set-up that has not run yet, or nil.
var prepare func() manifest.Manifest

// RegisterSetup is like Register, for a plugin that finds out its watches by running code: for example one that stands
// in for a framework whose program builds its controllers in main. The set-up runs once in each instance, before the
// first call, and returns the manifest. It must not read or write objects. A panic ends the instance.
func RegisterSetup(setup func() manifest.Manifest, by Func, options ...Option) {
	Register(manifest.Manifest{}, by, options...)
	prepare = setup
}

// ready runs the set-up unless it has run already. It panics if no plugin was registered.
func ready() {
	needed()
	if setup := prepare; setup != nil {
		prepare = nil
		plugin = setup()
	}
}
