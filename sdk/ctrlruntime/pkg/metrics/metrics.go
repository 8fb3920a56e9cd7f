// Package metrics has the registry of an operator's own metrics. It accepts metrics but exports nothing, because an
// instance of a plugin ends too soon for its counters to be useful. Use package windlass.dev/sdk/metrics, whose values
// the host keeps.
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
