//go:build !wasip1

package guest

import "windlass.dev/sdk/internal/host"

// Imports are the host's functions. A unit test has a double of them.
type Imports = host.Host

// Current is the double of the running test; nil elsewhere.
var Current Imports

// Host is that double.
func Host() Imports {
	if Current == nil {
		panic("there is no Windlass host here: in a unit test, begin with windlasstest.New(t)")
	}
	return Current
}
