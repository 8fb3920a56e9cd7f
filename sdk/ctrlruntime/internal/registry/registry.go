// Package registry collects the declarations of a plugin's set-up, makes the manifest from them, and answers the
// host's calls.
//
// The host does not run main. At the first call of an instance, the registry runs main up to the manager's Start.
package registry

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/internal/refused"
	"sigs.k8s.io/controller-runtime/internal/watching"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"windlass.dev/sdk/manifest"
)

// Controller is a reconcile loop.
type Controller struct {
	// Name is unique, as the author gave it.
	Name string
	// Scheme knows the types of the watches.
	Scheme *runtime.Scheme
	// Primary is the watch of For. If it is nil, the primary is the first of Watches whose requests have the name of
	// the object.
	Primary *watching.Watch
	// Owns are the watches of owned objects, by the kind of owner reference.
	Owns []*watching.Watch
	// Watches are all others.
	Watches []*watching.Watch
	// Options are for the manifest.
	Options manifest.Options
	// Reconciler serves the controller's calls.
	Reconciler reconcile.Reconciler

	// label is the name in the manifest.
	label string
	// coded are the watches with code, by their names in the manifest.
	coded map[string]*coded
}

// coded is a watch with code, for predicates or mappings.
type coded struct {
	*watching.Watch
	kind schema.GroupVersionKind
}

// Scope restricts the caches of a kind. It has the zero value for all objects.
type Scope struct {
	Namespaces    []string
	LabelSelector string
	FieldSelector string
}

// state has the declarations of the set-up so far.
type state struct {
	controllers []*Controller
	description manifest.Manifest
	isDescribed bool
	reads       []client.Object
	// isReadsGiven is true if the author has listed the kinds that are only read. Permissions then add no kinds.
	isReadsGiven bool
	// scopes are the restrictions of kinds. The restriction of the empty kind is for all kinds without their own.
	scopes   map[schema.GroupKind]Scope
	settings settings
	// resync is the interval at which every primary runs again; zero means the host's default.
	resync time.Duration
	// started is true after the manager's Start.
	started bool
}

var current = state{scopes: map[schema.GroupKind]Scope{}}

// Add adds a controller.
func Add(controller *Controller) error {
	for _, known := range current.controllers {
		if known.Name == controller.Name {
			return fmt.Errorf("two controllers have the name %q: give each a different name with Named", controller.Name)
		}
	}
	if current.started {
		return refused.Call("adding a controller after mgr.Start", "the manifest is already complete", "add it before mgr.Start")
	}
	current.controllers = append(current.controllers, controller)
	return nil
}

// Describe sets everything in the manifest except its controllers.
func Describe(description manifest.Manifest) {
	current.description, current.isDescribed = description, true
}

// Read adds kinds that the plugin reads from caches without watching them. After this call, permissions add no kinds.
func Read(objects ...client.Object) {
	current.reads, current.isReadsGiven = append(current.reads, objects...), true
}

// Resync sets the interval at which every primary runs again without a change; nil means the host's default.
func Resync(period *time.Duration) {
	if period != nil {
		current.resync = *period
	}
}

// Restrict sets the scope of a kind. For the empty kind, it sets the scope of all kinds without their own.
func Restrict(kind schema.GroupKind, scope Scope) { current.scopes[kind] = scope }

// label makes a controller's name a DNS label, as the manifest requires.
func label(name string) string {
	mapped := strings.Map(func(letter rune) rune {
		if letter >= 'a' && letter <= 'z' || letter >= '0' && letter <= '9' {
			return letter
		}
		return '-'
	}, strings.ToLower(name))
	return strings.Trim(mapped[:min(len(mapped), labelMax)], "-")
}

// labelMax is the length of the longest DNS label.
const labelMax = 63

// kindOf returns the kind of a watch's objects.
func kindOf(scheme *runtime.Scheme, object client.Object) (schema.GroupVersionKind, error) {
	kind, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		return kind, fmt.Errorf("%w: add its types to the manager's scheme (AddToScheme)", err)
	}
	return kind, nil
}
