package controller

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"windlass.dev/sdk/manifest"
)

// workersMax is the host's limit for calls at once.
const workersMax = 64

// manifestOptions converts options for the manifest.
func manifestOptions[request comparable](options *TypedOptions[request]) manifest.Options {
	made := manifest.Options{
		// controller-runtime's default is one, and reconcilers may rely on it.
		Workers:  min(max(options.MaxConcurrentReconciles, 1), workersMax),
		Deadline: options.ReconciliationTimeout,
	}
	if options.RateLimiter != nil {
		made.BackoffBase, made.BackoffMax = backoff(options.RateLimiter)
	}
	return made
}

// doublings is the number of failures after which any doubling backoff has reached
// its maximum.
const doublings = 64

// backoff asks a limiter for the delay after the first failure and after many.
func backoff[request comparable](limiter workqueue.TypedRateLimiter[request]) (base, maximum time.Duration) {
	var probe request
	base = limiter.When(probe)
	for range doublings {
		maximum = max(maximum, limiter.When(probe))
	}
	limiter.Forget(probe)
	return max(base, time.Millisecond), max(maximum, base)
}
