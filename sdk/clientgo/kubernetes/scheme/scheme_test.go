package scheme

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestTheSchemeHasOnlyTheGroupsOfTheProgram(t *testing.T) {
	if !Scheme.IsVersionRegistered(schema.GroupVersion{Version: "v1"}) {
		t.Error("the options of requests are not registered")
	}
	if Scheme.IsGroupRegistered("apps") {
		t.Error("this test does not import the group apps")
	}
}

func TestCodecsReadTheTypesOfTheScheme(t *testing.T) {
	text := []byte(`{"apiVersion": "v1", "kind": "Status", "message": "here"}`)
	object, _, err := Codecs.UniversalDeserializer().Decode(text, nil, nil)
	if status, is := object.(*metav1.Status); err != nil || !is || status.Message != "here" {
		t.Errorf("%v %v", object, err)
	}
}
