//go:build !wasip1

package reconciler

// There are no calls by a host in a unit test.
func exportMapper() {}
