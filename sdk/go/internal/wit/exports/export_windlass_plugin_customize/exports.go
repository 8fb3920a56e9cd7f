// Package export_windlass_plugin_customize has the functions that the generated bindings call. The SDK sets them
// through the variable, because the SDK imports the bindings and not the other way round.
package export_windlass_plugin_customize

import (
	wt "go.bytecodealliance.org/pkg/wit/types"

	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_customize"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_types"
)

// Result is the rules, or the failures.
type Result = wt.Result[[]windlass_plugin_customize.RelatedRule, []windlass_plugin_types.Failure]

// Customizer is the plugin's customizer.
var Customizer func(windlass_plugin_types.Request) Result

// Customize returns the rules for the objects that are related to a parent.
func Customize(request windlass_plugin_types.Request) Result { return Customizer(request) }
