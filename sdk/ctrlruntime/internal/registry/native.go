//go:build !wasip1

package registry

const isGuest = false

// runMain panics: natively the test runs the set-up itself.
func runMain() { panic("the manager was not started: call mgr.Start first") }
