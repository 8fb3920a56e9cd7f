package host

import (
	"errors"
	"reflect"
	"strings"
	"time"
)

// Marked is an error that sets its own retry, whichever error it wraps.
type Marked struct {
	Cause error
	// Terminal reports whether the error is not retried until something changes.
	Terminal bool
	// RetryAfter is the earliest retry; zero means after the backoff.
	RetryAfter time.Duration
}

func (err *Marked) Error() string { return err.Cause.Error() }
func (err *Marked) Unwrap() error { return err.Cause }

// Failures splits an error into the failures to report to the host, each with its class and with the context from the
// errors that wrap it. Joined errors are reported one by one, even if an error wraps their join. An error that is
// neither an APIError nor Marked is retried.
func Failures(err error) []Failure { return collect(nil, err) }

// Messages joins the texts of failures, for host functions that take only one text. It is empty if nothing failed.
func Messages(failures []Failure) string {
	texts := make([]string, len(failures))
	for place, failure := range failures {
		texts[place] = failure.Message
		if failure.API != nil {
			texts[place] = failure.API.Error()
		}
	}
	return strings.Join(texts, "; ")
}

func collect(all []Failure, err error) []Failure {
	if err == nil {
		return all
	}
	parts, kind := partsOf(err), nameOf(err)
	switch {
	case kind == "*errors.joinError":
		// A join has no text of its own. Calling its Error would return all texts below it; for errors joined one after
		// another in a loop, the cost would grow with the cube of their number.
		for _, part := range parts {
			all = collect(all, part)
		}
		return all
	// An error of fmt.Errorf with several %w is treated as one error, not as a join.
	case parts != nil && kind != "*fmt.wrapErrors":
		before := len(all)
		all = collectParts(all, textOf(err), parts)
		if len(all) > before {
			return all
		}
	}
	return collectOne(all, err)
}

// partsOf returns the errors that an error joins. It also supports hashicorp/go-multierror and apimachinery.
func partsOf(err error) []error {
	switch sum := err.(type) {
	case interface{ Unwrap() []error }:
		return sum.Unwrap()
	case interface{ WrappedErrors() []error }:
		return sum.WrappedErrors()
	case interface{ Errors() []error }:
		return sum.Errors()
	}
	return nil
}

// collectParts adds the failures of an author's type of joined errors. The text of the joined error is added to each
// failure.
func collectParts(all []Failure, outer string, parts []error) []Failure {
	start, end := frame(outer, parts)
	for _, part := range parts {
		before := len(all)
		all = collect(all, part)
		if start >= 0 {
			enclose(all[before:], outer, start, end)
		} else {
			surround(all[before:], outer, textOf(part))
		}
	}
	return all
}

func collectOne(all []Failure, err error) []Failure {
	inner, before := errors.Unwrap(err), len(all)
	marked, api := own(err, inner)
	text := textOf(err)
	if inner != nil && marked == nil && api == nil {
		all = collect(all, inner)
		surround(all[before:], text, textOf(inner))
		return all
	}
	// The error becomes one failure, even if it joins others.
	text = around(text, textOf(inner), none, none)
	if api != nil && marked == nil {
		copied := *api
		all = append(all, Failure{API: &copied})
		surround(all[before:], text, api.Error())
		return all
	}
	if text == "" {
		// A failure needs a text.
		text = "an error of type " + nameOf(err) + " without a text"
	}
	failure := Failure{Message: text}
	if marked != nil {
		failure.Terminal, failure.RetryAfter = marked.Terminal, marked.RetryAfter
	}
	return append(all, failure)
}

// nameOf is the name of an error's type.
func nameOf(err error) string { return reflect.TypeOf(err).String() }

// own returns the error that decides the class: err itself, or the error that its As method returns, unless As only
// looks it up among the wrapped errors. If err has no class but joins other errors, the first of them that has a class
// decides.
func own(err, inner error) (marked *Marked, api *APIError) {
	as, can := err.(interface{ As(any) bool })
	marked, isMarked := err.(*Marked)
	api, isAPI := err.(*APIError)
	switch {
	case isMarked || isAPI:
	case inner == nil:
		for _, part := range partsOf(err) {
			if marked, api = first(part); marked != nil || api != nil {
				return marked, api
			}
		}
		if can {
			as.As(&marked)
			as.As(&api)
		}
	case can:
		var markedWithin *Marked
		var apiWithin *APIError
		if !as.As(&marked) || errors.As(inner, &markedWithin) && markedWithin == marked {
			marked = nil
		}
		if !as.As(&api) || errors.As(inner, &apiWithin) && apiWithin == api {
			api = nil
		}
	}
	return marked, api
}

func first(err error) (marked *Marked, api *APIError) {
	inner := errors.Unwrap(err)
	if marked, api = own(err, inner); marked == nil && api == nil && inner != nil {
		return first(inner)
	}
	return marked, api
}

// surround adds the text of a wrapping error to failures. Most wrapping errors include the text of the error that they
// wrap, which is not repeated. For an APIError only the message appears, because the host itself adds the request and
// the object.
func surround(all []Failure, outer, inner string) {
	start, end := find(outer, inner)
	enclose(all, outer, start, end)
}

func enclose(all []Failure, outer string, start, end int) {
	for place := range all {
		at := all[place].text()
		*at = around(outer, *at, start, end)
	}
}

func (failure *Failure) text() *string {
	if failure.API != nil {
		return &failure.API.Message
	}
	return &failure.Message
}

// textOf returns the text of an error; empty for a nil pointer.
func textOf(err error) string {
	if api, is := err.(*APIError); err == nil || is && api == nil {
		return ""
	}
	return err.Error()
}
