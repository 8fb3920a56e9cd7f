//go:build !wasip1

package guest

import "windlass.dev/sdk/internal/host"

// Imports are the host's functions. A unit test replaces them with a double.
type Imports = host.Host

// Current is the double of the running test. Outside a test it is nil.
var Current Imports

// LineBegins does nothing in a test.
func LineBegins() {}

// TakenLines is the number of calls of LineTaken, for the tests of this SDK.
var TakenLines int

// LineTaken counts in a test.
func LineTaken() { TakenLines++ }

// Host returns the double of the running test.
func Host() Imports {
	if Current == nil {
		panic("there is no Windlass host here: in a unit test, begin with windlasstest.New(t)")
	}
	return Current
}
