// Package export_windlass_plugin_reconciler has the functions that the generated bindings call. The SDK sets them
// through the variables, because the SDK imports the bindings and not the other way round.
package export_windlass_plugin_reconciler

import (
	wt "go.bytecodealliance.org/pkg/wit/types"

	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_reconciler"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_types"
)

// Result is the outcome of a reconcile, or the failures.
type Result = wt.Result[windlass_plugin_reconciler.Outcome, []windlass_plugin_types.Failure]

// The plugin's functions.
var (
	Description func() string
	Reconciler  func(windlass_plugin_types.Request) Result
)

// Describe returns the manifest.
func Describe() string { return Description() }

// Reconcile reconciles one object.
func Reconcile(request windlass_plugin_types.Request) Result { return Reconciler(request) }
