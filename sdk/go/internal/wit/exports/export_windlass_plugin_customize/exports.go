// Package export_windlass_plugin_customize is what the generated bindings call. The SDK says what by its variable, since it
// imports the bindings and not the other way round.
package export_windlass_plugin_customize

import (
	wt "go.bytecodealliance.org/pkg/wit/types"

	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_customize"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_types"
)

// Result is the rules, or what went wrong.
type Result = wt.Result[[]windlass_plugin_customize.RelatedRule, []windlass_plugin_types.Failure]

// Customizer is the plugin's.
var Customizer func(windlass_plugin_types.Request) Result

// Customize says which objects are related to a parent.
func Customize(request windlass_plugin_types.Request) Result { return Customizer(request) }
