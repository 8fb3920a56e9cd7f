package reconciler

import (
	"context"
	"fmt"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/entry"
	"windlass.dev/sdk/internal/host"
	"windlass.dev/sdk/manifest"
)

// MapFunc says which primaries a change concerns; none is an answer too. The host asks it about the watches that the manifest maps by
// manifest.ToMapped, each of which needs a name.
//
// It may use the packages log, clock, random and config, and read with package cache. Each change is mapped only once, so map the
// objects that it reads, too. After an error, which is logged, every primary runs at low priority.
type MapFunc func(ctx context.Context, change windlass.Change) ([]windlass.Target, error)

// Option is something that a plugin has beside its function.
type Option func()

var mapper MapFunc

// Mapper is the plugin's own code that maps changes to primaries, for what no mapping of the manifest can say.
func Mapper(by MapFunc) Option {
	return func() {
		mapper = by
		exportMapper()
	}
}

// mapped asks the plugin's mapper about changes of a watch, one by one: the targets of each, or why there are none.
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
	return targets, host.Told(failures)
}

// unmapped is an error's text: of a call without a mapper, and of a manifest that asks for one.
func unmapped(watch string) string {
	return "the manifest maps the watch " + watch + " by `mapper`, and the plugin has none: give reconciler.Register a reconciler.Mapper"
}

// describe is the manifest of a plugin that has what the manifest says.
func describe() string {
	needed()
	if watch := entry.MappedBy(&plugin, manifest.ToMapped()); watch != nil && mapper == nil {
		panic(unmapped(watch.Name))
	}
	return entry.Describe(plugin)
}
