package registry

import (
	"encoding/json"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/internal/shop"
	"windlass.dev/sdk/manifest"
)

// described describes a plugin with one controller, this scheme and these permissions.
func described(t *testing.T, scheme *runtime.Scheme, permissions []manifest.Permission, definitions ...json.RawMessage) {
	t.Helper()
	Reset()
	t.Cleanup(Reset)
	current.controllers = []*Controller{{Scheme: scheme}}
	Describe(manifest.Manifest{Permissions: permissions, CRDs: definitions})
}

func TestOnlyKindsThatAreSureToBeServedAreCachedUnasked(t *testing.T) {
	scheme := runtime.NewScheme()
	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	for _, version := range []schema.GroupVersion{shop.GroupVersion, apps, {Group: "batch", Version: "v1beta1"}} {
		scheme.AddKnownTypes(version, &shop.City{}, &shop.Item{})
	}
	described(t, scheme, []manifest.Permission{{
		APIGroups: []string{"example.com", "apps", "batch"}, Resources: []string{"cities", "items"}, Verbs: []string{"list", "watch"},
	}}, json.RawMessage(`{"metadata": {"name": "cities.example.com"}}`))
	read, err := readKinds()
	wanted := []schema.GroupVersionKind{apps.WithKind("City"), apps.WithKind("Item"), shop.GroupVersion.WithKind("City")}
	if err != nil || len(read) != len(wanted) {
		t.Errorf("%v, %v", read, err)
	}
	for _, kind := range wanted {
		if _, is := read[kind.String()]; !is {
			t.Errorf("%v is not cached", kind)
		}
	}
}

func TestPermissionsOfSomeNamespacesWatchOnlyThese(t *testing.T) {
	scheme := runtime.NewScheme()
	version := schema.GroupVersion{Version: "v1"}
	scheme.AddKnownTypes(version, &shop.City{})
	kind := version.WithKind("City")
	rule := func(verb string, namespaces ...string) manifest.Permission {
		return manifest.Permission{APIGroups: []string{""}, Resources: []string{"cities"}, Verbs: []string{verb}, Namespaces: namespaces}
	}
	for name, test := range map[string]struct {
		permissions []manifest.Permission
		scope       []string
		wanted      []string
		isCached    bool
	}{
		"everywhere":       {[]manifest.Permission{rule("list", "a"), rule("list"), rule("watch")}, nil, nil, true},
		"some":             {[]manifest.Permission{rule("*", "b", "a"), rule("list", "c")}, nil, []string{"a", "b"}, true},
		"list everywhere":  {[]manifest.Permission{rule("list"), rule("watch", "a")}, nil, []string{"a"}, true},
		"watch everywhere": {[]manifest.Permission{rule("list", "a"), rule("watch")}, nil, []string{"a"}, true},
		"never both":       {[]manifest.Permission{rule("list", "a"), rule("watch", "b")}, nil, nil, false},
		"cache options":    {[]manifest.Permission{rule("*", "b", "a")}, []string{"b"}, []string{"b"}, true},
	} {
		described(t, scheme, test.permissions)
		Restrict(schema.GroupKind{}, Scope{Namespaces: test.scope})
		read, err := readKinds()
		if err != nil {
			t.Fatal(err)
		}
		controller := manifest.Controller{}
		addReadsTo(&controller, read)
		named := manifest.Controller{}
		Read(&shop.City{})
		if read, err = readKinds(); err != nil {
			t.Fatal(err)
		}
		addReadsTo(&named, read)
		if len(named.Watches) != 1 || !slices.Equal(named.Watches[0].Namespaces, test.wanted) {
			t.Errorf("%s, by Reads: %+v", name, named.Watches)
		}
		if is := len(controller.Watches) == 1; is != test.isCached || is && !slices.Equal(controller.Watches[0].Namespaces, test.wanted) {
			t.Errorf("%s: %v: %+v", name, kind, controller.Watches)
		}
	}
}
