//go:build wasip1

package reconciler

import (
	"encoding/json"

	wt "go.bytecodealliance.org/pkg/wit/types"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/entry"
	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/internal/host"
	"windlass.dev/sdk/internal/wit/exports/export_windlass_plugin_mapper"
	"windlass.dev/sdk/internal/wit/exports/export_windlass_plugin_reconciler"
	_ "windlass.dev/sdk/internal/wit/exports/reconciler"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_mapper"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_reconciler"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_types"
)

func init() {
	entry.Ready()
	export_windlass_plugin_reconciler.Description = func() (document string) {
		guest.Call(func() { document = describe() })
		return document
	}
	export_windlass_plugin_reconciler.Reconciler = func(
		of windlass_plugin_types.Request,
	) (result export_windlass_plugin_reconciler.Result) {
		guest.Call(func() { result = answer(run(guest.Request(of))) })
		return result
	}
	export_windlass_plugin_mapper.Mapper = func(of windlass_plugin_mapper.ChangeBatch) export_windlass_plugin_mapper.Result {
		return wt.Err[[][]windlass_plugin_mapper.Target](unmapped("watch " + of.Watch))
	}
	export_windlass_plugin_mapper.Predicate = func(
		of windlass_plugin_mapper.ChangeBatch,
	) export_windlass_plugin_mapper.Matched {
		counts := make([]bool, len(of.Changes))
		for place := range counts {
			counts[place] = true
		}
		return wt.Ok[[]bool, string](counts)
	}
}

// exportMapper exports the plugin's mapper. The linker drops this code from a plugin without one.
func exportMapper() {
	export_windlass_plugin_mapper.Mapper = func(
		of windlass_plugin_mapper.ChangeBatch,
	) (result export_windlass_plugin_mapper.Result) {
		guest.Call(func() { result = resultOf(mapped(changes(of))) })
		return result
	}
}

// exportPredicate exports the plugin's predicate. The linker drops this code from a plugin without one.
func exportPredicate() {
	export_windlass_plugin_mapper.Predicate = func(
		of windlass_plugin_mapper.ChangeBatch,
	) (result export_windlass_plugin_mapper.Matched) {
		guest.Call(func() {
			counts, failed := matched(changes(of))
			if failed != "" {
				host.Clean(&failed)
				result = wt.Err[[]bool](failed)
				return
			}
			result = wt.Ok[[]bool, string](counts)
		})
		return result
	}
}

func answer(outcome windlass.Outcome, failures []host.Failure) export_windlass_plugin_reconciler.Result {
	if failures != nil {
		return wt.Err[windlass_plugin_reconciler.Outcome](guest.Failures(failures))
	}
	converted := windlass_plugin_reconciler.Outcome{Requeue: guest.Requeue(outcome.After(), outcome.BacksOff())}
	return wt.Ok[windlass_plugin_reconciler.Outcome, []windlass_plugin_types.Failure](converted)
}

func changes(of windlass_plugin_mapper.ChangeBatch) []windlass.Change {
	all := make([]windlass.Change, len(of.Changes))
	for place, change := range of.Changes {
		all[place] = windlass.Change{
			Controller: of.Controller, Watch: of.Watch, RawOld: json.RawMessage(change.Old.SomeOr("")),
			RawNew: json.RawMessage(change.New.SomeOr("")),
		}
	}
	return all
}

func resultOf(targets [][]windlass.Target, failed string) export_windlass_plugin_mapper.Result {
	if failed != "" {
		host.Clean(&failed)
		return wt.Err[[][]windlass_plugin_mapper.Target](failed)
	}
	all := make([][]windlass_plugin_mapper.Target, len(targets))
	for place, found := range targets {
		for _, target := range found {
			all[place] = append(all[place], lowered(target))
		}
	}
	return wt.Ok[[][]windlass_plugin_mapper.Target, string](all)
}

func lowered(target windlass.Target) windlass_plugin_mapper.Target {
	host.Clean(&target.Name, &target.Index, &target.Value)
	if target.Index != "" {
		return windlass_plugin_mapper.MakeTargetIndexed(windlass_plugin_mapper.IndexValue{Index: target.Index, Value: target.Value})
	}
	return windlass_plugin_mapper.MakeTargetPrimary(windlass_plugin_mapper.ObjectKey{
		Namespace: guest.Some(target.Namespace), Name: target.Name,
	})
}
