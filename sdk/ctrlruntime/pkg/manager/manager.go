// Package manager stands in for controller-runtime's manager. The host starts and stops the plugin, and watches for
// it. The manager collects the declarations of the plugin's set-up, and has its client.
package manager

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/internal/refused"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// Manager collects controllers.
type Manager interface {
	cluster.Cluster

	// Add returns an error, because no code of a plugin runs between calls.
	Add(Runnable) error
	// Elected returns a closed channel: only the leader's host calls a plugin.
	Elected() <-chan struct{}
	// AddHealthzCheck does nothing: the host has its own checks.
	AddHealthzCheck(name string, check healthz.Checker) error
	// AddReadyzCheck does nothing: the host has its own checks.
	AddReadyzCheck(name string, check healthz.Checker) error
	// Start ends the set-up. In a plugin it does not return.
	Start(ctx context.Context) error
	// GetWebhookServer returns a server that serves nothing.
	GetWebhookServer() webhook.Server
	// GetLogger returns the logger.
	GetLogger() logr.Logger
	// GetControllerOptions returns the defaults of controllers.
	GetControllerOptions() config.Controller
}

// Options are the options of New. Fields that are not described here have no effect.
type Options struct {
	// Scheme knows the types of objects; nil means client-go's scheme.Scheme.
	Scheme *runtime.Scheme
	// Cache restricts the caches.
	Cache cache.Options
	// Client has the options of the client.
	Client client.Options
	// NewClient makes the client; nil means the client of the host.
	NewClient client.NewClientFunc
	Logger    logr.Logger
	// LeaderElection and the like have no effect: the hosts elect a leader for each plugin.
	LeaderElection                bool
	LeaderElectionResourceLock    string
	LeaderElectionNamespace       string
	LeaderElectionID              string
	LeaderElectionConfig          *rest.Config
	LeaderElectionReleaseOnCancel bool
	LeaderElectionLabels          map[string]string
	LeaseDuration                 *time.Duration
	RenewDeadline                 *time.Duration
	RetryPeriod                   *time.Duration
	Metrics                       metricsserver.Options
	HealthProbeBindAddress        string
	ReadinessEndpointName         string
	LivenessEndpointName          string
	PprofBindAddress              string
	WebhookServer                 webhook.Server
	BaseContext                   BaseContextFunc
	GracefulShutdownTimeout       *time.Duration
	// Controller has the defaults of controllers.
	Controller config.Controller
}

// BaseContextFunc makes a context.
type BaseContextFunc func() context.Context

// Runnable is what Add would start.
type Runnable interface {
	Start(context.Context) error
}

// RunnableFunc is a function as a Runnable.
type RunnableFunc func(context.Context) error

// Start calls the function.
func (r RunnableFunc) Start(ctx context.Context) error { return r(ctx) }

// LeaderElectionRunnable reports whether it needs to run on the leader.
type LeaderElectionRunnable interface {
	NeedLeaderElection() bool
}

func refuseAdd() error {
	return refused.Call("mgr.Add", "no code of a plugin runs between calls", "do the work in a reconciler: watch the objects that it depends on, "+
		"or return a Result with RequeueAfter")
}
