package writes

import (
	"encoding/json"
	"os"
	"testing"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/host"
)

func TestEnsureSendsTheSmallestPatch(t *testing.T) {
	text, err := os.ReadFile("../../cases/ensure.json")
	if os.IsNotExist(err) {
		t.Skip("this SDK is a copy in a plugin's folder, without the cases that all languages share")
	}
	var cases []struct {
		Name                   string
		Cached, Desired, Patch windlass.Object
		Version, ControlledBy  string
	}
	if err := host.Decode(string(text), &cases); err != nil || len(cases) == 0 {
		t.Fatal(cases, err)
	}
	for _, the := range cases {
		t.Run(the.Name, func(t *testing.T) {
			if controller := otherController(the.Cached, the.Desired); controller != the.ControlledBy {
				t.Errorf("it is controlled by %q, and not %q", controller, the.ControlledBy)
			}
			if the.ControlledBy != "" {
				return
			}
			patch := patchOf(the.Cached, the.Desired)
			if got, wanted := marshalled(t, patch), marshalled(t, the.Patch); got != wanted {
				t.Errorf("the patch is %s, and not %s", got, wanted)
			}
			if version := versionOf(the.Cached, patch); version != the.Version {
				t.Errorf("the version is %q, and not %q", version, the.Version)
			}
		})
	}
}

func marshalled(t *testing.T, object windlass.Object) string {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAnObjectWithoutANameIsRefusedBeforeAnyRead(t *testing.T) {
	_, err := Ensure(windlass.Object{"apiVersion": "v1", "kind": "Pod", "metadata": windlass.Object{}})
	if !windlass.IsTerminal(err) || err.Error() != "an object to write: metadata.name is missing" {
		t.Error(err)
	}
}
