package reconciler

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"windlass.dev/sdk"
	"windlass.dev/sdk/labels"
	"windlass.dev/sdk/manifest"
	"windlass.dev/sdk/windlasstest"
)

type pod struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   windlass.Metadata `json:"metadata"`
}

func labelled(name string, is map[string]string) pod {
	return pod{"v1", "Pod", windlass.Metadata{Name: name, Namespace: "prod", Labels: is}}
}

// toServices maps a Pod to the Services whose selector matches its labels, before or now.
func toServices(_ context.Context, change windlass.Change) ([]windlass.Target, error) {
	states, err := windlass.States[pod](change)
	var targets []windlass.Target
	for _, state := range states {
		targets = append(targets, windlass.Indexed("by-selector", labels.Selector{MatchLabels: state.Metadata.Labels}.String()))
	}
	return targets, err
}

var mapping = manifest.Manifest{Controllers: []manifest.Controller{{
	Name: "services", Primary: manifest.Watch{APIVersion: "v1", Kind: "Service"},
	Watches: []manifest.Watch{
		{APIVersion: "v1", Kind: "Node", Mapping: manifest.ToAll()},
		{Name: "pods", APIVersion: "v1", Kind: "Pod", Mapping: manifest.ToMapped()},
	},
}}}

func done(context.Context, windlass.Request) (windlass.Outcome, error) { return windlass.Done, nil }

// registered registers a plugin for one test.
func registered(t *testing.T, of manifest.Manifest, options ...Option) *windlasstest.Host {
	t.Helper()
	forget := func() { reconcile, mapper, predicate = nil, nil, nil }
	forget()
	t.Cleanup(forget)
	Register(of, done, options...)
	return windlasstest.New(t)
}

func TestEachChangeHasTheTargetsOfBothStates(t *testing.T) {
	registered(t, mapping, Mapper(toServices))
	web, db := map[string]string{"tier": "front", "app": "web"}, map[string]string{"app": "db"}
	targets, failed := mapped([]windlass.Change{
		windlasstest.Change("pods", labelled("a", web), labelled("a", db)),
		{},
		windlasstest.Change("pods", labelled("b", db), nil),
	})
	wanted := [][]windlass.Target{
		{windlass.Indexed("by-selector", "app=web,tier=front"), windlass.Indexed("by-selector", "app=db")},
		nil,
		{windlass.Indexed("by-selector", "app=db")},
	}
	if failed != "" || !reflect.DeepEqual(targets, wanted) {
		t.Error(targets, failed)
	}
}

func TestAnErrorOfAMapperNamesTheObject(t *testing.T) {
	asked := 0
	registered(t, mapping, Mapper(func(_ context.Context, change windlass.Change) ([]windlass.Target, error) {
		asked++
		return nil, errors.Join(errors.New("no idea"), &windlass.APIError{Verb: "get", StatusReason: "Odd", Message: "why"})
	}))
	change := windlasstest.Change("pods", nil, labelled("a", nil))
	if _, failed := mapped([]windlass.Change{change, change}); failed != "Pod prod/a: no idea; get: Odd: Pod prod/a: why" || asked != 1 {
		t.Error(failed, asked)
	}
}

func TestAPanicOfAMapperIsAnErrorAndIsLogged(t *testing.T) {
	double := registered(t, mapping, Mapper(func(context.Context, windlass.Change) ([]windlass.Target, error) {
		deepest("oh no")
		return nil, nil
	}))
	if _, failed := mapped(make([]windlass.Change, 1)); failed != "the plugin panicked: oh no" {
		t.Error(failed)
	}
	if line := double.Lines()[0]; line.Level != "error" || !strings.Contains(line.Fields["stack"], "deepest") {
		t.Error(line)
	}
}

func TestAManifestThatMapsByAMapperNeedsOne(t *testing.T) {
	registered(t, mapping, Mapper(toServices))
	if document := describe(); !strings.Contains(document, `{"type":"mapper"}`) {
		t.Error(document)
	}
	registered(t, manifest.Manifest{Controllers: []manifest.Controller{{Watches: mapping.Controllers[0].Watches[:1]}}})
	if document := describe(); !strings.Contains(document, `{"type":"all"}`) {
		t.Error(document)
	}
	registered(t, mapping)
	defer func() {
		if text, _ := recover().(string); !strings.HasPrefix(text, "the manifest maps the watch pods by `mapper`, and the plugin has none: ") {
			t.Error(text)
		}
	}()
	t.Error(describe())
}

func TestAHookThatCodeMapsNeedsAMapper(t *testing.T) {
	hooked := manifest.Manifest{Controllers: []manifest.Controller{{Hooks: []manifest.Hook{
		{Name: "all", Mapping: manifest.ToAll()}, {Name: "pushed", Mapping: manifest.ToMapped()},
	}}}}
	registered(t, hooked, Mapper(toServices))
	if document := describe(); !strings.Contains(document, `"hooks":[{"name":"all","mapping":{"type":"all"}},{"name":"pushed"`) {
		t.Error(document)
	}
	registered(t, hooked)
	defer func() {
		if text, _ := recover().(string); !strings.HasPrefix(text, "the manifest maps the hook pushed by `mapper`, and the plugin has none: ") {
			t.Error(text)
		}
	}()
	t.Error(describe())
}

// isWeb accepts the changes of Pods that have a label in their last state.
func isWeb(_ context.Context, change windlass.Change) (bool, error) {
	states, err := windlass.States[pod](change)
	if err != nil {
		return false, err
	}
	return states[len(states)-1].Metadata.Labels["app"] == "web", nil
}

func TestAPredicateJudgesEachChange(t *testing.T) {
	registered(t, mapping, Mapper(toServices), Predicate(isWeb))
	web, db := map[string]string{"app": "web"}, map[string]string{"app": "db"}
	counts, failed := matched([]windlass.Change{
		windlasstest.Change("pods", nil, labelled("a", web)), windlasstest.Change("pods", labelled("a", web), labelled("a", db)),
	})
	if failed != "" || !reflect.DeepEqual(counts, []bool{true, false}) {
		t.Error(counts, failed)
	}
	wrong := windlasstest.Change("pods", nil, map[string]any{"kind": "Pod", "metadata": map[string]any{"name": "a", "labels": 1}})
	if _, failed := matched([]windlass.Change{wrong}); !strings.HasPrefix(failed, "Pod a: ") {
		t.Error(failed)
	}
}

func TestAManifestWithACodePredicateNeedsAPredicate(t *testing.T) {
	judged := manifest.Watch{Name: "judged", APIVersion: "v1", Kind: "Pod", CodePredicate: true}
	for _, controller := range []manifest.Controller{
		{Primary: judged}, {Owns: []manifest.Watch{judged}}, {Watches: []manifest.Watch{judged}},
	} {
		of := manifest.Manifest{Controllers: []manifest.Controller{controller}}
		// It needs no mapper.
		registered(t, of, Predicate(isWeb))
		if document := describe(); !strings.Contains(document, `"codePredicate":true`) {
			t.Error(document)
		}
		registered(t, of)
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, "the manifest has a CodePredicate for the watch judged, and") {
					t.Error(text)
				}
			}()
			t.Error(describe())
		}()
	}
}
