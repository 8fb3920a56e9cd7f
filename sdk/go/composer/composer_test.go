package composer

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/host"
	"windlass.dev/sdk/manifest"
	"windlass.dev/sdk/windlasstest"
)

type object = windlass.Object

func document(kind, name string) json.RawMessage {
	return json.RawMessage(`{"apiVersion": "v1", "kind": "` + kind + `", "metadata": {"name": "` + name + `", "namespace": "prod", "uid": "` + name + `"}}`)
}

var asked = Request{
	Request:     windlass.Request{Raw: document("Shop", "shop")},
	RawChildren: []json.RawMessage{document("Secret", "shop"), document("ConfigMap", "a"), document("ConfigMap", "b")},
	RawRelated:  []json.RawMessage{document("Secret", "password")},
}

func TestChildrenAndRelatedObjectsAreDistinguished(t *testing.T) {
	maps, err := Children[object](asked, "v1", "ConfigMap")
	if err != nil || len(maps) != 2 || (*maps[1])["metadata"].(object)["name"] != "b" {
		t.Error(maps, err)
	}
	secrets, err := Related[object](asked, "v1", "Secret")
	if err != nil || len(secrets) != 1 {
		t.Error(secrets, err)
	}
	if none, err := Related[object](asked, "v1", "ConfigMap"); none != nil || err != nil {
		t.Error(none, err)
	}
}

func TestAnObjectIsFoundByItsFullReference(t *testing.T) {
	secret := windlass.Ref{APIVersion: "v1", Kind: "Secret", Namespace: "prod", Name: "shop"}
	if found, err := Child[object](asked, secret); found == nil || err != nil {
		t.Error(found, err)
	}
	for _, ref := range []windlass.Ref{
		{APIVersion: "v1", Kind: "Secret", Namespace: "prod", Name: "shop", UID: "another"},
		{APIVersion: "v1", Kind: "Secret", Namespace: "test", Name: "shop"},
		{APIVersion: "v2", Kind: "Secret", Namespace: "prod", Name: "shop"},
	} {
		if found, err := Child[object](asked, ref); found != nil || err != nil {
			t.Error(ref, found, err)
		}
	}
	if found, err := RelatedObject[object](asked, secret); found != nil || err != nil {
		t.Error(found, err)
	}
	if _, err := Child[struct{ Metadata int }](asked, secret); !windlass.IsTerminal(err) {
		t.Error(err)
	}
}

func TestTheParentAndTheConfigurationAreRead(t *testing.T) {
	var parent struct{ Kind string }
	if err := asked.Parent(&parent); err != nil || parent.Kind != "Shop" {
		t.Error(parent, err)
	}
	if err := (Request{}).Parent(&parent); !windlass.IsTerminal(err) {
		t.Error(err)
	}
	var config object
	if err := asked.Config(&config); err != nil || len(config) != 0 {
		t.Error(config, err)
	}
	configured := asked
	configured.RawConfig = json.RawMessage(`{"a": 1}`)
	if err := configured.Config(&config); err != nil || config["a"] != int64(1) {
		t.Error(config, err)
	}
}

// called registers a function for one call.
func called(t *testing.T, composition Composition, err error) (answer, []host.Failure) {
	t.Helper()
	windlasstest.New(t)
	Register(manifest.Manifest{}, func(context.Context, Request) (Composition, error) { return composition, err })
	defer func() { compose = nil }()
	return run(asked)
}

func TestACompositionIsReturnedCompletely(t *testing.T) {
	composition := Composition{
		Children: []any{object{"kind": "Secret"}, struct{ Kind string }{"ConfigMap"}}, Status: object{"ready": true},
		Events: []Event{Normal("Made", "Make", "a secret"), Warning("Bad", "Look", "it is bad")}, RequeueAfter: time.Second, AllowEmpty: true,
	}
	written, failures := called(t, composition, nil)
	if failures != nil || !reflect.DeepEqual(written.children, []string{`{"kind":"Secret"}`, `{"Kind":"ConfigMap"}`}) ||
		written.status != `{"ready":true}` || !written.Events[1].Warning || written.RequeueAfter != time.Second || !written.AllowEmpty {
		t.Errorf("%+v %v", written, failures)
	}
}

func TestAnInvalidPartFailsTheWholeComposition(t *testing.T) {
	for _, wrong := range []Composition{
		{Children: []any{func() {}}}, {Status: func() {}}, {RequeueAfter: time.Second, RequeueWithBackoff: true},
	} {
		if _, failures := called(t, wrong, nil); len(failures) != 1 || !failures[0].Terminal {
			t.Error(failures)
		}
	}
	_, failures := called(t, Composition{}, windlass.Terminal(context.Canceled))
	if failures[0] != (host.Failure{Message: "context canceled", Terminal: true}) {
		t.Error(failures)
	}
}
