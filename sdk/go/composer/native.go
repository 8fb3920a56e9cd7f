//go:build !wasip1

package composer

// Nobody calls a unit test.
func exportCustomizer() {}
