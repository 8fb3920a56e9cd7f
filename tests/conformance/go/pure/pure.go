// Package pure has the steps that both the composing and the reconciling probe support.
package pure

import (
	"context"

	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"windlass.dev/sdk"
	"windlass.dev/sdk/clock"
	"windlass.dev/sdk/config"
	"windlass.dev/sdk/log"
	"windlass.dev/sdk/random"
)

// A Step is one step of a primary.
type Step struct {
	Call     string
	Level    string
	Message  string
	Fields   [][2]string
	Text     string
	Length   int
	Value    any
	Ms       int64
	Failures []Failure
	Path     string
}

// Failure is a failure that a step specifies. Exactly one of the first three fields is set.
type Failure struct {
	Transient, Terminal string
	API                 *Error `json:"api"`
	// AfterMs is the delay of a transient failure; zero for no delay.
	AfterMs int64
}

// Error is an API error in the form of the results.
type Error struct {
	Code         int     `json:"code"`
	Reason       string  `json:"reason"`
	StatusReason string  `json:"statusReason"`
	Message      string  `json:"message"`
	RetryAfterMs *int64  `json:"retryAfterMs"`
	Verb         string  `json:"verb"`
	Resource     string  `json:"resource"`
	Object       *Target `json:"object"`
}

// Target is a reference in the form of steps and results.
type Target struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Namespace  *string `json:"namespace"`
	Name       string  `json:"name"`
	UID        *string `json:"uid"`
}

// Ref converts a target to the SDK's reference.
func (target Target) Ref() windlass.Ref {
	ref := windlass.Ref{APIVersion: target.APIVersion, Kind: target.Kind, Name: target.Name}
	if target.Namespace != nil {
		ref.Namespace = *target.Namespace
	}
	if target.UID != nil {
		ref.UID = *target.UID
	}
	return ref
}

// TargetOf converts a reference for a result.
func TargetOf(ref windlass.Ref) Target {
	return Target{
		APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: Text(ref.Namespace), Name: ref.Name, UID: Text(ref.UID),
	}
}

// Text is nil for the empty text, and becomes null.
func Text(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Result is the outcome of a step.
type Result map[string]any

// Of returns the outcome of a call of the SDK.
func Of(value any, err error) Result {
	if err != nil {
		return Result{"error": Shown(err)}
	}
	return Result{"ok": value}
}

// Shown returns an error in the form of the results.
func Shown(err error) any {
	var api *windlass.APIError
	if !errors.As(err, &api) {
		return map[string]any{"message": err.Error()}
	}
	told := Error{
		Code: api.Code, Reason: api.Reason.String(), StatusReason: api.StatusReason, Message: api.Message, Verb: api.Verb,
		Resource: api.Resource,
	}
	if api.RetryAfter > 0 {
		told.RetryAfterMs = new(api.RetryAfter.Milliseconds())
	}
	if api.Object != nil {
		told.Object = new(TargetOf(*api.Object))
	}
	return told
}

func (told Error) error() *windlass.APIError {
	api := &windlass.APIError{
		Code: told.Code, StatusReason: told.StatusReason, Message: told.Message, Verb: told.Verb, Resource: told.Resource,
	}
	for api.Reason < windlass.Other && api.Reason.String() != told.Reason {
		api.Reason++
	}
	if told.RetryAfterMs != nil {
		api.RetryAfter = time.Duration(*told.RetryAfterMs) * time.Millisecond
	}
	if told.Object != nil {
		api.Object = new(told.Object.Ref())
	}
	return api
}

// RequestOf returns the fields of a request.
func RequestOf(request windlass.Request) Result {
	return Result{"ok": map[string]any{
		"controller": request.Controller, "namespace": Text(request.Namespace), "name": request.Name, "uid": Text(request.UID),
		"deleting": request.Deleting, "attempt": request.Attempt, "traceId": request.TraceID, "hasObject": len(request.Raw) > 0,
	}}
}

// End is how a step ends the call.
type End struct {
	After   time.Duration
	Backoff bool
	Err     error
}

// states is the number of times that this instance has carried out the step state.
var states int

// Do carries out a step. It returns false if this package does not have the step.
func Do(step Step) (Result, *End, bool) {
	switch step.Call {
	case "log.log":
		fields := make([]log.Field, len(step.Fields))
		for place, field := range step.Fields {
			fields[place] = log.Field{Name: field[0], Value: field[1]}
		}
		log.Write(level(step.Level), step.Message, fields...)
		return Result{"ok": nil}, nil, true
	case "logger":
		attributes := make([]slog.Attr, len(step.Fields))
		for place, field := range step.Fields {
			attributes[place] = slog.String(field[0], field[1])
		}
		slog.LogAttrs(context.Background(), log.LevelTrace+slog.Level(4*level(step.Level)), step.Message, attributes...)
		return Result{"ok": nil}, nil, true
	case "stdout":
		fmt.Print(step.Text)
		return Result{"ok": nil}, nil, true
	case "stderr":
		fmt.Fprint(os.Stderr, step.Text)
		return Result{"ok": nil}, nil, true
	case "config.get":
		return Of(config.Get[any]()), nil, true
	case "clock.now":
		now := clock.Now()
		return Result{"ok": map[string]any{"seconds": now.Unix(), "nanoseconds": now.Nanosecond()}}, nil, true
	case "random.bytes":
		return Result{"ok": Numbers(random.Bytes(step.Length))}, nil, true
	case "echo":
		return Result{"ok": step.Value}, nil, true
	case "state":
		states++
		return Result{"ok": states}, nil, true
	}
	if result, is := runtime(step); is {
		return result, nil, true
	}
	end := end(step)
	return nil, end, end != nil
}

// runtime carries out the steps about Go's own runtime.
func runtime(step Step) (Result, bool) {
	switch step.Call {
	case "language.now":
		return Result{"ok": time.Now().UnixMilli()}, true
	case "language.random":
		numbers := make([]int, 8)
		for place := range numbers {
			numbers[place] = rand.IntN(1000)
		}
		return Result{"ok": numbers}, true
	case "language.order":
		return Result{"ok": order()}, true
	case "language":
		return Result{"ok": language()}, true
	case "open-file":
		file, err := os.Open(step.Path)
		return Of(fmt.Sprint(file), err), true
	case "sleep":
		time.Sleep(time.Duration(step.Ms) * time.Millisecond)
		return Result{"ok": nil}, true
	}
	return nil, false
}

// order returns the order of iteration over a map. It differs between seeds, and must depend only on the seed.
func order() []string {
	keys := map[string]bool{}
	for number := range 50 {
		keys[fmt.Sprint("k", number)] = true
	}
	var walked []string
	for key := range keys {
		walked = append(walked, key)
	}
	return walked
}

// language checks what Go's runtime must be able to do within a call.
func language() map[string]bool {
	sum := make(chan int)
	for number := range 10 {
		go func() { sum <- number }()
	}
	total := 0
	for range 10 {
		total += <-sum
	}
	begun := time.Now()
	timer := time.NewTimer(30 * time.Millisecond)
	<-timer.C
	waited := time.Since(begun)

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	var ended error
	select {
	case <-ctx.Done():
		ended = ctx.Err()
	case <-time.After(time.Minute):
	}
	return map[string]bool{
		"goroutines": total == 45,
		"timers":     waited >= 30*time.Millisecond && waited < time.Second,
		"deadline":   errors.Is(ended, context.DeadlineExceeded),
	}
}

func end(step Step) *End {
	switch step.Call {
	case "requeue-after":
		return &End{After: time.Duration(step.Ms) * time.Millisecond}
	case "requeue-backoff":
		return &End{Backoff: true}
	case "fail":
		err := failed(step.Failures)
		if step.Message != "" {
			err = fmt.Errorf("%s: %w", step.Message, err)
		}
		return &End{Err: err}
	case "raise":
		Raise(step.Message)
	case "spin":
		for {
		}
	case "grow":
		var all [][]byte
		for {
			all = append(all, make([]byte, 1<<20))
			// This access keeps the compiler from removing the allocation.
			all[len(all)-1][len(all)%(1<<20)] = 1
		}
	case "recurse":
		return &End{After: time.Duration(recurse(1))}
	}
	return nil
}

func failed(failures []Failure) error {
	errs := make([]error, len(failures))
	for place, failure := range failures {
		switch {
		case failure.API != nil:
			errs[place] = failure.API.error()
		case failure.Terminal != "":
			errs[place] = windlass.Terminal(errors.New(failure.Terminal))
		case failure.AfterMs > 0:
			errs[place] = windlass.RetryAfter(errors.New(failure.Transient), time.Duration(failure.AfterMs)*time.Millisecond)
		default:
			errs[place] = errors.New(failure.Transient)
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// Raise panics with a message, and with `deepest` in its stack.
func Raise(message string) { deeper(message) }

func deeper(message string) { deepest(message) }

func deepest(message string) { panic(message) }

func recurse(depth int) int {
	var room [64]int
	room[depth%64] = recurse(depth + 1)
	return room[depth%63] + 1
}

func level(name string) log.Level {
	for level, known := range []string{"trace", "debug", "info", "warn", "error"} {
		if name == known {
			return log.Level(level)
		}
	}
	panic("there is no level " + name)
}

// Numbers returns bytes in the form of the results.
func Numbers(bytes []byte) []int {
	numbers := make([]int, len(bytes))
	for place, number := range bytes {
		numbers[place] = int(number)
	}
	return numbers
}
