//go:build !wasip1

package reconciler

// In a unit test no host calls the plugin, so nothing is exported.
func exportMapper() {}

func exportPredicate() {}
