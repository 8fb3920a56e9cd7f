package composer

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/host"
	"windlass.dev/sdk/manifest"
	"windlass.dev/sdk/windlasstest"
)

var relating = manifest.Manifest{Controllers: []manifest.Controller{{
	Name: "shops", Primary: manifest.Watch{APIVersion: "example.com/v1", Kind: "Shop"},
	Watches: []manifest.Watch{
		{Name: "settings", APIVersion: "v1", Kind: "ConfigMap", Mapping: manifest.ToRelated()},
	},
}}}

// settings selects the ConfigMap that a shop names, if it names one.
func settings(_ context.Context, request windlass.Request) ([]RelatedRule, error) {
	var shop struct{ Spec struct{ Settings string } }
	if _, err := request.Object(&shop); err != nil || shop.Spec.Settings == "" {
		return nil, err
	}
	return []RelatedRule{{Watch: "settings", Names: []string{shop.Spec.Settings}}}, nil
}

// registered registers a plugin for one test.
func registered(t *testing.T, options ...Option) *windlasstest.Host {
	t.Helper()
	forget := func() { compose, customizer = nil, nil }
	forget()
	t.Cleanup(forget)
	Register(relating, func(context.Context, Request) (Composition, error) { return Composition{}, nil }, options...)
	return windlasstest.New(t)
}

func shop(spec string) windlass.Request {
	return windlass.Request{Raw: json.RawMessage(`{"spec": ` + spec + `}`)}
}

func TestACustomizerReturnsRulesForItsParent(t *testing.T) {
	registered(t, Customizer(settings))
	rules, failures := customized(shop(`{"settings": "eur"}`))
	if failures != nil || !reflect.DeepEqual(rules, []RelatedRule{{Watch: "settings", Names: []string{"eur"}}}) {
		t.Error(rules, failures)
	}
	if rules, failures := customized(shop(`{}`)); rules != nil || failures != nil {
		t.Error(rules, failures)
	}
}

func TestErrorsAndPanicsOfACustomizerAreReported(t *testing.T) {
	registered(t, Customizer(settings))
	if _, failures := customized(shop(`7`)); len(failures) != 1 || !failures[0].Terminal {
		t.Error(failures)
	}
	double := registered(t, Customizer(func(context.Context, windlass.Request) ([]RelatedRule, error) { panic(errors.New("oh no")) }))
	_, failures := customized(shop(`{}`))
	if len(failures) != 1 || failures[0] != (host.Failure{Message: "the plugin panicked: oh no"}) || len(double.Lines()) != 1 {
		t.Error(failures, double.Lines())
	}
}

func TestAManifestThatAsksForACustomizerNeedsOne(t *testing.T) {
	registered(t)
	defer func() {
		text, _ := recover().(string)
		if !strings.HasPrefix(text, "the manifest maps the watch settings by `customize`, and the plugin has none: ") {
			t.Error(text)
		}
	}()
	t.Error(describe())
}

func TestAPluginWithACustomizerHasAManifest(t *testing.T) {
	registered(t, Customizer(settings))
	if document := describe(); !strings.Contains(document, `{"type":"customize"}`) {
		t.Error(document)
	}
}
