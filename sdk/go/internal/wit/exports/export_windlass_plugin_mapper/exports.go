// Package export_windlass_plugin_mapper is what the generated bindings call. The SDK says what by its variable, since it
// imports the bindings and not the other way round.
package export_windlass_plugin_mapper

import (
	wt "go.bytecodealliance.org/pkg/wit/types"

	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_mapper"
)

// Result is the targets of each change, or why there are none.
type Result = wt.Result[[][]windlass_plugin_mapper.Target, string]

// Mapper is the plugin's.
var Mapper func(windlass_plugin_mapper.ChangeBatch) Result

// Map says which primaries each change concerns.
func Map(batch windlass_plugin_mapper.ChangeBatch) Result { return Mapper(batch) }
