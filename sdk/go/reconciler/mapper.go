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
// A MapFunc may use the packages log, clock, random and config, and read with package cache. Changes of the objects
// that it reads must be mapped too, because each change is mapped only once. After an error, which is logged, every
// primary runs at low priority.
type MapFunc func(ctx context.Context, change windlass.Change) ([]windlass.Target, error)

// Option adds a further function to a plugin.
type Option func()

var mapper MapFunc

// Mapper adds code that maps changes to primaries, for mappings that the manifest cannot express.
func Mapper(by MapFunc) Option {
	return func() {
		mapper = by
		exportMapper()
	}
}

// mapped calls the plugin's mapper for each change of a watch. It returns the targets of each change, or the error.
func mapped(changes []windlass.Change) (targets [][]windlass.Target, failed string) {
	failures := entry.Run(func(ctx context.Context) error {
		targets = make([][]windlass.Target, len(changes))
		for place, change := range changes {
			found, err := mapper(ctx, change)
			if err != nil {
				return fmt.Errorf("%s: %w", change, err)
			}
			targets[place] = found
		}
		return nil
	})
	return targets, host.Messages(failures)
}

// unmapped is the error for a plugin without a mapper, if its manifest needs one or the host calls one.
func unmapped(watch string) string {
	return "the manifest maps the watch " + watch + " by `mapper`, and the plugin has none: give reconciler.Register a reconciler.Mapper"
}

// describe returns the manifest, after checking that the plugin has what the manifest needs.
func describe() string {
	needed()
	if watch := entry.MappedBy(&plugin, manifest.ToMapped()); watch != nil && mapper == nil {
		panic(unmapped(watch.Name))
	}
	return entry.Describe(plugin)
}
