// Package controllerruntime stands in for controller-runtime in a Windlass plugin: a reconciler that is written for it
// compiles unchanged, and the host runs it as a WebAssembly component. It has controller-runtime's interfaces, as far
// as reconcilers use them, but neither its documentation nor its code.
//
// What cannot work in a plugin fails when it is built, or else at the first call. The error says where, why, and what
// to do instead.
package controllerruntime

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

type (
	// Builder builds a controller.
	Builder = builder.Builder
	// Request names the object to reconcile.
	Request = reconcile.Request
	// Result is the outcome of a call without an error.
	Result = reconcile.Result
	// Manager collects controllers.
	Manager = manager.Manager
	// Options are the options of NewManager.
	Options = manager.Options
	// SchemeBuilder collects the Go types of an API group's version.
	SchemeBuilder = scheme.Builder
	// GroupVersion is an API group and a version.
	GroupVersion = schema.GroupVersion
	// GroupResource is an API group and a resource.
	GroupResource = schema.GroupResource
	// TypeMeta has the kind of an object.
	TypeMeta = metav1.TypeMeta
	// ObjectMeta has the metadata of an object.
	ObjectMeta = metav1.ObjectMeta
)

var (
	// RegisterFlags adds no flags.
	RegisterFlags = config.RegisterFlags
	// GetConfigOrDie returns a configuration without content.
	GetConfigOrDie = config.GetConfigOrDie
	// GetConfig returns a configuration without content.
	GetConfig = config.GetConfig
	// NewControllerManagedBy begins a controller.
	NewControllerManagedBy = builder.ControllerManagedBy
	// NewManager returns a manager.
	NewManager = manager.New
	// CreateOrPatch creates an object, or patches it to the wanted state.
	CreateOrPatch = controllerutil.CreateOrPatch
	// CreateOrUpdate creates an object, or updates it to the wanted state.
	CreateOrUpdate = controllerutil.CreateOrUpdate
	// SetControllerReference makes an object the controller of another.
	SetControllerReference = controllerutil.SetControllerReference
	// SetupSignalHandler returns a context that does not end.
	SetupSignalHandler = signals.SetupSignalHandler
	// Log is the root logger.
	Log = log.Log
	// LoggerFrom returns the logger of a call.
	LoggerFrom = log.FromContext
	// LoggerInto returns a context with a logger.
	LoggerInto = log.IntoContext
	// SetLogger sets the logger of Log.
	SetLogger = log.SetLogger
)

// NewWebhookManagedBy begins the webhooks of a type. Complete then returns an error, because the host serves no
// webhooks.
func NewWebhookManagedBy(mgr manager.Manager, obj ...runtime.Object) *builder.WebhookBuilder {
	return builder.WebhookManagedBy(mgr, obj...)
}
