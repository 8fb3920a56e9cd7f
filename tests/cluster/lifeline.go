package main

import (
	"context"
	"io"
	"time"
)

// parentPollInterval is the longest that the cluster outlives a killed parent by, apart from its own stop.
const parentPollInterval = 200 * time.Millisecond

// watchParent calls gone once the process that started this one, parent, has ended: an orphan gets another. Polling
// is on purpose. Linux' parent-death signal follows the *thread* that started the child, and a test harness's
// threads come and go; macOS has none.
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

// watchInput calls gone at the end of input. With a pipe whose other end only the parent holds there is not even
// the race of a parent that died before watchParent first looked.
func watchInput(input io.Reader, gone func()) {
	// An error means the same as the end: nobody can talk to us any more.
	_, _ = io.Copy(io.Discard, input)
	gone()
}
