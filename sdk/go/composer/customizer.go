package composer

import (
	"context"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/entry"
	"windlass.dev/sdk/internal/host"
	"windlass.dev/sdk/manifest"
)

// CustomizeFunc returns rules that select the objects related to a parent, the object of the request. An object needs
// to match only one rule. The host calls the function before each composition, for the watches that the manifest maps
// by manifest.ToRelated. Such a watch needs a name. When a related object is created, changed or deleted, the parent is
// composed again.
//
// The result must depend only on the request and the configuration. Errors are reported like those of a Func.
type CustomizeFunc func(ctx context.Context, request windlass.Request) ([]RelatedRule, error)

// RelatedRule selects the objects of one watch that meet all conditions.
type RelatedRule struct {
	// Watch is the name of the watch in the manifest.
	Watch string
	// Namespace is the objects' namespace. If it is empty, objects in the parent's namespace and cluster-scoped objects
	// match. For a cluster-scoped parent, objects in any namespace then match.
	Namespace string
	// Names are the objects' names. If it is empty, any name matches. If a parent names no object, return no rule,
	// rather than a rule without names.
	Names []string
	// LabelSelector restricts the objects, in Kubernetes' syntax, such as "app=web,tier in (front,back)". If it is
	// empty, any labels match.
	LabelSelector string
}

// Option adds a further function to a plugin.
type Option func()

var customizer CustomizeFunc

// Customizer adds code that relates objects to parents, for relations that no mapping of the manifest can express.
func Customizer(by CustomizeFunc) Option {
	return func() {
		customizer = by
		exportCustomizer()
	}
}

// customized calls the plugin's customizer for a parent.
func customized(request windlass.Request) (rules []RelatedRule, failures []host.Failure) {
	failures = entry.Run(func(ctx context.Context) (err error) {
		rules, err = customizer(ctx, request)
		return err
	})
	return rules, failures
}

func isRelated(watch *manifest.Watch) bool { return entry.IsMapped(watch, manifest.ToRelated()) }

// uncustomized is the error for a plugin without a customizer, if its manifest needs one or the host calls one.
func uncustomized() string {
	name := ""
	if watch := entry.Find(&plugin, isRelated); watch != nil {
		name = watch.Name
	}
	return "the manifest maps the watch " + name + " by `customize`, and the plugin has none: give composer.Register a composer.Customizer"
}

// describe returns the manifest, after checking that the plugin has what the manifest needs.
func describe() string {
	needed()
	if customizer == nil && entry.Find(&plugin, isRelated) != nil {
		panic(uncustomized())
	}
	return entry.Describe(plugin)
}
