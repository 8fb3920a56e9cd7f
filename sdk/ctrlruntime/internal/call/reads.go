package call

import "sync"

var reads struct {
	mutex sync.Mutex
	// depth is above zero while a map function or a predicate runs.
	depth  int
	failed error
}

// FailedRead runs a map function or a predicate, and returns the first error of its reads. These have no way to return
// an error, so most ignore it and then miss the change. An instance runs one of them at a time, and predicates have no
// context, so this is not kept in a context.
func FailedRead(run func()) error {
	reads.mutex.Lock()
	reads.depth++
	reads.mutex.Unlock()
	defer func() {
		reads.mutex.Lock()
		defer reads.mutex.Unlock()
		if reads.depth--; reads.depth == 0 {
			reads.failed = nil
		}
	}()
	run()
	reads.mutex.Lock()
	defer reads.mutex.Unlock()
	return reads.failed
}

// ReadFailed records the error of a read for FailedRead. Nil is no error.
func ReadFailed(err error) {
	reads.mutex.Lock()
	defer reads.mutex.Unlock()
	if reads.depth > 0 && reads.failed == nil {
		reads.failed = err
	}
}
