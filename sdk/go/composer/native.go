//go:build !wasip1

package composer

// There are no calls by a host in a unit test.
func exportCustomizer() {}
