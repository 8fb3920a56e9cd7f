//go:build !wasip1

package composer

// In a unit test no host calls the plugin, so nothing is exported.
func exportCustomizer() {}
