// Package export_windlass_plugin_reconciler is what the generated bindings call. The SDK says what by its variables, since
// it imports the bindings and not the other way round.
package export_windlass_plugin_reconciler

import (
	wt "go.bytecodealliance.org/pkg/wit/types"

	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_reconciler"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_types"
)

// Result is how a reconcile ended.
type Result = wt.Result[windlass_plugin_reconciler.Outcome, []windlass_plugin_types.Failure]

// What the plugin does.
var (
	Description func() string
	Reconciler  func(windlass_plugin_types.Request) Result
)

// Describe answers with the manifest.
func Describe() string { return Description() }

// Reconcile reconciles one object.
func Reconcile(request windlass_plugin_types.Request) Result { return Reconciler(request) }
