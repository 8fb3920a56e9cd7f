//go:build wasip1

package guest

import "windlass.dev/sdk/internal/host"

// none is what a composer does not have. A reconciler's host has it all.
type none struct{}

func missing(what string) string {
	return "a composer has no " + what + ": it answers what should be, from what it is asked, and the host does the rest"
}

func (none) CacheGet(host.Ref, []string) host.Read                 { panic(missing("cache")) }
func (none) CacheGetMany([]host.Ref, []string) []host.Read         { panic(missing("cache")) }
func (none) CacheList(host.CacheQuery) (host.Page, *host.APIError) { panic(missing("cache")) }
func (none) LiveGet(host.Ref) host.Read                            { panic(missing("live reads")) }
func (none) LiveList(host.LiveQuery) (host.Page, *host.APIError)   { panic(missing("live reads")) }
func (none) Create(host.Operation) host.Read                       { panic(missing("writes")) }
func (none) Update(host.Operation) host.Read                       { panic(missing("writes")) }
func (none) Patch(host.Operation) host.Read                        { panic(missing("writes")) }
func (none) Apply(host.Operation) host.Read                        { panic(missing("writes")) }
func (none) Delete(host.Operation) host.Read                       { panic(missing("writes")) }
func (none) Batch([]host.Operation) []host.Read                    { panic(missing("writes")) }
func (none) Emit(host.Event)                                       { panic(missing("events but those of its answer")) }
func (none) MetricAdd(string, float64, []host.Pair)                { panic(missing("metrics")) }
func (none) MetricSet(string, float64, []host.Pair)                { panic(missing("metrics")) }
func (none) MetricObserve(string, float64, []host.Pair)            { panic(missing("metrics")) }
func (none) Fetch(host.Request) (host.Response, *host.HTTPError)   { panic(missing("http")) }
func (none) Claim(host.Kind, string) ([]host.Ref, []host.Ref, []*host.APIError) {
	panic(missing("owners"))
}
