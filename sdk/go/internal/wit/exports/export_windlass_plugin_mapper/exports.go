// Package export_windlass_plugin_mapper has the functions that the generated bindings call. The SDK sets them through
// the variables, because the SDK imports the bindings and not the other way round.
package export_windlass_plugin_mapper

import (
	wt "go.bytecodealliance.org/pkg/wit/types"

	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_mapper"
)

// Result is the targets of each change, or the error.
type Result = wt.Result[[][]windlass_plugin_mapper.Target, string]

// Matched is whether each change counts, or the error.
type Matched = wt.Result[[]bool, string]

// The plugin's functions.
var (
	Mapper    func(windlass_plugin_mapper.ChangeBatch) Result
	Predicate func(windlass_plugin_mapper.ChangeBatch) Matched
)

// Map returns the primaries that each change concerns.
func Map(batch windlass_plugin_mapper.ChangeBatch) Result { return Mapper(batch) }

// Matches returns whether each change counts.
func Matches(batch windlass_plugin_mapper.ChangeBatch) Matched { return Predicate(batch) }
