// Package builder adds controllers to a manager. Its calls make the plugin's manifest.
package builder

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/internal/refused"
	"sigs.k8s.io/controller-runtime/internal/watching"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Builder is a TypedBuilder of requests.
type Builder = TypedBuilder[reconcile.Request]

// TypedBuilder collects what a controller watches.
type TypedBuilder[request comparable] struct {
	manager manager.Manager
	name    string
	primary *ForInput
	owned   []*OwnsInput
	watched []*WatchesInput[request]
	sources []source.TypedSource[request]
	filters []predicate.Predicate
	options controller.TypedOptions[request]
	errs    []error
}

// ControllerManagedBy begins a controller.
func ControllerManagedBy(m manager.Manager) *Builder {
	return TypedControllerManagedBy[reconcile.Request](m)
}

// TypedControllerManagedBy begins a controller. The requests must be of the type reconcile.Request.
func TypedControllerManagedBy[request comparable](m manager.Manager) *TypedBuilder[request] {
	return &TypedBuilder[request]{manager: m}
}

// ForInput is the watch of For.
type ForInput struct{ input }

// OwnsInput is a watch of Owns.
type OwnsInput struct {
	input
	everyOwner bool
}

// WatchesInput is a watch of Watches.
type WatchesInput[request comparable] struct {
	input
	handler handler.TypedEventHandler[client.Object, request]
}

// input has the fields that all watches share.
type input struct {
	object       client.Object
	predicates   []predicate.Predicate
	onlyMetadata bool
}

func (of *input) addPredicates(predicates []predicate.Predicate) {
	of.predicates = append(of.predicates, predicates...)
}

func (of *input) setOnlyMetadata() { of.onlyMetadata = true }

// For sets the kind that is reconciled.
func (blder *TypedBuilder[request]) For(object client.Object, opts ...ForOption) *TypedBuilder[request] {
	if blder.primary != nil {
		blder.errs = append(blder.errs, errors.New("For is called twice: a controller reconciles one kind"))
	}
	blder.primary = &ForInput{input{object: object}}
	for _, opt := range opts {
		opt.ApplyToFor(blder.primary)
	}
	return blder
}

// Owns adds a kind of objects that the reconciled objects own. A change of such an object runs its
// controller.
func (blder *TypedBuilder[request]) Owns(object client.Object, opts ...OwnsOption) *TypedBuilder[request] {
	owned := &OwnsInput{input: input{object: object}}
	for _, opt := range opts {
		opt.ApplyToOwns(owned)
	}
	blder.owned = append(blder.owned, owned)
	return blder
}

// Watches adds a kind of other objects. A change of such an object runs the requests that the handler
// finds.
func (blder *TypedBuilder[request]) Watches(
	object client.Object, eventHandler handler.TypedEventHandler[client.Object, request], opts ...WatchesOption,
) *TypedBuilder[request] {
	watched := &WatchesInput[request]{input{object: object}, eventHandler}
	for _, opt := range opts {
		opt.ApplyToWatches(watched)
	}
	blder.watched = append(blder.watched, watched)
	return blder
}

// WatchesMetadata is Watches, and caches only the metadata of the objects.
func (blder *TypedBuilder[request]) WatchesMetadata(
	object client.Object, eventHandler handler.TypedEventHandler[client.Object, request], opts ...WatchesOption,
) *TypedBuilder[request] {
	return blder.Watches(object, eventHandler, append(opts, OnlyMetadata)...)
}

// WatchesRawSource adds a source, which must be one of source.Kind.
func (blder *TypedBuilder[request]) WatchesRawSource(src source.TypedSource[request]) *TypedBuilder[request] {
	blder.sources = append(blder.sources, src)
	return blder
}

// WithEventFilter adds a predicate for all watches but those of WatchesRawSource.
func (blder *TypedBuilder[request]) WithEventFilter(p predicate.Predicate) *TypedBuilder[request] {
	blder.filters = append(blder.filters, p)
	return blder
}

// WithOptions sets options.
func (blder *TypedBuilder[request]) WithOptions(options controller.TypedOptions[request]) *TypedBuilder[request] {
	blder.options = options
	return blder
}

// WithLogConstructor has no effect, because the host identifies the call in each line of the log.
func (blder *TypedBuilder[request]) WithLogConstructor(func(*request) logr.Logger) *TypedBuilder[request] {
	return blder
}

// Named sets the controller's name. The default is the reconciled kind in lower case.
func (blder *TypedBuilder[request]) Named(name string) *TypedBuilder[request] {
	blder.name = name
	return blder
}

// Complete adds the controller to the manager.
func (blder *TypedBuilder[request]) Complete(r reconcile.TypedReconciler[request]) error {
	_, err := blder.Build(r)
	return err
}

// Build adds the controller to the manager and returns it.
func (blder *TypedBuilder[request]) Build(r reconcile.TypedReconciler[request]) (controller.TypedController[request], error) {
	switch {
	case r == nil:
		blder.errs = append(blder.errs, errors.New("the reconciler is nil"))
	case blder.manager == nil:
		blder.errs = append(blder.errs, errors.New("the manager is nil"))
	}
	if err := errors.Join(blder.errs...); err != nil {
		return nil, err
	}
	name, err := blder.nameOf()
	if err != nil {
		return nil, err
	}
	options := blder.options
	options.Reconciler = r
	blder.concurrency(&options)
	made, err := controller.NewTyped(name, blder.manager, options)
	if err != nil {
		return nil, err
	}
	if err := blder.watch(made); err != nil {
		return nil, fmt.Errorf("controller %s: %w", name, err)
	}
	return made, nil
}

func (blder *TypedBuilder[request]) nameOf() (string, error) {
	if blder.name != "" {
		return blder.name, nil
	}
	if blder.primary == nil {
		return "", errors.New("a controller without For needs a name: call Named")
	}
	kind, err := apiutil.GVKForObject(blder.primary.object, blder.manager.GetScheme())
	return strings.ToLower(kind.Kind), err
}

// concurrency takes the number of calls at once from the manager's options for the reconciled kind.
func (blder *TypedBuilder[request]) concurrency(options *controller.TypedOptions[request]) {
	if blder.primary == nil || options.MaxConcurrentReconciles > 0 {
		return
	}
	if kind, err := apiutil.GVKForObject(blder.primary.object, blder.manager.GetScheme()); err == nil {
		options.MaxConcurrentReconciles = blder.manager.GetControllerOptions().GroupKindConcurrency[kind.GroupKind().String()]
	}
}

// watch describes the watches for the manifest.
func (blder *TypedBuilder[request]) watch(made controller.TypedController[request]) error {
	described := controller.Described(made)
	describe := func(of *input, by handler.EventHandler) (*watching.Watch, error) {
		object, err := blder.projected(of)
		if err != nil {
			return nil, err
		}
		return watching.Of(object, by, append(append([]predicate.Predicate(nil), blder.filters...), of.predicates...)...), nil
	}
	if blder.primary != nil {
		watch, err := describe(&blder.primary.input, &handler.EnqueueRequestForObject{})
		if err != nil {
			return err
		}
		described.Primary = watch
	}
	if len(blder.owned) > 0 && blder.primary == nil {
		return errors.New("Owns needs For: objects are owned by the reconciled kind")
	}
	for _, owned := range blder.owned {
		var options []handler.OwnerOption
		if !owned.everyOwner {
			options = append(options, handler.OnlyControllerOwner())
		}
		scheme, mapper := blder.manager.GetScheme(), blder.manager.GetRESTMapper()
		watch, err := describe(&owned.input, handler.EnqueueRequestForOwner(scheme, mapper, blder.primary.object, options...))
		switch {
		case err != nil:
			return err
		case owned.everyOwner:
			described.Watches = append(described.Watches, watch)
		default:
			described.Owns = append(described.Owns, watch)
		}
	}
	for _, watched := range blder.watched {
		by, is := any(watched.handler).(handler.EventHandler)
		if !is {
			return refused.Call("a handler of requests other than reconcile.Request", "the host's requests are names of objects",
				"use reconcile.Request")
		}
		watch, err := describe(&watched.input, by)
		if err != nil {
			return err
		}
		described.Watches = append(described.Watches, watch)
	}
	for _, src := range blder.sources {
		if err := made.Watch(src); err != nil {
			return err
		}
	}
	return nil
}

// projected returns the object of a watch, as a PartialObjectMetadata if only the metadata is to be cached.
func (blder *TypedBuilder[request]) projected(of *input) (client.Object, error) {
	if !of.onlyMetadata {
		return of.object, nil
	}
	kind, err := apiutil.GVKForObject(of.object, blder.manager.GetScheme())
	if err != nil {
		return nil, err
	}
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(kind)
	return partial, nil
}
