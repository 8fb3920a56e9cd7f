package registry

import (
	"os"
	"slices"
	"strings"
	"testing"

	"windlass.dev/sdk/windlasstest"
)

func TestTheConfigurationSetsTheEnvironmentAndFlags(t *testing.T) {
	Reset()
	t.Cleanup(Reset)
	args := os.Args
	t.Cleanup(func() { os.Args = args })
	t.Setenv("SHOP_IMAGE", "")
	t.Setenv("SHOP_OTHER", "before")
	if current.settings.schema() != nil {
		t.Error("a plugin without settings has a configuration")
	}
	Environment("SHOP_IMAGE")
	Flags("zone", "doors")
	host := windlasstest.New(t)
	host.Configure(map[string]any{
		"env": map[string]any{"SHOP_IMAGE": "shop:1", "SHOP_OTHER": "not allowed"}, "flags": map[string]any{"zone": "b", "doors": 2, "other": 1},
	})
	os.Args = nil
	if err := current.settings.apply(); err != nil {
		t.Fatal(err)
	}
	if os.Getenv("SHOP_IMAGE") != "shop:1" || os.Getenv("SHOP_OTHER") != "before" || !slices.Equal(os.Args, []string{"manager", "--doors=2", "--zone=b"}) {
		t.Error(os.Getenv("SHOP_IMAGE"), os.Getenv("SHOP_OTHER"), os.Args)
	}
	if schema := string(current.settings.schema().Schema); !strings.Contains(schema, `"SHOP_IMAGE":{"type":`) || strings.Contains(schema, "SHOP_OTHER") {
		t.Error(schema)
	}
}
