// Package controller adds reconcile loops to a manager. Package builder is the usual way.
package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/internal/refused"
	"sigs.k8s.io/controller-runtime/internal/registry"
	"sigs.k8s.io/controller-runtime/internal/watching"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Options is a TypedOptions of requests.
type Options = TypedOptions[reconcile.Request]

// TypedOptions set how a controller runs. Fields that are not described here have no effect.
type TypedOptions[request comparable] struct {
	SkipNameValidation *bool
	// MaxConcurrentReconciles is the number of objects that are reconciled at once, at most 64; zero means 1.
	MaxConcurrentReconciles int
	CacheSyncTimeout        time.Duration
	RecoverPanic            *bool
	NeedLeaderElection      *bool
	// Reconciler serves the controller's calls.
	Reconciler reconcile.TypedReconciler[request]
	// RateLimiter sets the backoff. The host uses its delay for the first failure as the minimum, and its delay for
	// the 64th failure as the maximum.
	RateLimiter workqueue.TypedRateLimiter[request]
	NewQueue    func(
		controllerName string, rateLimiter workqueue.TypedRateLimiter[request],
	) workqueue.TypedRateLimitingInterface[request]
	Logger           logr.Logger
	LogConstructor   func(request *request) logr.Logger
	UsePriorityQueue *bool
	EnableWarmup     *bool
	// ReconciliationTimeout is the time limit of a call, at most ten minutes; zero means 30 seconds.
	ReconciliationTimeout time.Duration
}

// DefaultFromConfig fills fields that are zero.
func (options *TypedOptions[request]) DefaultFromConfig(config config.Controller) {
	if options.MaxConcurrentReconciles == 0 {
		options.MaxConcurrentReconciles = config.MaxConcurrentReconciles
	}
	if options.ReconciliationTimeout == 0 {
		options.ReconciliationTimeout = config.ReconciliationTimeout
	}
}

// Controller is a TypedController of requests.
type Controller = TypedController[reconcile.Request]

// TypedController is a reconcile loop.
type TypedController[request comparable] interface {
	reconcile.TypedReconciler[request]
	// Watch adds a source of events: see source.Kind.
	Watch(src source.TypedSource[request]) error
	// Start waits for the end of the context.
	Start(ctx context.Context) error
	// GetLogger returns a logger.
	GetLogger() logr.Logger
}

// New adds a controller to the manager. The controller reconciles the kind of its first Watch with
// handler.EnqueueRequestForObject.
func New(name string, mgr manager.Manager, options Options) (Controller, error) {
	return NewTyped(name, mgr, options)
}

// NewTyped adds a controller to the manager. The requests must be of the type reconcile.Request.
func NewTyped[request comparable](
	name string, mgr manager.Manager, options TypedOptions[request],
) (TypedController[request], error) {
	reconciler, is := any(options.Reconciler).(reconcile.Reconciler)
	if !is {
		return nil, refused.Call("a controller of requests other than reconcile.Request",
			"the host's requests are names of objects", "use reconcile.Request, and find the rest in the reconciler")
	}
	if name == "" {
		return nil, fmt.Errorf("a controller needs a name")
	}
	options.DefaultFromConfig(mgr.GetControllerOptions())
	made := &controller[request]{reconciler: options.Reconciler, name: name, registered: &registry.Controller{
		Name: name, Scheme: mgr.GetScheme(), Reconciler: reconciler, Options: manifestOptions(&options),
	}}
	if err := registry.Add(made.registered); err != nil {
		return nil, err
	}
	return made, nil
}

// NewUnmanaged is refused.
func NewUnmanaged(name string, options Options) (Controller, error) {
	return NewTypedUnmanaged(name, options)
}

// NewTypedUnmanaged is refused.
func NewTypedUnmanaged[request comparable](string, TypedOptions[request]) (TypedController[request], error) {
	return nil, refused.Call("controller.NewUnmanaged", "the host starts and stops controllers", "use controller.New")
}

type controller[request comparable] struct {
	name       string
	reconciler reconcile.TypedReconciler[request]
	registered *registry.Controller
}

func (c *controller[request]) Reconcile(ctx context.Context, req request) (reconcile.Result, error) {
	return c.reconciler.Reconcile(ctx, req)
}

func (c *controller[request]) Watch(src source.TypedSource[request]) error {
	described, is := src.(interface{ DeclaredWatch() *watching.Watch })
	if !is || described.DeclaredWatch() == nil {
		return refused.Call("a source that is no kind, such as source.Channel", "no code of a plugin runs between calls, so only objects of the "+
			"cluster can cause a call", "watch a kind (source.Kind), or return a Result with RequeueAfter and look again")
	}
	c.registered.Watches = append(c.registered.Watches, described.DeclaredWatch())
	return nil
}

func (*controller[request]) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (c *controller[request]) GetLogger() logr.Logger { return log.Log.WithName(c.name) }

// Described returns the description of a controller for the host. It is for package builder.
func Described[request comparable](of TypedController[request]) *registry.Controller {
	return of.(*controller[request]).registered
}

// ReconcileIDFromContext returns the ID of a call. Its log lines and API requests have the same ID as their trace
// ID.
func ReconcileIDFromContext(ctx context.Context) types.UID {
	id, _ := ctx.Value(registry.ReconcileID{}).(types.UID)
	return id
}
