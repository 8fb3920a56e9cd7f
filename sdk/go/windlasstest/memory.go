package windlasstest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"windlass.dev/sdk"
	"windlass.dev/sdk/http"
	"windlass.dev/sdk/internal/host"
)

// memory gives a Host the methods that the SDK calls.
type memory struct{ *Host }

// refused returns the failure that the test has set for a request, or nil.
func (memory *memory) refused(verb string, target windlass.Ref) *windlass.APIError {
	for place := range memory.failures {
		failure := &memory.failures[place]
		if failure.times < 1 || failure.verb != "" && failure.verb != verb || failure.kind != "" && failure.kind != target.Kind {
			continue
		}
		failure.times--
		told := *failure.err
		if told.Verb == "" {
			told.Verb = verb
		}
		if told.Resource == "" {
			told.Resource = target.Kind
		}
		if told.Object == nil && target.Name != "" {
			told.Object = &target
		}
		return &told
	}
	return nil
}

func (memory *memory) get(target windlass.Ref, fields []string) host.Read {
	if failed := memory.refused("get", target); failed != nil {
		return host.Read{Err: failed}
	}
	object, has := memory.objects[key(target)]
	if !has || target.UID != "" && metadata(object)["uid"] != target.UID {
		return host.Read{}
	}
	return host.Read{Object: text(projected(object, fields))}
}

func (memory *memory) CacheGet(target host.Ref, fields []string) host.Read {
	memory.mutex.Lock()
	defer memory.mutex.Unlock()
	return memory.get(target, fields)
}

func (memory *memory) CacheGetMany(targets []host.Ref, fields []string) []host.Read {
	all := make([]host.Read, len(targets))
	for place, target := range targets {
		all[place] = memory.CacheGet(target, fields)
	}
	return all
}

func (memory *memory) CacheList(query host.CacheQuery) (host.Page, *host.APIError) {
	if query.Index != "" {
		panic("windlasstest: lists by an index are not supported: test the function that uses the objects directly")
	}
	return memory.list(query.Kind, query.Namespace, query.LabelSelector, query.Owned, query.Fields)
}

func (memory *memory) list(
	kind host.Kind, namespace, labels string, owned bool, fields []string,
) (page host.Page, failed *host.APIError) {
	memory.mutex.Lock()
	defer memory.mutex.Unlock()
	if failed := memory.refused("list", windlass.Ref{APIVersion: kind.APIVersion, Kind: kind.Kind}); failed != nil {
		return page, failed
	}
	for _, ref := range memory.sorted(kind, namespace) {
		object := memory.objects[ref]
		if selects(labels, object) && (!owned || memory.controls(object)) {
			page.Items = append(page.Items, text(projected(object, fields)))
		}
	}
	return page, nil
}

// controls reports whether the primary controls an object.
func (memory *memory) controls(object windlass.Object) bool {
	controller := controller(object)
	return controller != nil && controller["uid"] == memory.owner()["uid"]
}

// owner is the controller reference to the primary.
func (memory *memory) owner() windlass.Object {
	uid := memory.Primary.UID
	if primary, has := memory.objects[key(memory.Primary)]; has {
		uid, _ = metadata(primary)["uid"].(string)
	}
	return windlass.Object{
		"apiVersion": memory.Primary.APIVersion, "kind": memory.Primary.Kind, "name": memory.Primary.Name, "uid": uid,
		"controller": true, "blockOwnerDeletion": true,
	}
}

func (memory *memory) Claim(kind host.Kind, labels string) (adopted, released []host.Ref, errs []*host.APIError) {
	memory.mutex.Lock()
	defer memory.mutex.Unlock()
	if failed := memory.refused("claim", windlass.Ref{APIVersion: kind.APIVersion, Kind: kind.Kind}); failed != nil {
		return nil, nil, []*host.APIError{failed}
	}
	for _, ref := range memory.sorted(kind, memory.Primary.Namespace) {
		object := memory.objects[ref]
		ref.UID, _ = metadata(object)["uid"].(string)
		switch {
		case selects(labels, object) && controller(object) == nil:
			owners, _ := metadata(object)["ownerReferences"].([]any)
			metadata(object)["ownerReferences"] = append(owners, memory.owner())
			adopted = append(adopted, ref)
		case !selects(labels, object) && memory.controls(object):
			delete(metadata(object), "ownerReferences")
			released = append(released, ref)
		}
	}
	return adopted, released, nil
}

func (memory *memory) Emit(event host.Event) {
	memory.mutex.Lock()
	defer memory.mutex.Unlock()
	memory.events = append(memory.events, event)
}

var levels = [...]string{"trace", "debug", "info", "warn", "error"}

func (memory *memory) Log(level int, message string, fields []host.Pair) {
	memory.mutex.Lock()
	defer memory.mutex.Unlock()
	memory.lines = append(memory.lines, Line{levels[level], message, pairs(fields)})
}

func pairs(of []host.Pair) map[string]string {
	all := map[string]string{}
	for _, pair := range of {
		all[pair.Name] = pair.Value
	}
	return all
}

func (memory *memory) metric(verb, name string, value float64, labels []host.Pair) {
	memory.mutex.Lock()
	defer memory.mutex.Unlock()
	memory.metrics = append(memory.metrics, Metric{verb, name, value, pairs(labels)})
}

func (memory *memory) MetricAdd(name string, value float64, labels []host.Pair) {
	memory.metric("add", name, value, labels)
}

func (memory *memory) MetricSet(name string, value float64, labels []host.Pair) {
	memory.metric("set", name, value, labels)
}

func (memory *memory) MetricObserve(name string, value float64, labels []host.Pair) {
	memory.metric("observe", name, value, labels)
}

func (memory *memory) Config() string { return memory.config }

func (memory *memory) Now() time.Time { return memory.Time }

func (memory *memory) RandomUint32() uint32 {
	return binary.LittleEndian.Uint32(memory.RandomBytes(4))
}

func (memory *memory) RandomBytes(length int) []byte {
	memory.mutex.Lock()
	defer memory.mutex.Unlock()
	memory.Seed++
	source := rand.New(rand.NewPCG(memory.Seed, 0))
	bytes := make([]byte, length)
	for place := range bytes {
		bytes[place] = byte(source.Uint32())
	}
	return bytes
}

func (memory *memory) Fetch(request host.Request) (host.Response, *host.HTTPError) {
	if memory.HTTP == nil {
		return host.Response{}, &host.HTTPError{Reason: "not-granted", Message: "the test grants no HTTP: set Host.HTTP"}
	}
	asked := http.Request{Method: request.Method, URL: request.URL, Headers: request.Headers, Timeout: request.Timeout}
	if request.IsText {
		asked.Text = string(request.Body)
	} else {
		asked.Body = request.Body
	}
	response, err := memory.HTTP(asked)
	if err == nil {
		return response, nil
	}
	var failed *host.HTTPError
	if !errors.As(err, &failed) {
		failed = &host.HTTPError{Reason: "other", Message: fmt.Sprint(err)}
	}
	return host.Response{}, failed
}

func (memory *memory) Triggers() []host.Trigger { return memory.Host.Triggers }
