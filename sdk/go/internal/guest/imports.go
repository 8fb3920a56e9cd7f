//go:build wasip1

package guest

import (
	"time"

	wt "go.bytecodealliance.org/pkg/wit/types"

	"windlass.dev/sdk/internal/host"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_cache"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_config"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_events"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_http"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_live"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_log"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_metrics"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_owners"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_random"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_triggers"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_types"
	"windlass.dev/sdk/internal/wit/imports/windlass_plugin_writes"
)

// Imports are the host's functions. The SDK calls them directly, not through host.Host: with an interface, a component
// would contain and import all functions. This way it contains only those it calls, and a composer that calls functions
// that composers do not have does not build.
type Imports struct{}

var _ host.Host = Imports{}

// Host returns the host that the plugin runs in.
func Host() Imports { return Imports{} }

func (Imports) Now() time.Time                { return now() }
func (Imports) Config() string                { return windlass_plugin_config.Get() }
func (Imports) RandomUint32() uint32          { return windlass_plugin_random.GetU32() }
func (Imports) RandomBytes(length int) []byte { return windlass_plugin_random.GetBytes(uint32(length)) }

func (Imports) Log(level int, message string, fields []host.Pair) {
	host.Clean(&message)
	windlass_plugin_log.Log(uint8(level), message, tuples(fields))
}

type result = wt.Result[wt.Option[string], windlass_plugin_types.ApiError]

func read(of result) host.Read {
	if of.IsErr() {
		return host.Read{Err: apiError(of.Err())}
	}
	return host.Read{Object: of.Ok().SomeOr("")}
}

func reads(of []result) []host.Read {
	all := make([]host.Read, len(of))
	for place, result := range of {
		all[place] = read(result)
	}
	return all
}

func written(of wt.Result[string, windlass_plugin_types.ApiError]) host.Read {
	if of.IsErr() {
		return host.Read{Err: apiError(of.Err())}
	}
	return host.Read{Object: of.Ok()}
}

func page(of wt.Result[windlass_plugin_types.Page, windlass_plugin_types.ApiError]) (host.Page, *host.APIError) {
	if of.IsErr() {
		return host.Page{}, apiError(of.Err())
	}
	return host.Page{Items: of.Ok().Items, Next: of.Ok().NextToken.SomeOr("")}, nil
}

func (Imports) CacheGet(target host.Ref, fields []string) host.Read {
	return read(windlass_plugin_cache.Get(ref(target), someFields(fields)))
}

func (Imports) CacheGetMany(targets []host.Ref, fields []string) []host.Read {
	all := make([]windlass_plugin_types.ObjectRef, len(targets))
	for place, target := range targets {
		all[place] = ref(target)
	}
	return reads(windlass_plugin_cache.GetMany(all, someFields(fields)))
}

func (Imports) CacheList(query host.CacheQuery) (host.Page, *host.APIError) {
	asked := windlass_plugin_cache.ListQuery{
		Kind: kind(query.Kind), Namespace: Some(query.Namespace), LabelSelector: Some(query.LabelSelector), Owned: query.Owned,
		Fields: someFields(query.Fields), Limit: query.Limit, MaxBytes: someNumber(query.MaxBytes), PageToken: Some(query.PageToken),
	}
	if query.Index != "" {
		host.Clean(&query.Index, &query.Value)
		asked.Index = wt.Some(windlass_plugin_cache.IndexMatch{Index: query.Index, Value: query.Value})
	}
	return page(windlass_plugin_cache.List(asked))
}

func view(of host.View) windlass_plugin_live.View {
	switch {
	case of.Metadata:
		return windlass_plugin_live.MakeViewMetadata()
	case of.Fields != nil:
		return windlass_plugin_live.MakeViewFields(host.Cleaned(of.Fields))
	}
	return windlass_plugin_live.MakeViewWhole()
}

func (Imports) LiveGet(target host.Ref, subresource string, of host.View) host.Read {
	return read(windlass_plugin_live.Get(ref(target), Some(subresource), view(of)))
}

func (Imports) LiveLog(query host.LogQuery) (string, *host.APIError) {
	asked := windlass_plugin_live.LogQuery{
		Target: ref(query.Target), Container: Some(query.Container), Previous: query.Previous, TailLines: someNumber(query.TailLines),
		SinceMs: Milliseconds(query.Since), LimitBytes: someNumber(query.LimitBytes),
	}
	log := windlass_plugin_live.Log(asked)
	if log.IsErr() {
		return "", apiError(log.Err())
	}
	return log.Ok(), nil
}

func (Imports) LiveServed(of host.Kind) (*host.Served, *host.APIError) {
	served := windlass_plugin_live.Served(kind(of))
	switch {
	case served.IsErr():
		return nil, apiError(served.Err())
	case served.Ok().IsNone():
		return nil, nil
	}
	return new(howServed(served.Ok().Some())), nil
}

func (Imports) LiveKinds() ([]host.Listed, *host.APIError) {
	kinds := windlass_plugin_live.Kinds()
	if kinds.IsErr() {
		return nil, apiError(kinds.Err())
	}
	all := make([]host.Listed, len(kinds.Ok()))
	for place, listed := range kinds.Ok() {
		all[place] = host.Listed{
			Kind: host.Kind{APIVersion: listed.Kind.ApiVersion, Kind: listed.Kind.Kind}, Served: howServed(listed.Served),
		}
	}
	return all, nil
}

func howServed(of windlass_plugin_live.ServedKind) host.Served {
	return host.Served{Resource: of.Resource, Namespaced: of.Namespaced, Verbs: of.Verbs, Subresources: of.Subresources}
}

func (Imports) LiveList(query host.LiveQuery) (host.Page, *host.APIError) {
	return page(windlass_plugin_live.List(windlass_plugin_live.ListQuery{
		Kind: kind(query.Kind), Namespace: Some(query.Namespace), LabelSelector: Some(query.LabelSelector),
		FieldSelector: Some(query.FieldSelector), View: view(query.View), Limit: query.Limit, PageToken: Some(query.PageToken),
	}))
}

func writeOptions(of host.WriteOptions) windlass_plugin_writes.WriteOptions {
	options := windlass_plugin_writes.WriteOptions{
		ResourceVersion: Some(of.ResourceVersion), Owned: of.Owned, Force: of.Force, DryRun: of.DryRun,
		FieldValidation: uint8(of.FieldValidation), ManagerSuffix: Some(of.ManagerSuffix),
		Fields: someFields(of.Fields),
	}
	if of.Subresource != "" {
		host.Clean(&of.Subresource)
		options.Subresource = wt.Some(windlass_plugin_writes.Subresource{Name: of.Subresource, Parent: optionalRef(of.Parent)})
	}
	return options
}

func deleteOptions(of host.DeleteOptions) windlass_plugin_writes.DeleteOptions {
	options := windlass_plugin_writes.DeleteOptions{
		ResourceVersion: Some(of.ResourceVersion), Propagation: uint8(of.Propagation), GracePeriodMs: Milliseconds(of.GracePeriod),
		DryRun: of.DryRun,
	}
	if of.GracePeriod == 0 {
		options.GracePeriodMs = wt.Some(uint32(0))
	}
	return options
}

func (Imports) Create(of host.Operation) host.Read {
	host.Clean(&of.Body)
	return written(windlass_plugin_writes.Create(of.Body, writeOptions(of.Options)))
}

func (Imports) Update(of host.Operation) host.Read {
	host.Clean(&of.Body)
	return written(windlass_plugin_writes.Update(of.Body, writeOptions(of.Options)))
}

func (Imports) Patch(of host.Operation) host.Read {
	host.Clean(&of.Body)
	return written(windlass_plugin_writes.Patch(ref(of.Target), uint8(of.PatchType), of.Body, writeOptions(of.Options)))
}

func (Imports) Apply(of host.Operation) host.Read {
	host.Clean(&of.Body)
	return written(windlass_plugin_writes.Apply(of.Body, writeOptions(of.Options)))
}

func (Imports) Delete(of host.Operation) host.Read {
	return read(windlass_plugin_writes.Delete(ref(of.Target), deleteOptions(of.Delete)))
}

func (Imports) DeleteCollection(of host.Collection, options host.DeleteOptions) ([]host.Ref, *host.APIError) {
	deleted := windlass_plugin_writes.DeleteCollection(windlass_plugin_writes.Collection{
		Kind: kind(of.Kind), Namespace: Some(of.Namespace), LabelSelector: Some(of.LabelSelector), FieldSelector: Some(of.FieldSelector),
		All: of.All,
	}, deleteOptions(options))
	switch {
	case deleted.IsErr():
		return nil, apiError(deleted.Err())
	case deleted.Ok().IsNone():
		return nil, nil
	}
	named := []host.Ref{}
	for _, object := range deleted.Ok().Some() {
		named = append(named, refOf(object))
	}
	return named, nil
}

func (Imports) Batch(operations []host.Operation) []host.Read {
	all := make([]windlass_plugin_writes.Operation, len(operations))
	for place, operation := range operations {
		host.Clean(&operation.Body)
		options := writeOptions(operation.Options)
		object := windlass_plugin_writes.ObjectWrite{Object: operation.Body, Options: options}
		switch operation.Verb {
		case host.Create:
			all[place] = windlass_plugin_writes.MakeOperationCreate(object)
		case host.Update:
			all[place] = windlass_plugin_writes.MakeOperationUpdate(object)
		case host.Apply:
			all[place] = windlass_plugin_writes.MakeOperationApply(object)
		case host.Patch:
			all[place] = windlass_plugin_writes.MakeOperationPatch(windlass_plugin_writes.PatchWrite{
				Target: ref(operation.Target), PatchType: uint8(operation.PatchType), Patch: operation.Body, Options: options,
			})
		default:
			all[place] = windlass_plugin_writes.MakeOperationDelete(windlass_plugin_writes.DeleteWrite{
				Target: ref(operation.Target), Options: deleteOptions(operation.Delete),
			})
		}
	}
	return reads(windlass_plugin_writes.Batch(all))
}

func (Imports) Claim(of host.Kind, labelSelector string) (adopted, released []host.Ref, errs []*host.APIError) {
	host.Clean(&labelSelector)
	claim := windlass_plugin_owners.Claim(kind(of), labelSelector)
	if claim.IsErr() {
		for _, err := range claim.Err() {
			errs = append(errs, apiError(err))
		}
		return nil, nil, errs
	}
	for _, object := range claim.Ok().Adopted {
		adopted = append(adopted, refOf(object))
	}
	for _, object := range claim.Ok().Released {
		released = append(released, refOf(object))
	}
	return adopted, released, nil
}

func (Imports) Emit(event host.Event) { windlass_plugin_events.Emit(Event(event)) }

func (Imports) MetricAdd(name string, value float64, labels []host.Pair) {
	host.Clean(&name)
	windlass_plugin_metrics.Add(name, value, tuples(labels))
}

func (Imports) MetricSet(name string, value float64, labels []host.Pair) {
	host.Clean(&name)
	windlass_plugin_metrics.Set(name, value, tuples(labels))
}

func (Imports) MetricObserve(name string, value float64, labels []host.Pair) {
	host.Clean(&name)
	windlass_plugin_metrics.Observe(name, value, tuples(labels))
}

// The reasons are in the order of http.wit.
var httpReasons = [...]string{
	"not-granted", "invalid-request", "dns", "connect", "tls", "timeout", "too-large", "protocol", "other",
}

func (Imports) Fetch(request host.Request) (host.Response, *host.HTTPError) {
	host.Clean(&request.Method, &request.URL)
	asked := windlass_plugin_http.Request{
		Method: request.Method, Url: request.URL, Headers: tuples(request.Headers), TimeoutMs: Milliseconds(request.Timeout),
	}
	switch {
	case request.Body == nil:
	case request.IsText:
		asked.Body = wt.Some(windlass_plugin_http.MakeBodyText(string(request.Body)))
	default:
		asked.Body = wt.Some(windlass_plugin_http.MakeBodyBytes(request.Body))
	}
	answer := windlass_plugin_http.Fetch(asked)
	if answer.IsErr() {
		reason := "other"
		if int(answer.Err().Reason) < len(httpReasons) {
			reason = httpReasons[answer.Err().Reason]
		}
		return host.Response{}, &host.HTTPError{Reason: reason, Message: answer.Err().Message}
	}
	response := host.Response{Status: int(answer.Ok().Status)}
	for _, header := range answer.Ok().Headers {
		response.Headers = append(response.Headers, host.Pair{Name: header.F0, Value: header.F1})
	}
	switch body := answer.Ok().Body; body.Tag() {
	case windlass_plugin_http.Body_Text:
		response.Body = []byte(body.Text())
	default:
		response.Body = body.Bytes()
	}
	return response, nil
}

func (Imports) Triggers() []host.Trigger {
	var all []host.Trigger
	for _, trigger := range windlass_plugin_triggers.List() {
		all = append(all, host.Trigger{
			Reason: trigger.Reason, Watch: trigger.Watch.SomeOr(""), Object: optionalRefOf(trigger.Object),
		})
	}
	return all
}
