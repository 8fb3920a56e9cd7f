// Package config has the operator's configuration of the plugin.
package config

import (
	"fmt"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/host"
)

// Get decodes the configuration, a document that the manifest's schema accepts; {} if there is none.
func Get[T any]() (T, error) {
	var value T
	if err := host.Decode(host.Get().Config(), &value); err != nil {
		return value, windlass.Terminal(fmt.Errorf("the configuration is not as the plugin expects: %w", err))
	}
	return value, nil
}
