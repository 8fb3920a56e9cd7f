// Package config has the configuration of a client. The host has the connection, so it has no content.
package config

import (
	"flag"

	"k8s.io/client-go/rest"
)

// KubeconfigFlagName is the name of controller-runtime's flag.
const KubeconfigFlagName = "kubeconfig"

// RegisterFlags adds no flags: a plugin has no arguments.
func RegisterFlags(*flag.FlagSet) {}

// GetConfig returns a configuration without content.
func GetConfig() (*rest.Config, error) { return &rest.Config{}, nil }

// GetConfigWithContext returns a configuration without content.
func GetConfigWithContext(string) (*rest.Config, error) { return GetConfig() }

// GetConfigOrDie returns a configuration without content.
func GetConfigOrDie() *rest.Config { return &rest.Config{} }
