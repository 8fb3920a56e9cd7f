package windlass_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	"windlass.dev/sdk"
)

func TestAPrimaryThatDoesNotFitIsATerminalError(t *testing.T) {
	request := windlass.Request{Raw: json.RawMessage(`{"spec": {"replicas": 9007199254740993}}`)}
	var object windlass.Object
	if has, err := request.Object(&object); !has || err != nil {
		t.Fatal(has, err)
	}
	if replicas := object["spec"].(map[string]any)["replicas"]; replicas != int64(9007199254740993) {
		t.Errorf("it is %v (%[1]T)", replicas)
	}
	var wrong struct{ Spec string }
	if _, err := request.Object(&wrong); !windlass.IsTerminal(err) {
		t.Errorf("it is %v", err)
	}
	if has, err := (windlass.Request{}).Object(&object); has || err != nil {
		t.Errorf("there is none: %v, %v", has, err)
	}
}

func TestADelayIsAtLeastAMillisecondAndAtMost24Days(t *testing.T) {
	for asked, returned := range map[time.Duration]time.Duration{
		0: time.Millisecond, -1: time.Millisecond, time.Second: time.Second, math.MaxInt64: (1<<31 - 1) * time.Millisecond,
	} {
		if after := windlass.RequeueAfter(asked).After(); after != returned {
			t.Errorf("%s is %s", asked, after)
		}
	}
	if windlass.Done.After() != 0 {
		t.Error("done is done")
	}
}

func TestARequeueHasATimeOrTheBackoff(t *testing.T) {
	for outcome, backsOff := range map[windlass.Outcome]bool{
		windlass.Done: false, windlass.RequeueAfter(time.Second): false, windlass.RequeueWithBackoff(): true,
	} {
		if outcome.BacksOff() != backsOff {
			t.Errorf("%+v", outcome)
		}
	}
	if after := windlass.RequeueWithBackoff().After(); after != 0 {
		t.Error(after)
	}
}

func TestTheClassIsFoundThroughWrapsAndJoins(t *testing.T) {
	conflict := &windlass.APIError{Reason: windlass.Conflict}
	for _, err := range []error{conflict, fmt.Errorf("while: %w", conflict), errors.Join(errors.New("other"), conflict)} {
		if !windlass.IsConflict(err) || windlass.IsNotFound(err) {
			t.Errorf("the class of %v", err)
		}
	}
	if windlass.Terminal(nil) != nil || windlass.IsTerminal(conflict) {
		t.Error("what is not terminal")
	}
	later := windlass.RetryAfter(conflict, time.Minute)
	if !windlass.IsConflict(later) || windlass.IsTerminal(later) || !windlass.IsTerminal(errors.Join(later, windlass.Terminal(conflict))) {
		t.Error("what is terminal beside a delay")
	}
}

func TestTheLongestDelayIsFoundThroughWrapsAndJoins(t *testing.T) {
	busy := windlass.RetryAfter(errors.New("a backup runs"), time.Minute)
	if text := busy.Error(); text != "a backup runs" {
		t.Error(text)
	}
	for _, err := range []error{busy, fmt.Errorf("while: %w", busy), errors.Join(busy, windlass.RetryAfter(io.EOF, time.Second), io.EOF)} {
		if delay := windlass.Delay(err); delay != time.Minute {
			t.Errorf("the delay of %v is %s", err, delay)
		}
	}
	if windlass.RetryAfter(nil, time.Minute) != nil || windlass.Delay(nil) != 0 || windlass.Delay(windlass.Terminal(busy)) != 0 {
		t.Error("what has none")
	}
}

func TestAnAPIErrorNamesTheRequestAndTheObject(t *testing.T) {
	err := &windlass.APIError{
		Reason: windlass.Conflict, StatusReason: "Conflict", Message: "the object has been modified", Verb: "patch",
		Resource: "deployments.apps/scale",
		Object:   &windlass.Ref{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "prod", Name: "shop"},
	}
	if text := err.Error(); text != "patch deployments.apps/scale Deployment prod/shop: Conflict: the object has been modified" {
		t.Error(text)
	}
}

func TestHasFieldsIgnoresFieldsOfOthers(t *testing.T) {
	var object windlass.Object
	document := `{"spec": {"ports": [{"name": "admin"}, {"name": "http", "port": 80}], "type": "ClusterIP", "ratio": 2.0}, "none": null}`
	if err := windlass.Decode([]byte(document), &object); err != nil {
		t.Fatal(err)
	}
	type port struct {
		Name string `json:"name"`
		Port int    `json:"port,omitempty"`
	}
	for _, each := range []struct {
		wanted any
		has    bool
	}{
		{windlass.Object{"spec": windlass.Object{"ports": []any{windlass.Object{"name": "http"}}}}, true},
		{windlass.Object{"spec": windlass.Object{"ports": []any{windlass.Object{"name": "http", "port": 81}}}}, false},
		{windlass.Object{"spec": windlass.Object{"selector": windlass.Object{}}}, false},
		{windlass.Object{"spec": windlass.Object{"ratio": 2}}, true},
		{map[string]any{"spec": map[string]string{"type": "ClusterIP"}}, true},
		{map[string]any{"spec": map[string][]port{"ports": {{Name: "http", Port: 80}}}}, true},
		{map[string]any{"spec": map[string][]port{"ports": {{Name: "http", Port: 8}}}}, false},
		{windlass.Object{"none": nil}, true},
		{windlass.Object{"spec": nil}, false},
		{windlass.Object{"none": "text"}, false},
		{windlass.Object{"spec": func() {}}, false},
	} {
		if has := windlass.HasFields(object, each.wanted); has != each.has {
			t.Errorf("%v: %v", each.wanted, has)
		}
	}
}

func TestMetadataCanBeEmbedded(t *testing.T) {
	var metadata struct {
		windlass.Metadata
		OwnerReferences []windlass.OwnerReference
	}
	document := `{"name": "a", "namespace": "prod", "ownerReferences": [{"name": "x", "controller": true}]}`
	if err := windlass.Decode([]byte(document), &metadata); err != nil || !metadata.OwnerReferences[0].Controller {
		t.Error(metadata, err)
	}
	if ref := metadata.Beside("v1", "Pod"); ref.String() != "Pod prod/a" || ref.APIVersion != "v1" {
		t.Error(ref)
	}
}
