// Package config has the operator's configuration of the plugin.
package config

import (
	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/internal/host"
)

// Get decodes the configuration, a document that is valid by the manifest's schema; {} if there is none.
func Get[T any]() (value T, err error) {
	err = host.Expect("the configuration", guest.Host().Config(), &value)
	return value, err
}
