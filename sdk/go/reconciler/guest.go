//go:build wasip1

package reconciler

import (
	wt "go.bytecodealliance.org/pkg/wit/types"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/entry"
	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/internal/host"
	"windlass.dev/sdk/internal/wit/exports/export_windlass_plugin_reconciler"
	_ "windlass.dev/sdk/internal/wit/exports/reconciler"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_reconciler"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_types"
)

func init() {
	host.Current = guest.Full{}
	entry.Ready()
	export_windlass_plugin_reconciler.Description = func() string {
		return guest.Call(func() string {
			needed()
			return entry.Describe(plugin)
		})
	}
	export_windlass_plugin_reconciler.Reconciler = func(of windlass_plugin_types.Request) export_windlass_plugin_reconciler.Result {
		return guest.Call(func() export_windlass_plugin_reconciler.Result { return answer(run(guest.Request(of))) })
	}
}

func answer(outcome windlass.Outcome, failures []host.Failure) export_windlass_plugin_reconciler.Result {
	if failures != nil {
		return wt.Err[windlass_plugin_reconciler.Outcome](guest.Failures(failures))
	}
	told := windlass_plugin_reconciler.MakeOutcomeDone()
	if again := outcome.After(); again > 0 {
		told = windlass_plugin_reconciler.MakeOutcomeRequeueAfter(guest.Milliseconds(again))
	}
	return wt.Ok[windlass_plugin_reconciler.Outcome, []windlass_plugin_types.Failure](told)
}
