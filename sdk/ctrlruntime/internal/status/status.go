// Package status gives the host's errors the form of API errors. Functions such as apierrors.IsNotFound recognise them,
// and the host still knows their class when a reconciler returns them.
package status

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	windlass "windlass.dev/sdk"
)

// Error is an error of the host with the API's status.
type Error struct {
	status metav1.Status
	cause  error
}

var _ apierrors.APIStatus = &Error{}

// Error returns the host's text.
func (err *Error) Error() string { return err.cause.Error() }

// Unwrap returns the host's error, whose class decides about retries.
func (err *Error) Unwrap() error { return err.cause }

// Status returns the API's status.
func (err *Error) Status() metav1.Status { return err.status }

// As supports code that looks for a StatusError.
func (err *Error) As(target any) bool {
	if wanted, is := target.(**apierrors.StatusError); is {
		*wanted = &apierrors.StatusError{ErrStatus: err.status}
		return true
	}
	return false
}

// Of converts an error of the SDK. It returns all other errors, and nil, unchanged.
func Of(err error) error {
	var api *windlass.APIError
	if err == nil || !errors.As(err, &api) {
		return err
	}
	status := metav1.Status{
		Status: metav1.StatusFailure, Code: int32(api.Code), Reason: reasonOf(api), Message: api.Message,
		Details: &metav1.StatusDetails{RetryAfterSeconds: int32(math.Ceil(float64(api.RetryAfter) / float64(time.Second)))},
	}
	// The resource is "deployments.apps/scale".
	resource, _, _ := strings.Cut(api.Resource, "/")
	status.Details.Kind, status.Details.Group, _ = strings.Cut(resource, ".")
	if api.Object != nil {
		status.Details.Name, status.Details.UID = api.Object.Name, types.UID(api.Object.UID)
	}
	if api.Reason == windlass.NamespaceTerminating {
		status.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating", Message: api.Message}}
	}
	if api.Reason == windlass.Conflict && strings.Contains(api.Message, "conflict with ") {
		// A server-side apply was refused. The host passes on no causes, so the only cause here is the text.
		status.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Message: api.Message}}
	}
	if api.Reason == windlass.NotGranted || api.Reason == windlass.NotWatched {
		err = fmt.Errorf("%w: %s", err, missing(api))
	}
	return &Error{status, err}
}

// reasons maps the host's classes of errors to the API's reasons.
var reasons = map[windlass.Reason]metav1.StatusReason{
	windlass.NotFound: metav1.StatusReasonNotFound, windlass.AlreadyExists: metav1.StatusReasonAlreadyExists,
	windlass.Conflict: metav1.StatusReasonConflict, windlass.Invalid: metav1.StatusReasonInvalid,
	windlass.Forbidden: metav1.StatusReasonForbidden, windlass.NotGranted: metav1.StatusReasonForbidden,
	windlass.ReadOnly: metav1.StatusReasonForbidden, windlass.NamespaceTerminating: metav1.StatusReasonForbidden,
	windlass.TooManyRequests: metav1.StatusReasonTooManyRequests, windlass.Expired: metav1.StatusReasonExpired,
	windlass.Timeout: metav1.StatusReasonTimeout, windlass.UnknownOutcome: metav1.StatusReasonServerTimeout,
	windlass.LeaseLost: metav1.StatusReasonServiceUnavailable, windlass.ServerError: metav1.StatusReasonInternalError,
	windlass.TooLarge: metav1.StatusReasonRequestEntityTooLarge, windlass.NotWatched: metav1.StatusReasonForbidden,
}

// reasonOf returns the API's reason for the host's class. It returns the server's own reason if the host has no class
// for it, or only that of server errors.
func reasonOf(api *windlass.APIError) metav1.StatusReason {
	reason, known := reasons[api.Reason]
	own := metav1.StatusReason(api.StatusReason)
	if !known || api.Reason == windlass.ServerError && own != "" {
		return own
	}
	return reason
}

// missing returns advice about a right or a watch that the manifest lacks.
func missing(api *windlass.APIError) string {
	resource, subresource, has := strings.Cut(api.Resource, "/")
	name, group, _ := strings.Cut(resource, ".")
	if has {
		name += "/" + subresource
	}
	if api.Reason == windlass.NotWatched {
		return "code outside of a reconcile call, such as a map function, reads only watched kinds: give windlass.Describe " +
			"a permission to get, list and watch " + name + ", or call windlass.Reads"
	}
	return fmt.Sprintf("if the operator's policy grants it, the manifest lacks it. Add to windlass.Describe: "+
		"{APIGroups: []string{%q}, Resources: []string{%q}, Verbs: []string{%q}}", group, name, api.Verb)
}

// NotServed is the error of a request about a kind that the API server does not serve. meta.IsNoMatchError recognises it.
func NotServed(kind schema.GroupVersionKind, cause error) error {
	return &notServed{
		meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}, cause,
	}
}

type notServed struct {
	meta.NoKindMatchError
	cause error
}

// Error has the texts of both errors.
func (err *notServed) Error() string { return err.NoKindMatchError.Error() + ": " + err.cause.Error() }

// Unwrap returns the host's error, which has the class for retries.
func (err *notServed) Unwrap() error { return err.cause }

// As supports code that looks for a NoKindMatchError.
func (err *notServed) As(target any) bool {
	if wanted, is := target.(**meta.NoKindMatchError); is {
		*wanted = &err.NoKindMatchError
		return true
	}
	return false
}

// NotFound is the error of a read that found no object.
func NotFound(kind schema.GroupVersionKind, target windlass.Ref) error {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return Of(&windlass.APIError{
		Code: 404, Reason: windlass.NotFound, StatusReason: string(metav1.StatusReasonNotFound), Verb: "get",
		Resource: resource.GroupResource().String(), Message: fmt.Sprintf("%s %q not found", kind.GroupKind(), target.Name), Object: &target,
	})
}
