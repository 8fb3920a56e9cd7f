package call

import "sync"

var reads struct {
	mutex sync.Mutex
	// depth is above zero while a map function or a predicate runs.
	depth  int
	failed error
}

// FailedRead runs a map function or a predicate, and returns the first error of its reads. Such functions cannot
// return an error, so most of them ignore a failed read and then miss the change. A variable keeps the error, because
// predicates have no context. An instance runs only one such function at a time.
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

// ReadFailed records the error of a read for FailedRead. A nil error is ignored.
func ReadFailed(err error) {
	reads.mutex.Lock()
	defer reads.mutex.Unlock()
	if reads.depth > 0 && reads.failed == nil {
		reads.failed = err
	}
}
