package main

import (
	"encoding/json"
	"fmt"
	"iter"
	"net"
	"time"
	"unicode/utf8"

	"windlass.dev/conformance/pure"
	"windlass.dev/sdk"
	"windlass.dev/sdk/cache"
	"windlass.dev/sdk/clock"
	"windlass.dev/sdk/conditions"
	"windlass.dev/sdk/events"
	"windlass.dev/sdk/http"
	"windlass.dev/sdk/live"
	"windlass.dev/sdk/metrics"
	"windlass.dev/sdk/owners"
	"windlass.dev/sdk/triggers"
	"windlass.dev/sdk/writes"
)

// step is a step with all arguments, including those that only a reconciler supports.
type step struct {
	pure.Step
	write
	Targets []pure.Target
	Query   query
	// These fields belong to a live read.
	Subresource string
	View        view
	Collection  writes.Collection
	// Fields are the fields of an object, or of a log line.
	Fields        json.RawMessage
	Operations    []write
	Kind          windlass.Kind
	LabelSelector string
	Event         event
	Name          string
	Value         any
	Labels        [][2]string
	Address       string
	Request       fetch
	Conditions    []conditions.Condition
	Type          string
	Status        string
	Reason        string
	Generation    int64
}

type query struct {
	Kind          windlass.Kind
	Namespace     string
	LabelSelector string
	FieldSelector string
	Index         struct{ Index, Value string }
	Owned         bool
	Fields        []string
	View          view
	Limit         int
	MaxBytes      int
	PageToken     string
	// These fields select a log.
	Target     pure.Target
	Container  string
	Previous   bool
	TailLines  int
	SinceMs    int64
	LimitBytes int
}

// view is "metadata" or {"fields": […]}.
type view struct {
	Metadata bool
	Fields   []string
}

func (view *view) UnmarshalJSON(document []byte) error {
	if view.Metadata = string(document) == `"metadata"`; view.Metadata {
		return nil
	}
	var fields struct{ Fields []string }
	err := json.Unmarshal(document, &fields)
	view.Fields = fields.Fields
	return err
}

type event struct {
	Regarding, Related *pure.Target
	EventType          string
	Reason             string
	Action             string
	Note               string
}

type fetch struct {
	Method  string
	URL     string
	Headers [][2]string
	Body    *struct {
		Text  string
		Bytes []int
	}
	TimeoutMs int64
}

func do(request windlass.Request, step step) (pure.Result, *pure.End) {
	step.Step.Value = step.Value
	if step.Call == "log.log" || step.Call == "logger" {
		if err := json.Unmarshal(step.Fields, &step.Step.Fields); step.Fields != nil && err != nil {
			panic(err)
		}
	}
	if result, end, is := pure.Do(step.Step); is {
		return result, end
	}
	switch step.Call {
	case "request":
		return pure.RequestOf(request), nil
	case "propagate":
		_, err := cache.Get[windlass.Object](step.Target.Ref())
		return pure.Result{"ok": nil}, &pure.End{Err: err}
	case "wrap":
		_, err := cache.Get[windlass.Object](step.Target.Ref())
		return nil, &pure.End{Err: fmt.Errorf("%s: %w", step.Message, err)}
	}
	for _, part := range []func() (pure.Result, bool){step.read, step.change, step.tell} {
		if result, is := part(); is {
			return result, nil
		}
	}
	panic("there is no step " + step.Call)
}

// paths returns the fields that a read names; nil if it names none.
func (step step) paths() []string {
	var paths []string
	if step.Fields != nil {
		if err := json.Unmarshal(step.Fields, &paths); err != nil {
			panic(err)
		}
	}
	return paths
}

func (step step) read() (pure.Result, bool) {
	switch step.Call {
	case "cache.get":
		return pure.Of(cache.Get[any](step.Target.Ref(), step.paths()...)), true
	case "live.get":
		return step.liveGet(), true
	case "live.log":
		asked := step.Query
		return pure.Of(live.Log(asked.Target.Ref(), live.LogQuery{
			Container: asked.Container, Previous: asked.Previous, TailLines: asked.TailLines,
			Since: time.Duration(asked.SinceMs) * time.Millisecond, LimitBytes: asked.LimitBytes,
		})), true
	case "live.served":
		return served(step.Kind), true
	case "live.kinds":
		return kinds(), true
	case "cache.get-many":
		targets := make([]windlass.Ref, len(step.Targets))
		for place, target := range step.Targets {
			targets[place] = target.Ref()
		}
		results := []pure.Result{}
		for _, read := range cache.GetMany[any](targets, step.paths()...) {
			results = append(results, pure.Of(read.Object, read.Err))
		}
		return pure.Result{"ok": results}, true
	case "cache.list":
		asked := step.Query
		return listed(cache.List[any](cache.Query{
			Kind: asked.Kind, Namespace: asked.Namespace, LabelSelector: asked.LabelSelector, Index: asked.Index.Index,
			Value: asked.Index.Value, Owned: asked.Owned, Fields: asked.Fields, PageSize: asked.Limit, PageBytes: asked.MaxBytes,
			PageToken: asked.PageToken,
		})), true
	case "live.list":
		asked := step.Query
		return listed(live.List[any](live.Query{
			Kind: asked.Kind, Namespace: asked.Namespace, LabelSelector: asked.LabelSelector, FieldSelector: asked.FieldSelector,
			Metadata: asked.View.Metadata, Fields: asked.View.Fields, PageSize: asked.Limit, PageToken: asked.PageToken,
		})), true
	}
	return nil, false
}

func (step step) liveGet() pure.Result {
	target := step.Target.Ref()
	switch {
	case step.Subresource != "":
		return pure.Of(live.GetSubresource[any](target, step.Subresource))
	case step.View.Metadata:
		return pure.Of(live.GetMetadata[any](target))
	}
	return pure.Of(live.Get[any](target, step.View.Fields...))
}

func served(kind windlass.Kind) pure.Result {
	served, err := live.Served(kind)
	if err != nil || served == nil {
		return pure.Of(nil, err)
	}
	return pure.Of(servedKind(*served), nil)
}

func kinds() pure.Result {
	kinds, err := live.Kinds()
	all := make([]any, len(kinds))
	for place, listed := range kinds {
		all[place] = map[string]any{
			"kind": map[string]any{"apiVersion": listed.Kind.APIVersion, "kind": listed.Kind.Kind}, "served": servedKind(listed.Served),
		}
	}
	return pure.Of(all, err)
}

func servedKind(served live.ServedKind) map[string]any {
	return map[string]any{
		"resource": served.Resource, "namespaced": served.Namespaced, "verbs": served.Verbs, "subresources": served.Subresources,
	}
}

func listed(objects iter.Seq2[*any, error]) pure.Result {
	all, err := cache.All(objects)
	if all == nil {
		all = []*any{}
	}
	return pure.Of(all, err)
}

func (step step) tell() (pure.Result, bool) {
	switch step.Call {
	case "owners.claim":
		return claim(step.Kind, step.LabelSelector), true
	case "events.emit":
		step.Event.emit()
	case "metrics.add":
		metrics.Add(step.Name, number(step.Value), labels(step.Labels))
	case "metrics.set":
		metrics.Set(step.Name, number(step.Value), labels(step.Labels))
	case "metrics.observe":
		metrics.Observe(step.Name, number(step.Value), labels(step.Labels))
	case "triggers.list":
		return pure.Result{"ok": told(triggers.List())}, true
	case "http.fetch":
		return step.Request.fetch(), true
	case "conditions.set":
		entered := conditions.Condition{Type: step.Type, Status: step.Status, Reason: step.Reason, Message: step.Message}
		return pure.Result{"ok": conditions.Set(step.Conditions, step.Generation, clock.Now, entered)}, true
	case "owner-reference":
		var object struct {
			APIVersion, Kind string
			Metadata         windlass.Metadata
		}
		if err := windlass.Decode(step.Object, &object); err != nil {
			panic(err)
		}
		return pure.Result{"ok": owners.Reference(object.APIVersion, object.Kind, object.Metadata)}, true
	case "connect":
		connection, err := net.Dial("tcp", step.Address)
		return pure.Of(fmt.Sprint(connection), err), true
	default:
		return nil, false
	}
	return pure.Result{"ok": nil}, true
}

func claim(kind windlass.Kind, labelSelector string) pure.Result {
	claimed, err := owners.Claim(kind, labelSelector)
	if err != nil {
		errs := []any{}
		for _, err := range err.(interface{ Unwrap() []error }).Unwrap() {
			errs = append(errs, pure.Shown(err))
		}
		return pure.Result{"error": map[string]any{"errors": errs}}
	}
	return pure.Result{"ok": map[string]any{"adopted": refs(claimed.Adopted), "released": refs(claimed.Released)}}
}

func refs(of []windlass.Ref) []pure.Target {
	all := make([]pure.Target, len(of))
	for place, ref := range of {
		all[place] = pure.TargetOf(ref)
	}
	return all
}

func told(of []triggers.Trigger) []any {
	all := []any{}
	for _, trigger := range of {
		one := map[string]any{"reason": trigger.Reason, "watch": pure.Text(trigger.Watch)}
		if trigger.Object != nil {
			one["object"] = pure.TargetOf(*trigger.Object)
		}
		all = append(all, one)
	}
	return all
}

func (event event) emit() {
	var options []events.Option
	if event.Regarding != nil {
		options = append(options, events.About(event.Regarding.Ref()))
	}
	if event.Related != nil {
		options = append(options, events.With(event.Related.Ref()))
	}
	say := events.Normal
	if event.EventType == "warning" {
		say = events.Warning
	}
	say(event.Reason, event.Action, event.Note, options...)
}

func (asked fetch) fetch() pure.Result {
	request := http.Request{
		Method: asked.Method, URL: asked.URL, Timeout: time.Duration(asked.TimeoutMs) * time.Millisecond,
	}
	for _, header := range asked.Headers {
		request.Headers = append(request.Headers, http.Header{Name: header[0], Value: header[1]})
	}
	if asked.Body != nil && asked.Body.Bytes != nil {
		request.Body = []byte{}
		for _, number := range asked.Body.Bytes {
			request.Body = append(request.Body, byte(number))
		}
	} else if asked.Body != nil {
		request.Text = asked.Body.Text
	}
	response, err := http.Fetch(request)
	if failed, is := err.(*http.Error); is {
		return pure.Result{"error": map[string]any{"reason": failed.Reason, "message": failed.Message}}
	}
	headers := [][2]string{}
	for _, header := range response.Headers {
		headers = append(headers, [2]string{header.Name, header.Value})
	}
	body := map[string]any{"text": string(response.Body)}
	if !utf8.Valid(response.Body) {
		body = map[string]any{"bytes": pure.Numbers(response.Body)}
	}
	return pure.Of(map[string]any{"status": response.Status, "headers": headers, "body": body}, err)
}

func labels(pairs [][2]string) metrics.Labels {
	all := metrics.Labels{}
	for _, pair := range pairs {
		all[pair[0]] = pair[1]
	}
	return all
}

func number(value any) float64 {
	switch value := value.(type) {
	case int64:
		return float64(value)
	case uint64:
		return float64(value)
	}
	return value.(float64)
}
