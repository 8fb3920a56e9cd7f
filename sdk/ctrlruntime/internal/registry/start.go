package registry

import (
	"context"

	"sigs.k8s.io/controller-runtime/internal/setup"
)

// startedMain is closed when main has started the manager. It is nil unless main runs in a goroutine of Setup.
var startedMain chan struct{}

// Start is the end of the set-up. In a plugin it keeps the goroutine of main waiting, as a manager would. Natively it
// waits for the end of the context.
func Start(ctx context.Context) {
	if current.started {
		return
	}
	current.started = true
	setup.End()
	if startedMain != nil {
		close(startedMain)
		select {}
	}
	if !isGuest {
		<-ctx.Done()
	}
}

// Reset forgets the set-up, for tests.
func Reset() {
	clear(current.scopes)
	current = state{scopes: current.scopes}
}

// IsStarted reports whether the set-up has ended.
func IsStarted() bool { return current.started }
