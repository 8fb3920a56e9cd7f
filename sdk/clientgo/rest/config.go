// Package rest has the configuration of a connection to the API server. In a plugin it has no effect: the host has the
// connection, and each call of a plugin goes through the host. It exists because managers are created with a
// configuration.
package rest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// DefaultQPS is the usual number of requests per second.
	DefaultQPS float32 = 5
	// DefaultBurst is the usual size of a burst of requests.
	DefaultBurst int = 10
)

// ErrNotInCluster says that a program does not run in a Pod. [InClusterConfig] never returns it in a plugin.
var ErrNotInCluster = errors.New("not in a cluster: a service account and the address of the API server are missing")

// Config describes a connection. The host ignores its fields. Fields of client-go's Config that need net/http do not
// exist here.
type Config struct {
	Host    string
	APIPath string

	ContentConfig

	Username        string
	Password        string
	BearerToken     string
	BearerTokenFile string
	Impersonate     ImpersonationConfig

	TLSClientConfig

	UserAgent          string
	DisableCompression bool
	QPS                float32
	Burst              int

	WarningHandler            WarningHandler
	WarningHandlerWithContext WarningHandlerWithContext

	Timeout time.Duration
}

// ContentConfig describes the format of requests and responses.
type ContentConfig struct {
	AcceptContentTypes   string
	ContentType          string
	GroupVersion         *schema.GroupVersion
	NegotiatedSerializer runtime.NegotiatedSerializer
}

// ImpersonationConfig names the user in whose name requests are made.
type ImpersonationConfig struct {
	UserName string
	UID      string
	Groups   []string
	Extra    map[string][]string
}

// TLSClientConfig describes the TLS settings of a connection.
type TLSClientConfig struct {
	Insecure   bool
	ServerName string
	CertFile   string
	KeyFile    string
	CAFile     string
	CertData   []byte
	KeyData    []byte
	CAData     []byte
	NextProtos []string
}

// String hides the credentials.
func (c *Config) String() string {
	if c == nil {
		return "nil"
	}
	return "rest.Config{Host: " + c.Host + "}"
}

// GoString hides the credentials.
func (c *Config) GoString() string { return c.String() }

// InClusterConfig returns an empty configuration, because the host has the connection.
func InClusterConfig() (*Config, error) { return &Config{}, nil }

// CopyConfig returns a copy. Changes of the copy's lists and maps do not affect the original.
func CopyConfig(config *Config) *Config {
	copied := *config
	copied.Impersonate.Groups = slices.Clone(config.Impersonate.Groups)
	copied.Impersonate.Extra = maps.Clone(config.Impersonate.Extra)
	for key, values := range copied.Impersonate.Extra {
		copied.Impersonate.Extra[key] = slices.Clone(values)
	}
	copied.TLSClientConfig = *config.TLSClientConfig.DeepCopy()
	return &copied
}

// AnonymousClientConfig returns a copy without credentials.
func AnonymousClientConfig(config *Config) *Config {
	copied := CopyConfig(config)
	copied.Username, copied.Password, copied.BearerToken, copied.BearerTokenFile = "", "", "", ""
	copied.Impersonate = ImpersonationConfig{}
	copied.CertFile, copied.KeyFile, copied.CertData, copied.KeyData = "", "", nil, nil
	return copied
}

// AddUserAgent returns a copy whose user agent begins with the usual one.
func AddUserAgent(config *Config, userAgent string) *Config {
	copied := CopyConfig(config)
	copied.UserAgent = DefaultKubernetesUserAgent() + "/" + userAgent
	return copied
}

// DefaultKubernetesUserAgent returns the user agent of a plugin. The host sends its own, which names the plugin.
func DefaultKubernetesUserAgent() string { return "windlass" }

// DeepCopy returns a copy that shares no memory.
func (c *TLSClientConfig) DeepCopy() *TLSClientConfig {
	if c == nil {
		return nil
	}
	copied := new(TLSClientConfig)
	c.DeepCopyInto(copied)
	return copied
}

// DeepCopyInto copies into out, without shared memory.
func (c *TLSClientConfig) DeepCopyInto(out *TLSClientConfig) {
	*out = *c
	out.CertData = slices.Clone(c.CertData)
	out.KeyData = slices.Clone(c.KeyData)
	out.CAData = slices.Clone(c.CAData)
	out.NextProtos = slices.Clone(c.NextProtos)
}

// WarningHandler receives warnings of the API server. The host logs warnings itself, so a handler is never called.
type WarningHandler interface {
	HandleWarningHeader(code int, agent string, text string)
}

// WarningHandlerWithContext is a [WarningHandler] with the context of the request.
type WarningHandlerWithContext interface {
	HandleWarningHeaderWithContext(ctx context.Context, code int, agent string, text string)
}

// NoWarnings ignores warnings.
type NoWarnings struct{}

// HandleWarningHeader does nothing.
func (NoWarnings) HandleWarningHeader(int, string, string) {}

// HandleWarningHeaderWithContext does nothing.
func (NoWarnings) HandleWarningHeaderWithContext(context.Context, int, string, string) {}

// SetDefaultWarningHandler does nothing, because the host logs warnings.
func SetDefaultWarningHandler(WarningHandler) {}

// SetDefaultWarningHandlerWithContext does nothing, because the host logs warnings.
func SetDefaultWarningHandlerWithContext(WarningHandlerWithContext) {}
