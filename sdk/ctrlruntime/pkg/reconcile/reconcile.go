// Package reconcile has the interface of a reconciler, and its requests and results.
package reconcile

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	windlass "windlass.dev/sdk"
)

// Result is the outcome of a call without an error. Its zero value asks for nothing.
type Result struct {
	// Requeue asks for another call after the key's backoff, which is not a failure.
	//
	// Deprecated: use RequeueAfter.
	Requeue bool
	// RequeueAfter asks for another call after this time.
	RequeueAfter time.Duration
	// Priority is ignored: the host orders its queue itself.
	Priority *int
}

// IsZero reports whether the result asks for nothing. A nil result asks for nothing.
func (r *Result) IsZero() bool { return r == nil || *r == Result{} }

// Request names the object to reconcile.
type Request struct {
	types.NamespacedName
}

// TypedReconciler brings the cluster to the state that one object specifies.
type TypedReconciler[request comparable] interface {
	Reconcile(context.Context, request) (Result, error)
}

// Reconciler is the TypedReconciler of a Request. The host serves only this type.
type Reconciler = TypedReconciler[Request]

// TypedFunc is a function as a TypedReconciler.
type TypedFunc[request comparable] func(context.Context, request) (Result, error)

// Func is a function as a Reconciler.
type Func = TypedFunc[Request]

var _ Reconciler = Func(nil)

// Reconcile calls the function.
func (r TypedFunc[request]) Reconcile(ctx context.Context, req request) (Result, error) {
	return r(ctx, req)
}

// ObjectReconciler is a reconciler that receives the object itself.
type ObjectReconciler[object client.Object] interface {
	Reconcile(context.Context, object) (Result, error)
}

// AsReconciler returns a Reconciler that reads the object of a request and passes it on. It does nothing if there is no
// such object.
func AsReconciler[object client.Object](client client.Client, rec ObjectReconciler[object]) Reconciler {
	return &objectReconciler[object]{client, rec}
}

// TerminalError marks an error that the host does not retry until something changes.
func TerminalError(wrapped error) error {
	if wrapped == nil {
		wrapped = errNoCause
	}
	return &terminal{windlass.Terminal(wrapped)}
}

type terminal struct{ err error }

func (err *terminal) Error() string { return "terminal error: " + err.err.Error() }

func (err *terminal) Unwrap() error { return err.err }

// Is makes errors.Is(err, TerminalError(nil)) true for every terminal error.
func (*terminal) Is(target error) bool {
	_, is := target.(*terminal)
	return is
}

var (
	errNoCause     = errors.New("no cause was given")
	errNotAPointer = errors.New("the type of an ObjectReconciler's object must be a pointer to a struct")
)
