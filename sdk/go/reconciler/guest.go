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
	entry.Ready()
	export_windlass_plugin_reconciler.Description = func() (document string) {
		guest.Call(func() {
			needed()
			document = entry.Describe(plugin)
		})
		return document
	}
	export_windlass_plugin_reconciler.Reconciler = func(
		of windlass_plugin_types.Request,
	) (result export_windlass_plugin_reconciler.Result) {
		guest.Call(func() { result = answer(run(guest.Request(of))) })
		return result
	}
}

func answer(outcome windlass.Outcome, failures []host.Failure) export_windlass_plugin_reconciler.Result {
	if failures != nil {
		return wt.Err[windlass_plugin_reconciler.Outcome](guest.Failures(failures))
	}
	told := windlass_plugin_reconciler.Outcome{RequeueAfterMs: guest.Milliseconds(outcome.After())}
	return wt.Ok[windlass_plugin_reconciler.Outcome, []windlass_plugin_types.Failure](told)
}
