//go:build !wasip1

package setup

// Fail panics: natively it is for tests.
func Fail(text string) { panic(text) }
