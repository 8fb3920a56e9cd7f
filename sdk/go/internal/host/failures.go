package host

import (
	"errors"
	"fmt"
	"strings"
)

// Final is an error that is not worth another attempt until something changes.
type Final struct{ Cause error }

func (err *Final) Error() string { return err.Cause.Error() }
func (err *Final) Unwrap() error { return err.Cause }

// Failures is what the host is told of an error: its parts, each with its class and with what was said around it on the way up.
// Errors that were joined are told one by one, also below an error that wraps their join; what is neither an APIError nor Final is
// worth another attempt.
func Failures(err error) []Failure {
	if err == nil {
		return nil
	}
	if all := joined(err); all != nil {
		return all
	}
	// What is not worth another attempt is one error, whatever it is made of.
	_, final := err.(*Final)
	if inner := errors.Unwrap(err); inner != nil && !final {
		all := Failures(inner)
		surround(all, err, inner)
		return all
	}
	return whole(err)
}

// joined is told of the errors that an error is the sum of. One of fmt.Errorf with several %w is none: it says one thing.
func joined(err error) (all []Failure) {
	sum, is := err.(interface{ Unwrap() []error })
	if !is || fmt.Sprintf("%T", err) == "*fmt.wrapErrors" {
		return nil
	}
	for _, part := range sum.Unwrap() {
		some := Failures(part)
		// A sum whose text is not that of its parts says something of its own.
		if len(some) > 0 && !strings.Contains(err.Error(), said(part)) {
			surround(some, err, part)
		}
		all = append(all, some...)
	}
	return all
}

// whole is told of an error that is not taken apart. It has the class of the first in it that has one.
func whole(err error) []Failure {
	var told Failure
	var final *Final
	var api *APIError
	switch {
	case errors.As(err, &final):
		told.Terminal = text(err)
	case errors.As(err, &api) && api != nil:
		copied := *api
		copied.Message = around(err.Error(), api.Error(), api.Message)
		told.API = &copied
	default:
		told.Transient = text(err)
	}
	return []Failure{told}
}

// surround puts failures into the text of an error that wraps the one they were told of. Most have in their text what they wrap, and
// it is not said twice; the host says itself what was asked of which object, so of an APIError there is the message alone.
func surround(all []Failure, outer, inner error) {
	for place := range all {
		at := &all[place].Transient
		if api := all[place].API; api != nil {
			at = &api.Message
		} else if *at == "" {
			at = &all[place].Terminal
		}
		*at = around(outer.Error(), said(inner), *at)
	}
}

func around(outer, inner, told string) string {
	before, after, has := strings.Cut(outer, inner)
	if !has || inner == "" {
		before, after, has = strings.Cut(outer, told)
	}
	if !has && outer != "" {
		before += ": "
	}
	return before + told + after
}

// said is the text of an error. A nil pointer has none.
func said(err error) string {
	if api, is := err.(*APIError); is && api == nil {
		return ""
	}
	return err.Error()
}

// text is never empty: a failure without a text would be none.
func text(err error) string {
	if text := said(err); text != "" {
		return text
	}
	return fmt.Sprintf("an error of type %T without a text", err)
}
