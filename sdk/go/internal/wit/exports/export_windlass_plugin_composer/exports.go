// Package export_windlass_plugin_composer has the functions that the generated bindings call. The SDK sets them through
// the variables, because the SDK imports the bindings and not the other way round.
package export_windlass_plugin_composer

import (
	wt "go.bytecodealliance.org/pkg/wit/types"

	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_composer"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_types"
)

// Result is a composition, or the failures.
type Result = wt.Result[windlass_plugin_composer.Composition, []windlass_plugin_types.Failure]

// The plugin's functions.
var (
	Description func() string
	Composer    func(windlass_plugin_composer.CompositionRequest) Result
)

// Describe returns the manifest.
func Describe() string { return Description() }

// Compose returns the children of one object.
func Compose(request windlass_plugin_composer.CompositionRequest) Result { return Composer(request) }
