package reconciler

import (
	"context"
	"fmt"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/entry"
	"windlass.dev/sdk/internal/host"
	"windlass.dev/sdk/manifest"
)

// MapFunc returns the primaries that a change concerns, possibly none. The host calls it for the watches that the
// manifest maps by manifest.ToMapped. Such a watch needs a name.
//
// The host also calls it for the deliveries to hooks that the manifest maps so. The change has the hook's name as its watch,
// and a new object with the request's JSON in payload. After an error nothing runs for a delivery.
//
// A MapFunc may use the packages log, clock, random and config, and read with package cache. Changes of the objects
// that it reads must be mapped too, because each change is mapped only once. After an error, which is logged, every
// primary runs at low priority.
type MapFunc func(ctx context.Context, change windlass.Change) ([]windlass.Target, error)

// PredicateFunc returns whether a change counts. The host calls it for the watches with a CodePredicate. Such a watch
// needs a name. The changes that it judges are new objects, the objects of first lists (without an old state), and
// updates that pass the watch's Predicates. Deletions always count. A change that does not count is not mapped and
// runs nothing.
//
// It may use the same packages as a MapFunc. After an error, which is logged, the change counts.
type PredicateFunc func(ctx context.Context, change windlass.Change) (bool, error)

// Option adds a further function to a plugin.
type Option func()

var (
	mapper    MapFunc
	predicate PredicateFunc
)

// Mapper adds code that maps changes to primaries, for mappings that the manifest cannot express.
func Mapper(by MapFunc) Option {
	return func() {
		mapper = by
		exportMapper()
	}
}

// Predicate adds code that decides which changes count, for conditions that the manifest cannot express.
func Predicate(by PredicateFunc) Option {
	return func() {
		predicate = by
		exportPredicate()
	}
}

// mapped calls the plugin's mapper for each change of a watch. It returns the targets of each change, or the error.
func mapped(changes []windlass.Change) (targets [][]windlass.Target, failed string) {
	return each(changes, mapper)
}

// matched calls the plugin's predicate for each change of a watch. It returns whether each counts, or the error.
func matched(changes []windlass.Change) (counts []bool, failed string) {
	return each(changes, predicate)
}

// each calls a function for each change. It returns all results, or the first error.
func each[T any](changes []windlass.Change, function func(context.Context, windlass.Change) (T, error)) (all []T, failed string) {
	ready()
	failures := entry.Run(func(ctx context.Context) error {
		all = make([]T, len(changes))
		for place, change := range changes {
			result, err := function(ctx, change)
			if err != nil {
				return fmt.Errorf("%s: %w", change, err)
			}
			all[place] = result
		}
		return nil
	})
	return all, host.Messages(failures)
}

// unmapped is the error for a plugin without a mapper, if its manifest needs one or the host calls one.
func unmapped(what string) string {
	return "the manifest maps the " + what + " by `mapper`, and the plugin has none: give reconciler.Register a reconciler.Mapper"
}

func isMapped(watch *manifest.Watch) bool { return entry.IsMapped(watch, manifest.ToMapped()) }

func isJudged(watch *manifest.Watch) bool { return watch.CodePredicate }

// describe returns the manifest, after checking that the plugin has what the manifest needs.
func describe() string {
	ready()
	if watch := entry.Find(&plugin, isMapped); watch != nil && mapper == nil {
		panic(unmapped("watch " + watch.Name))
	}
	if hook := entry.FindHook(&plugin, manifest.ToMapped()); hook != nil && mapper == nil {
		panic(unmapped("hook " + hook.Name))
	}
	if watch := entry.Find(&plugin, isJudged); watch != nil && predicate == nil {
		panic("the manifest has a CodePredicate for the watch " + watch.Name +
			", and the plugin has none: give reconciler.Register a reconciler.Predicate")
	}
	return entry.Describe(plugin)
}
