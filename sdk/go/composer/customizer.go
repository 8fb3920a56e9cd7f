package composer

import (
	"context"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/entry"
	"windlass.dev/sdk/internal/host"
	"windlass.dev/sdk/manifest"
)

// CustomizeFunc says which objects are related to a parent, the object of the request: those that meet one of the rules. The host
// asks it before each composition about the watches that the manifest maps by manifest.ToRelated, each of which needs a name. When
// one of these objects changes, appears or goes, the parent is composed again.
//
// It must depend on nothing but the request and the configuration. Its errors are reported like those of a Func.
type CustomizeFunc func(ctx context.Context, request windlass.Request) ([]RelatedRule, error)

// RelatedRule is objects of one watch: those that meet all of it.
type RelatedRule struct {
	// Watch is the name of the watch in the manifest.
	Watch string
	// Namespace is where they are. Empty: in the parent's namespace or in none; for a cluster-scoped parent: anywhere.
	Namespace string
	// Names are theirs. Empty: any. So a parent that names no object has no rule, rather than a rule without names.
	Names []string
	// LabelSelector narrows them, in Kubernetes' syntax, such as "app=web,tier in (front,back)". Empty: any.
	LabelSelector string
}

// Option is something that a plugin has beside its function.
type Option func()

var customizer CustomizeFunc

// Customizer is the plugin's own code that relates objects to parents, for what no mapping of the manifest can say.
func Customizer(by CustomizeFunc) Option {
	return func() {
		customizer = by
		exportCustomizer()
	}
}

// customized asks the plugin's customizer about a parent.
func customized(request windlass.Request) (rules []RelatedRule, failures []host.Failure) {
	failures = entry.Run(func(ctx context.Context) (err error) {
		rules, err = customizer(ctx, request)
		return err
	})
	return rules, failures
}

// uncustomized is an error's text: of a call without a customizer, and of a manifest that asks for one.
func uncustomized() string {
	name := ""
	if watch := entry.MappedBy(&plugin, manifest.ToRelated()); watch != nil {
		name = watch.Name
	}
	return "the manifest maps the watch " + name + " by `customize`, and the plugin has none: give composer.Register a composer.Customizer"
}

// describe is the manifest of a plugin that has what the manifest says.
func describe() string {
	needed()
	if customizer == nil && entry.MappedBy(&plugin, manifest.ToRelated()) != nil {
		panic(uncustomized())
	}
	return entry.Describe(plugin)
}
