// Package server has the options of a server of metrics. The host has its own, so they have no effect.
package server

// Options are accepted, and have no effect. Fields that have types of net, net/http or crypto/tls in controller-runtime
// accept any value.
type Options struct {
	SecureServing  bool
	BindAddress    string
	ExtraHandlers  map[string]any
	FilterProvider any
	CertDir        string
	CertName       string
	KeyName        string
	TLSOpts        any
	ListenConfig   any
}

// DefaultBindAddress is the address of controller-runtime's server.
var DefaultBindAddress = ":8080"
