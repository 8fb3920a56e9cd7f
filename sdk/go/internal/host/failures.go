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
func Failures(err error) (all []Failure) {
	for _, part := range parted(err, nil) {
		all = append(all, told(part)...)
	}
	return all
}

// parted takes apart what errors.Join has made, and asks none of it for its text: each has the texts of all below it, so that errors
// joined one after another in a loop would cost the cube of their number.
func parted(err error, parts []error) []error {
	if err == nil {
		return parts
	}
	if fmt.Sprintf("%T", err) != "*errors.joinError" {
		return append(parts, err)
	}
	for _, part := range err.(interface{ Unwrap() []error }).Unwrap() {
		parts = parted(part, parts)
	}
	return parts
}

// told is told of an error that errors.Join has not made.
func told(err error) []Failure {
	if all := summed(err); all != nil {
		return all
	}
	inner := errors.Unwrap(err)
	final, api := own[*Final](err, inner), own[*APIError](err, inner)
	if inner != nil && final == nil && api == nil {
		all := Failures(inner)
		surround(all, said(err), said(inner))
		return all
	}
	// It is one error, whatever it is made of.
	text := around(said(err), said(inner), said(inner))
	if api != nil && final == nil {
		copied := *api
		copied.Message = around(text, api.Error(), api.Message)
		return []Failure{{API: &copied}}
	}
	if text == "" {
		// A failure without a text would be none.
		text = fmt.Sprintf("an error of type %T without a text", err)
	}
	if final != nil {
		return []Failure{{Terminal: text}}
	}
	return []Failure{{Transient: text}}
}

// own is what gives an error its class: itself, or what its As says that it is, unless that only looks it up in what the error
// wraps. One that wraps none, or several as one, has the class of the first in it that has one.
func own[Class interface {
	error
	comparable
}](err, inner error) (class Class) {
	if self, is := err.(Class); is {
		return self
	}
	if inner == nil {
		errors.As(err, &class)
		return class
	}
	var none, within Class
	asked, can := err.(interface{ As(any) bool })
	if !can || !asked.As(&class) || errors.As(inner, &within) && within == class {
		return none
	}
	return class
}

// summed is told of the errors that an error of another type than errors.Join's is the sum of. What it says of its own is said of each.
// One of fmt.Errorf with several %w is none: it says one thing.
func summed(err error) (all []Failure) {
	sum, is := err.(interface{ Unwrap() []error })
	if !is || fmt.Sprintf("%T", err) == "*fmt.wrapErrors" {
		return nil
	}
	var parts []error
	var texts []string
	for _, part := range sum.Unwrap() {
		if part != nil {
			parts, texts = append(parts, part), append(texts, said(part))
		}
	}
	outer := said(err)
	before, after, framed := frame(outer, texts)
	for place, part := range parts {
		some := Failures(part)
		if framed {
			enclose(some, before, after)
		} else {
			surround(some, outer, texts[place])
		}
		all = append(all, some...)
	}
	return all
}

// surround puts failures into the text of an error that wraps the one they were told of. Most have in their text what they wrap, and
// it is not said twice; the host says itself what was asked of which object, so of an APIError there is the message alone.
func surround(all []Failure, outer, inner string) {
	if before, after, is := cut(outer, inner); is {
		enclose(all, before, after)
		return
	}
	for place := range all {
		at := all[place].text()
		*at = around(outer, *at, *at)
	}
}

func enclose(all []Failure, before, after string) {
	for place := range all {
		at := all[place].text()
		*at = before + *at + after
	}
}

func (failure *Failure) text() *string {
	switch {
	case failure.API != nil:
		return &failure.API.Message
	case failure.Transient != "":
		return &failure.Transient
	default:
		return &failure.Terminal
	}
}

// said is the text of an error, what errors.Join has made being put together once. A nil pointer has none.
func said(err error) string {
	parts := parted(err, nil)
	texts := make([]string, len(parts))
	for place, part := range parts {
		if api, is := part.(*APIError); !is || api != nil {
			texts[place] = part.Error()
		}
	}
	return strings.Join(texts, "\n")
}
