package client_test

import (
	"encoding/json"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/internal/shop"
	"sigs.k8s.io/controller-runtime/pkg/client"
	windlass "windlass.dev/sdk"
)

func typeOf(object any) reflect.Type { return reflect.TypeOf(object) }

func TestAMergePatchHasOnlyTheDifferences(t *testing.T) {
	before := &shop.Shop{
		ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7", Labels: map[string]string{"old": "1", "stays": "2"}},
		Spec:       shop.ShopSpec{Items: 9007199254740993, Doors: []string{"front"}},
	}
	after := before.DeepCopy()
	delete(after.Labels, "old")
	after.Labels["new"] = "3"
	after.Spec.Items++
	for wanted, patch := range map[string]client.Patch{
		`{"metadata":{"labels":{"new":"3","old":null}},"spec":{"items":9007199254740994}}`:                       client.MergeFrom(before),
		`{"metadata":{"labels":{"new":"3","old":null},"resourceVersion":"7"},"spec":{"items":9007199254740994}}`: client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
	} {
		if data, err := patch.Data(after); err != nil || string(data) != wanted || patch.Type() != types.MergePatchType {
			t.Errorf("%s, %v", data, err)
		}
	}
	after = before.DeepCopy()
	after.Spec.Doors = append(after.Spec.Doors, "back")
	wanted := `{"metadata":{"resourceVersion":"7"},"spec":{"doors":["front","back"]}}`
	if data, err := client.StrategicMergeFrom(before).Data(after); err != nil || string(data) != wanted {
		t.Errorf("a patch of a list has no lock: %s, %v", data, err)
	}
	if data, err := client.MergeFrom(before).Data(before); err != nil || string(data) != "{}" {
		t.Errorf("%s, %v", data, err)
	}
	before.ResourceVersion = ""
	if data, err := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}).Data(after); err == nil {
		t.Errorf("a lock without a version: %s", data)
	}
}

func TestAStrategicPatchThatChangesAListHasALock(t *testing.T) {
	without := &shop.Shop{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7"}, Spec: shop.ShopSpec{City: "Vienna"}}
	with := without.DeepCopy()
	with.Finalizers, with.Spec.Doors = []string{"example.com/a"}, []string{"front"}
	for wanted, states := range map[string][2]*shop.Shop{
		`{"metadata":{"finalizers":["example.com/a"],"resourceVersion":"7"},"spec":{"doors":["front"]}}`: {without, with},
		`{"metadata":{"finalizers":null,"resourceVersion":"7"},"spec":{"doors":null}}`:                   {with, without},
	} {
		if data, err := client.StrategicMergeFrom(states[0]).Data(states[1]); err != nil || string(data) != wanted {
			t.Errorf("%s, %v", data, err)
		}
		unread := states[0].DeepCopy()
		unread.ResourceVersion = ""
		if data, err := client.StrategicMergeFrom(unread).Data(states[1]); err == nil {
			t.Errorf("a patch of a list without a lock: %s", data)
		}
	}
	after := without.DeepCopy()
	after.Spec.City = "Graz"
	if data, err := client.StrategicMergeFrom(without).Data(after); err != nil || string(data) != `{"spec":{"city":"Graz"}}` {
		t.Errorf("%s, %v", data, err)
	}
	nested := func(content map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a", "resourceVersion": "7"}, "spec": content}}
	}
	doors := map[string]any{"house": map[string]any{"doors": []any{"front"}}}
	wanted := `{"metadata":{"resourceVersion":"7"},"spec":{"house":{"doors":["front"]}}}`
	if data, err := client.StrategicMergeFrom(nested(map[string]any{})).Data(nested(doors)); err != nil || string(data) != wanted {
		t.Errorf("%s, %v", data, err)
	}
}

func TestPatchesOfEachTypeAreSent(t *testing.T) {
	host, c := newClient(t)
	object := &shop.Shop{}
	get := func() {
		if err := c.Get(ctx, keyOfShop, object); err != nil {
			t.Fatal(err)
		}
	}
	get()
	before := object.DeepCopy()
	object.Spec.Items = 10
	if err := c.Patch(ctx, object, client.MergeFrom(before)); err != nil || object.Spec.Items != 10 || object.Spec.City != "Vienna" {
		t.Errorf("%+v, %v", object, err)
	}
	steps := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/items","value":11}]`))
	if err := c.Patch(ctx, object, steps); err != nil || object.Spec.Items != 11 {
		t.Errorf("%+v, %v", object, err)
	}
	before = object.DeepCopy()
	object.Status.Items = 3
	if err := c.Status().Patch(ctx, object, client.MergeFrom(before)); err != nil || object.Status.Items != 3 {
		t.Errorf("%+v, %v", object, err)
	}
	wanted := &shop.Shop{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "prod"}, Spec: shop.ShopSpec{Items: 12}}
	if err := c.Patch(ctx, wanted, client.Apply, client.ForceOwnership, client.FieldOwner("me")); err != nil || wanted.Spec.City != "Vienna" {
		t.Errorf("%+v, %v", wanted, err)
	}
	last := host.Writes()[3]
	if last.Verb != "apply" || !last.Options.Force || last.Options.ManagerSuffix != "me" || last.Body.(windlass.Object)["kind"] != "Shop" {
		t.Errorf("%+v", last)
	}
	if err := c.Patch(ctx, object, client.RawPatch("application/odd", nil)); err == nil {
		t.Error("a patch of an unknown type is sent")
	}
}

func TestAJSONPatchIsSentAsItIs(t *testing.T) {
	host, c := newClient(t)
	object := &shop.Shop{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "prod"}}
	for _, text := range []string{
		`[{"op":"add","path":"/spec/items","value":9007199254740993}]`, `[{"op":"add","path":"/spec/city","value":null}]`,
		`[{"op":"remove","path":"/spec/city"}]`, `[{"op":"copy","path":"/spec/items","from":"/metadata/generation"}]`,
	} {
		if err := c.Patch(ctx, object, client.RawPatch(types.JSONPatchType, []byte(text))); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		sent, err := json.Marshal(host.Writes()[0].Body)
		if host.Forget(); err != nil || !sameJSON(string(sent), text) {
			t.Errorf("%s instead of %s (%v)", sent, text, err)
		}
	}
}

// sameJSON compares JSON with all digits of its numbers.
func sameJSON(one, other string) bool {
	var values [2]any
	for place, text := range []string{one, other} {
		if err := windlass.Decode([]byte(text), &values[place]); err != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

func TestAnApplySendsTheFieldsAsTheyAre(t *testing.T) {
	host, c := newClient(t)
	fields := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Shop", "metadata": map[string]any{"name": "a", "namespace": "prod"},
		"spec": map[string]any{"items": int64(5)},
	}}
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(fields), client.FieldOwner("me"), client.ForceOwnership)
	body, _ := json.Marshal(host.Writes()[0].Body)
	if err != nil || string(body) != `{"apiVersion":"example.com/v1","kind":"Shop","metadata":{"name":"a","namespace":"prod"},"spec":{"items":5}}` {
		t.Errorf("%s, %v", body, err)
	}
	if city, _, _ := unstructured.NestedString(fields.Object, "spec", "city"); city != "Vienna" {
		t.Errorf("the fields do not have the new state: %v", fields)
	}
	scale := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale"}}
	target := &shop.Shop{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "prod"}}
	if err := c.SubResource("scale").Update(ctx, target, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	if write := host.Writes()[1]; write.Options.Subresource != "scale" || *write.Options.Parent != shopOfA {
		t.Errorf("%+v", write)
	}
}
