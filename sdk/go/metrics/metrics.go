// Package metrics sets the metrics that the manifest declares. A value that does not fit its declaration is counted and
// dropped; metrics never make a call fail.
package metrics

import (
	"sort"

	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/internal/host"
)

// Labels are the values of a metric's labels.
type Labels map[string]string

// Add adds to a counter.
func Add(name string, value float64, labels Labels) {
	guest.Host().MetricAdd(name, value, pairs(labels))
}

// Set sets a gauge.
func Set(name string, value float64, labels Labels) {
	guest.Host().MetricSet(name, value, pairs(labels))
}

// Observe adds a value to a histogram.
func Observe(name string, value float64, labels Labels) {
	guest.Host().MetricObserve(name, value, pairs(labels))
}

// pairs sorts the labels, so that the same call sends the same values.
func pairs(labels Labels) []host.Pair {
	all := make([]host.Pair, 0, len(labels))
	for name, value := range labels {
		all = append(all, host.Pair{Name: name, Value: value})
	}
	sort.Slice(all, func(a, b int) bool { return all[a].Name < all[b].Name })
	return all
}
