package registry

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	"windlass.dev/sdk/config"
	"windlass.dev/sdk/manifest"
)

// settings are the names of the variables and flags that the operator's configuration may set.
type settings struct{ environment, flags []string }

// Environment adds environment variables that the configuration may set.
func Environment(names ...string) {
	current.settings.environment = append(current.settings.environment, names...)
}

// Flags adds flags that the configuration may set.
func Flags(names ...string) { current.settings.flags = append(current.settings.flags, names...) }

// schema describes the configuration; nil if there is nothing to set.
func (settings settings) schema() *manifest.Config {
	if len(settings.environment)+len(settings.flags) == 0 {
		return nil
	}
	properties := map[string]any{}
	for field, names := range map[string][]string{"env": settings.environment, "flags": settings.flags} {
		values := map[string]any{}
		for _, name := range names {
			values[name] = map[string]any{"type": []string{"string", "number", "boolean"}}
		}
		properties[field] = map[string]any{"type": "object", "additionalProperties": false, "properties": values}
	}
	document, err := json.Marshal(map[string]any{"type": "object", "additionalProperties": false, "properties": properties})
	if err != nil {
		// Texts can be written.
		panic(err)
	}
	return &manifest.Config{Schema: document}
}

// apply sets environment variables, and arguments for package flag, from the configuration. The configuration stays
// the same as long as the instance lives.
func (settings settings) apply() error {
	if len(os.Args) == 0 {
		// Package flag reads the name of the program.
		os.Args = []string{"manager"}
	}
	if len(settings.environment)+len(settings.flags) == 0 {
		return nil
	}
	given, err := config.Get[struct{ Env, Flags map[string]any }]()
	if err != nil {
		return err
	}
	for _, name := range settings.environment {
		if value, is := given.Env[name]; is {
			if err := os.Setenv(name, fmt.Sprint(value)); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given.Flags)) {
		if slices.Contains(settings.flags, name) {
			os.Args = append(os.Args, fmt.Sprintf("--%s=%v", name, given.Flags[name]))
		}
	}
	return nil
}
