// The composing conformance probe of the Go SDK. It carries out the steps in its parent.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"windlass.dev/conformance/pure"
	"windlass.dev/sdk"
	"windlass.dev/sdk/composer"
	"windlass.dev/sdk/manifest"
)

var plugin = manifest.Manifest{
	Name:    "conformance-composer",
	Version: "0.1.0",
	Controllers: []manifest.Controller{{
		Name:    "compositions",
		Primary: manifest.Watch{APIVersion: "conformance.windlass.dev/v1", Kind: "Composition"},
		Owns:    []manifest.Watch{{APIVersion: "v1", Kind: "ConfigMap", UpdateStrategy: manifest.Recreate}},
		Watches: []manifest.Watch{
			{APIVersion: "v1", Kind: "Secret", CallFields: []string{"/data"}, Mapping: manifest.ToSameName()},
			{Name: "customized", APIVersion: "v1", Kind: "Service", Mapping: manifest.ToRelated()},
		},
	}},
}

func init() { composer.Register(plugin, compose, composer.Customizer(customize)) }

func main() {}

type parent struct {
	Spec struct {
		Steps          []pure.Step
		Children       []any
		Events         []event
		RequeueAfterMs int64
		RequeueBackoff bool
		AllowEmpty     bool
		Finalized      bool
	}
}

type event struct {
	Regarding, Related *pure.Target
	EventType          string
	Reason             string
	Action             string
	Note               string
}

func compose(_ context.Context, request composer.Request) (composer.Composition, error) {
	var parent parent
	if err := request.Parent(&parent); err != nil {
		return composer.Composition{}, err
	}
	results := []pure.Result{}
	for _, step := range parent.Spec.Steps {
		if step.Call == "request" {
			asked := request.Request
			// The results have the parent in a field of its own.
			asked.Raw = nil
			results = append(results, pure.RequestOf(asked))
			continue
		}
		result, end, is := pure.Do(step)
		switch {
		case !is:
			panic("there is no step " + step.Call)
		case end != nil && end.Err != nil:
			return composer.Composition{}, end.Err
		case end != nil:
			return composer.Composition{RequeueAfter: end.After, RequeueWithBackoff: end.Backoff}, nil
		}
		results = append(results, result)
	}
	return composer.Composition{
		Children: parent.Spec.Children,
		Status: map[string]any{
			"results": results, "children": names(request.RawChildren), "related": names(request.RawRelated),
		},
		Events:             events(parent.Spec.Events),
		RequeueAfter:       time.Duration(parent.Spec.RequeueAfterMs) * time.Millisecond,
		RequeueWithBackoff: parent.Spec.RequeueBackoff,
		AllowEmpty:         parent.Spec.AllowEmpty,
		Finalized:          parent.Spec.Finalized,
	}, nil
}

func customize(_ context.Context, request windlass.Request) ([]composer.RelatedRule, error) {
	var parent struct {
		Spec struct {
			Rules                 []composer.RelatedRule
			FailRules, RaiseRules string
		}
	}
	_, err := request.Object(&parent)
	switch {
	case err != nil:
		return nil, err
	case parent.Spec.FailRules != "":
		return nil, errors.New(parent.Spec.FailRules)
	case parent.Spec.RaiseRules != "":
		pure.Raise(parent.Spec.RaiseRules)
	}
	return parent.Spec.Rules, nil
}

func names(of []json.RawMessage) []string {
	all := []string{}
	for _, document := range of {
		var object struct{ Metadata windlass.Metadata }
		if err := windlass.Decode(document, &object); err != nil {
			panic(err)
		}
		all = append(all, object.Metadata.Name)
	}
	slices.Sort(all)
	return all
}

func events(of []event) []composer.Event {
	var all []composer.Event
	for _, event := range of {
		made := composer.Event{
			Warning: event.EventType == "warning", Reason: event.Reason, Action: event.Action, Note: event.Note,
		}
		if event.Regarding != nil {
			made.Regarding = new(event.Regarding.Ref())
		}
		if event.Related != nil {
			made.Related = new(event.Related.Ref())
		}
		all = append(all, made)
	}
	return all
}
