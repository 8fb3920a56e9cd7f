// Package setup reports whether the plugin's set-up is running. The set-up is its init functions and its main, up
// to the manager's Start. The set-up runs again in each instance, and must not call the host.
package setup

// running is true in a plugin until the manager's Start.
var running bool

// IsRunning reports whether the set-up is running. Natively, outside tests of this module, it never is.
func IsRunning() bool { return running }

// Begin begins the set-up.
func Begin() { running = true }

// End ends the set-up.
func End() { running = false }
