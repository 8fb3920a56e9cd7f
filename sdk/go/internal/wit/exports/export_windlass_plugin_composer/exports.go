// Package export_windlass_plugin_composer is what the generated bindings call. The SDK says what by its variables, since
// it imports the bindings and not the other way round.
package export_windlass_plugin_composer

import (
	wt "go.bytecodealliance.org/pkg/wit/types"

	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_composer"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_types"
)

// Result is how a composition ended.
type Result = wt.Result[windlass_plugin_composer.Composition, []windlass_plugin_types.Failure]

// What the plugin does.
var (
	Description func() string
	Composer    func(windlass_plugin_composer.CompositionRequest) Result
)

// Describe answers with the manifest.
func Describe() string { return Description() }

// Compose answers with the children of one object.
func Compose(request windlass_plugin_composer.CompositionRequest) Result { return Composer(request) }
