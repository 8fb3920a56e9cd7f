package windlass

import (
	"errors"
	"time"

	"windlass.dev/sdk/internal/host"
)

// APIError is a failed request to the API server, or to the host's cache. When a reconcile returns it, even wrapped or
// joined, the host decides by its Reason how to retry.
type APIError = host.APIError

// Reason is the class of an APIError.
type Reason = host.Reason

// The classes of API errors.
const (
	NotFound             = host.NotFound
	AlreadyExists        = host.AlreadyExists
	Conflict             = host.Conflict
	Invalid              = host.Invalid
	Forbidden            = host.Forbidden
	NotGranted           = host.NotGranted
	NotWatched           = host.NotWatched
	NamespaceTerminating = host.NamespaceTerminating
	TooManyRequests      = host.TooManyRequests
	Expired              = host.Expired
	Timeout              = host.Timeout
	UnknownOutcome       = host.UnknownOutcome
	LeaseLost            = host.LeaseLost
	ReadOnly             = host.ReadOnly
	ServerError          = host.ServerError
	TooLarge             = host.TooLarge
	Other                = host.Other
)

// Is reports whether err is, wraps or joins an APIError of this class.
func Is(err error, reason Reason) bool {
	var api *APIError
	return errors.As(err, &api) && api.Reason == reason
}

// IsNotFound reports whether err says that the object, its kind or its namespace does not exist.
func IsNotFound(err error) bool { return Is(err, NotFound) }

// IsConflict reports whether err says that another client wrote first. The retry sees a newer state.
func IsConflict(err error) bool { return Is(err, Conflict) }

// IsAlreadyExists reports whether err says that the name of the object to create is taken.
func IsAlreadyExists(err error) bool { return Is(err, AlreadyExists) }

// Terminal marks an error that is not retried until something changes. Nil stays nil.
func Terminal(cause error) error {
	if cause == nil {
		return nil
	}
	return &host.Marked{Cause: cause, Terminal: true}
}

// IsTerminal reports whether err is, wraps or joins an error that Terminal has marked, or a malformed HTTP request.
func IsTerminal(err error) bool {
	for _, failure := range host.Failures(err) {
		if failure.Terminal {
			return true
		}
	}
	return false
}

// RetryAfter marks an error so that it is retried after this time, or after the backoff if that is longer. The time is
// limited to ten minutes. Nil stays nil.
func RetryAfter(cause error, after time.Duration) error {
	if cause == nil {
		return nil
	}
	return &host.Marked{Cause: cause, RetryAfter: after}
}

// Delay returns the longest time that RetryAfter has set for err, or for an error that it wraps or joins; zero if there
// is none.
func Delay(err error) (delay time.Duration) {
	for _, failure := range host.Failures(err) {
		delay = max(delay, failure.RetryAfter)
	}
	return delay
}
