//go:build wasip1

package registry

import (
	_ "unsafe" // For go:linkname.

	"sigs.k8s.io/controller-runtime/internal/setup"
)

const isGuest = true

// programMain is the program's main, which a c-shared library contains but does not run.
//
//go:linkname programMain main.main
func programMain()

// runMain runs main in a goroutine, until main starts the manager or ends. The goroutine then waits for
// ever.
func runMain() {
	startedMain = make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		programMain()
	}()
	select {
	case <-startedMain:
	case <-ended:
		setup.Fail("main ended before mgr.Start, which ends the set-up of a plugin")
	}
}
