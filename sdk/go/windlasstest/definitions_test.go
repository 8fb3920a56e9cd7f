package windlasstest

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"windlass.dev/sdk"
	"windlass.dev/sdk/writes"
)

// shared reads a file that the tests of all SDKs share.
func shared(t *testing.T, name string) string {
	text, err := os.ReadFile("../../cases/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var shopRef = windlass.Ref{APIVersion: "example.com/v1", Kind: "Shop", Namespace: "prod", Name: "a"}

func shopWith(spec any) windlass.Object {
	return windlass.Object{
		"apiVersion": "example.com/v1", "kind": "Shop", "metadata": windlass.Object{"name": "a", "namespace": "prod", "uid": "u-1"}, "spec": spec,
	}
}

func TestAnObjectThatDoesNotFitItsDefinitionIsRefusedWithThePaths(t *testing.T) {
	host := New(t)
	host.Define(shared(t, "shop.crd.yaml"))
	for _, misfit := range parsed(shared(t, "misfits.json")).([]any) {
		spec, told := misfit.(windlass.Object)["spec"], misfit.(windlass.Object)["told"].(string)
		_, err := writes.Create(shopWith(spec))
		if !windlass.Is(err, windlass.Invalid) || !strings.HasSuffix(err.Error(), ": the object does not fit its definition: "+told) {
			t.Errorf("%v: %v", spec, err)
		}
	}
	if host.Object(shopRef) != nil {
		t.Error("it is there")
	}
	if _, err := writes.Create(windlass.Object{"apiVersion": "v1", "kind": "Pod", "metadata": windlass.Object{"name": "a"}, "sise": 1}); err != nil {
		t.Error(err)
	}
}

func TestDefaultsAreFilledInAndAllowedUnknownFieldsKept(t *testing.T) {
	host := New(t)
	host.Define(shared(t, "shop.crd.yaml"))
	written, err := writes.Apply(shopWith(parsed(`{"n": 1, "size": null, "port": "http", "name": null, "extra": {"a": 1}, "parts": [{}]}`)))
	if err != nil || !reflect.DeepEqual(written["spec"], parsed(`{"n": 1, "size": "small", "port": "http", "name": null, "extra": {"a": 1}, "parts": [{"on": true}]}`)) {
		t.Errorf("%v, %v", written["spec"], err)
	}
	host.Put(shopWith(windlass.Object{"n": 2}))
	if spec := host.Object(shopRef)["spec"]; !reflect.DeepEqual(spec, windlass.Object{"n": int64(2), "size": "small"}) {
		t.Error(spec)
	}
	if _, err := writes.Update(shopWith(windlass.Object{"n": 1, "sise": 1}), writes.Ignore); err != nil {
		t.Error(err)
	}
}

func TestAStatusWriteIsValidatedByTheStatusAlone(t *testing.T) {
	host := New(t)
	host.Define(shared(t, "shop.crd.yaml"))
	host.Put(shopWith(windlass.Object{}))
	if err := writes.ApplyStatus(shopRef, windlass.Object{"ready": true}); err != nil {
		t.Error(err)
	}
	if err := writes.ApplyStatus(shopRef, windlass.Object{"redy": true}); err == nil || !strings.Contains(err.Error(), ".status.redy: there is no such field") {
		t.Error(err)
	}
}

// owned is a Pod that an object with a UID controls.
func owned(name, owner string, finalizers ...any) windlass.Object {
	owners := []any{windlass.Object{"apiVersion": "v1", "kind": "X", "name": "x", "uid": owner, "controller": true}}
	return windlass.Object{"apiVersion": "v1", "kind": "Pod", "metadata": windlass.Object{
		"name": name, "namespace": "prod", "uid": name, "ownerReferences": owners, "finalizers": finalizers,
	}}
}

func podRef(name string) windlass.Ref {
	return windlass.Ref{APIVersion: "v1", Kind: "Pod", Namespace: "prod", Name: name}
}

func TestControlledObjectsAreDeletedWithTheirOwner(t *testing.T) {
	host := New(t)
	host.Put(
		shopWith(windlass.Object{}), owned("child", "u-1"), owned("grandchild", "child"), owned("waits", "u-1", "example.com/x"), owned("other", "u-2"),
	)
	if _, err := writes.Delete(shopRef); err != nil {
		t.Fatal(err)
	}
	if host.Object(podRef("child")) != nil || host.Object(podRef("grandchild")) != nil || host.Object(podRef("other")) == nil {
		t.Error("what is controlled is there, or what is not is gone")
	}
	if waits := host.Object(podRef("waits")); waits == nil || metadata(waits)["deletionTimestamp"] == nil {
		t.Error(waits)
	}
	merge := windlass.Object{"metadata": windlass.Object{"finalizers": []string{}}}
	if _, err := writes.MergePatch[windlass.Object](podRef("waits"), merge); err != nil || host.Object(podRef("waits")) != nil {
		t.Error(err)
	}
}

func TestOrphansStayWithoutTheirOwner(t *testing.T) {
	host := New(t)
	host.Put(shopWith(windlass.Object{}), owned("child", "u-1"))
	if _, err := writes.Delete(shopRef, writes.Orphan); err != nil {
		t.Fatal(err)
	}
	if owners := metadata(host.Object(podRef("child")))["ownerReferences"]; !reflect.DeepEqual(owners, []any{}) {
		t.Error(owners)
	}
}

func TestUnsupportedDefinitionsAreRefusedWithTheirLine(t *testing.T) {
	for definitions, told := range map[string]string{
		"kind: ConfigMap":  "no CustomResourceDefinition",
		"spec:\n  a: &x 1": "line 2: the test host does not support anchors",
		"a: [1,\n  2":      "line 2: it does not end",
		"a: {b c}":         "line 1: the key b c has no value",
		"a: 1\nb":          "line 2: b does not belong",
	} {
		func() {
			defer func() {
				if said := fmt.Sprint(recover()); !strings.Contains(said, told) {
					t.Errorf("%s: %s", definitions, said)
				}
			}()
			New(t).Define(definitions)
		}()
	}
}

func TestScalarsAreParsedToTheirValues(t *testing.T) {
	text := "- 1\n- -1.5e3\n- 'it''s'\n- \"a\\tb # c\"\n- no # comment\n- ~\n- >\n  a\n  b\n- |\n  a\n   b\n-\n  c: d\n- http://x\n"
	wanted := []any{int64(1), -1500.0, "it's", "a\tb # c", "no", nil, "a b\n", "a\n b\n", windlass.Object{"c": "d"}, "http://x"}
	if found := yamlDocuments(text); !reflect.DeepEqual(found, []any{wanted}) {
		t.Errorf("%#v", found)
	}
}
