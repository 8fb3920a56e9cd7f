// Package webhook has the names that packages with webhooks use, so that they compile. The host serves no webhooks.
package webhook

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

type (
	// CustomDefaulter fills in defaults.
	CustomDefaulter = admission.CustomDefaulter
	// CustomValidator validates objects.
	CustomValidator = admission.CustomValidator
)

// Server is a server of webhooks. Nothing is served.
type Server interface {
	NeedLeaderElection() bool
	Register(path string, hook any)
	Start(ctx context.Context) error
}

// Options are accepted, and have no effect.
type Options struct {
	Host         string
	Port         int
	CertDir      string
	CertName     string
	KeyName      string
	ClientCAName string
	TLSOpts      any
	WebhookMux   any
}

// NewServer returns a server that serves nothing.
func NewServer(Options) Server { return server{} }

type server struct{}

func (server) NeedLeaderElection() bool { return false }

// Register is refused.
func (server) Register(path string, _ any) { _ = Refuse("a webhook at " + path) }

func (server) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
