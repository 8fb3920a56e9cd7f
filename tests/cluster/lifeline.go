package main

import (
	"context"
	"io"
	"time"
)

// parentPollInterval is how often the cluster checks whether its parent still runs. After the parent was killed, the
// cluster runs at most this long before it begins to stop.
const parentPollInterval = 200 * time.Millisecond

// watchParent calls gone once the parent, the process that started this one, has ended: an orphan gets another parent.
// It polls on purpose. Linux' parent-death signal follows the *thread* that started the child, and a test harness ends
// threads while it runs; macOS has no such signal.
func watchParent(ctx context.Context, parent int, getppid func() int, gone func()) {
	ticker := time.NewTicker(parentPollInterval)
	defer ticker.Stop()
	for getppid() == parent {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
	gone()
}

// watchInput calls gone at the end of input. If only the parent holds the other end of the pipe, this also notices a
// parent that died before watchParent first looked.
func watchInput(input io.Reader, gone func()) {
	// An error means the same as the end of input: the parent cannot reach this process any more.
	_, _ = io.Copy(io.Discard, input)
	gone()
}
