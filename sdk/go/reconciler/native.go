//go:build !wasip1

package reconciler

// Nobody calls a unit test.
func exportMapper() {}
