//go:build wasip1

package composer

import (
	"encoding/json"

	wt "go.bytecodealliance.org/pkg/wit/types"

	"windlass.dev/sdk/internal/entry"
	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/internal/host"
	_ "windlass.dev/sdk/internal/wit/exports/composer"
	"windlass.dev/sdk/internal/wit/exports/export_windlass_plugin_composer"
	"windlass.dev/sdk/internal/wit/exports/export_windlass_plugin_customize"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_composer"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_customize"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_types"
)

func init() {
	entry.Ready()
	export_windlass_plugin_composer.Description = func() (document string) {
		guest.Call(func() { document = describe() })
		return document
	}
	export_windlass_plugin_composer.Composer = func(
		of windlass_plugin_composer.CompositionRequest,
	) (result export_windlass_plugin_composer.Result) {
		guest.Call(func() { result = resultOf(run(request(of))) })
		return result
	}
	export_windlass_plugin_customize.Customizer = func(windlass_plugin_types.Request) export_windlass_plugin_customize.Result {
		failures := []host.Failure{{Message: uncustomized(), Terminal: true}}
		return wt.Err[[]windlass_plugin_customize.RelatedRule](guest.Failures(failures))
	}
}

// exportCustomizer exports the plugin's customizer. The linker drops this code from a plugin without one.
func exportCustomizer() {
	export_windlass_plugin_customize.Customizer = func(
		of windlass_plugin_types.Request,
	) (result export_windlass_plugin_customize.Result) {
		guest.Call(func() { result = related(customized(guest.Request(of))) })
		return result
	}
}

func request(of windlass_plugin_composer.CompositionRequest) Request {
	request := Request{
		Request: guest.Request(of.Request), RawChildren: documents(of.Children), RawRelated: documents(of.Related),
		RawConfig: json.RawMessage(of.Config),
	}
	request.Raw = json.RawMessage(of.Parent)
	return request
}

func documents(texts []string) []json.RawMessage {
	all := make([]json.RawMessage, len(texts))
	for place, text := range texts {
		all[place] = json.RawMessage(text)
	}
	return all
}

func resultOf(written answer, failures []host.Failure) export_windlass_plugin_composer.Result {
	if failures != nil {
		return wt.Err[windlass_plugin_composer.Composition](guest.Failures(failures))
	}
	composition := windlass_plugin_composer.Composition{
		Children: host.Cleaned(written.children), Status: guest.Some(written.status),
		Requeue: guest.Requeue(written.RequeueAfter, written.RequeueWithBackoff), AllowEmpty: written.AllowEmpty, Finalized: written.Finalized,
	}
	for _, event := range written.Events {
		composition.Events = append(composition.Events, guest.Event(event))
	}
	return wt.Ok[windlass_plugin_composer.Composition, []windlass_plugin_types.Failure](composition)
}

func related(rules []RelatedRule, failures []host.Failure) export_windlass_plugin_customize.Result {
	if failures != nil {
		return wt.Err[[]windlass_plugin_customize.RelatedRule](guest.Failures(failures))
	}
	all := make([]windlass_plugin_customize.RelatedRule, len(rules))
	for place, rule := range rules {
		host.Clean(&rule.Watch)
		all[place] = windlass_plugin_customize.RelatedRule{
			Watch: rule.Watch, Namespace: guest.Some(rule.Namespace), Names: host.Cleaned(rule.Names),
			LabelSelector: guest.Some(rule.LabelSelector),
		}
	}
	return wt.Ok[[]windlass_plugin_customize.RelatedRule, []windlass_plugin_types.Failure](all)
}
