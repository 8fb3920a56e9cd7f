//go:build !wasip1

package guest

import "windlass.dev/sdk/internal/host"

// Imports are the host's functions, of which a unit test has a double.
type Imports = host.Host

// Current is the double of the test that runs. Nil elsewhere.
var Current Imports

// Host is that double.
func Host() Imports {
	if Current == nil {
		panic("there is no Windlass host here: in a unit test, begin with windlasstest.New(t)")
	}
	return Current
}
