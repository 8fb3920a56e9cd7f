package builder

import "sigs.k8s.io/controller-runtime/pkg/predicate"

// ForOption is an option of For.
type ForOption interface{ ApplyToFor(*ForInput) }

// OwnsOption is an option of Owns.
type OwnsOption interface{ ApplyToOwns(*OwnsInput) }

// WatchesOption is an option of Watches.
type WatchesOption interface{ ApplyToWatches(anyWatchesInput) }

// anyWatchesInput is a WatchesInput of any type of requests.
type anyWatchesInput interface {
	addPredicates(predicates []predicate.Predicate)
	setOnlyMetadata()
}

// Predicates are predicates of one watch.
type Predicates struct{ predicates []predicate.Predicate }

// WithPredicates adds predicates to a watch. All must accept an event.
func WithPredicates(predicates ...predicate.Predicate) Predicates { return Predicates{predicates} }

// ApplyToFor adds the predicates.
func (w Predicates) ApplyToFor(opts *ForInput) { opts.addPredicates(w.predicates) }

// ApplyToOwns adds the predicates.
func (w Predicates) ApplyToOwns(opts *OwnsInput) { opts.addPredicates(w.predicates) }

// ApplyToWatches adds the predicates.
func (w Predicates) ApplyToWatches(opts anyWatchesInput) { opts.addPredicates(w.predicates) }

// OnlyMetadata caches only the metadata of the objects of a watch. Events then have a PartialObjectMetadata.
var OnlyMetadata = onlyMetadata{}

type onlyMetadata struct{}

func (onlyMetadata) ApplyToFor(opts *ForInput)           { opts.setOnlyMetadata() }
func (onlyMetadata) ApplyToOwns(opts *OwnsInput)         { opts.setOnlyMetadata() }
func (onlyMetadata) ApplyToWatches(opts anyWatchesInput) { opts.setOnlyMetadata() }

// MatchEveryOwner makes a change of an owned object run all of its owners, not only its controller.
var MatchEveryOwner = &matchEveryOwner{}

type matchEveryOwner struct{}

// ApplyToOwns sets the option.
func (*matchEveryOwner) ApplyToOwns(opts *OwnsInput) { opts.everyOwner = true }
