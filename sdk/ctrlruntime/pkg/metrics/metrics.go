// Package metrics has the registry of an operator's own metrics. It accepts them, and exports nothing: an instance of a
// plugin ends too often for its counters to count. Use package windlass.dev/sdk/metrics, whose values the host keeps.
package metrics

// RegistererGatherer accepts collectors of any kind.
type RegistererGatherer interface {
	Register(collector any) error
	MustRegister(collectors ...any)
	Unregister(collector any) bool
}

// Registry accepts metrics, and exports nothing.
var Registry RegistererGatherer = registry{}

type registry struct{}

func (registry) Register(any) error  { return nil }
func (registry) MustRegister(...any) {}
func (registry) Unregister(any) bool { return true }
