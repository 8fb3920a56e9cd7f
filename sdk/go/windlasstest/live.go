package windlasstest

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/host"
)

// SetLog sets the log of a Pod, for all its containers. Without it, the log is not found.
func (host *Host) SetLog(pod windlass.Ref, log string) {
	host.mutex.Lock()
	defer host.mutex.Unlock()
	host.logs[key(pod)] = log
}

// Unserve removes a kind from the API server. live.Served reports all other kinds as served. It reports them as
// namespaced, unless Define says otherwise or the host has an object of the kind without a namespace. live.Kinds
// returns the kinds of the objects and definitions in the host.
func (host *Host) Unserve(kind windlass.Kind) {
	host.mutex.Lock()
	defer host.mutex.Unlock()
	host.unserved[kind] = true
}

// Answer sets the response to each create of an object of this kind without a name, such as a SubjectAccessReview. Such
// an object is not stored. Without Answer, the response is the object that was sent.
func (host *Host) Answer(kind string, answer any) {
	host.mutex.Lock()
	defer host.mutex.Unlock()
	host.answers[kind] = plain(answer).(windlass.Object)
}

func (memory *memory) notFound(verb string, target windlass.Ref) *windlass.APIError {
	return &windlass.APIError{
		Code: 404, Reason: windlass.NotFound, StatusReason: "NotFound", Message: "it does not exist", Verb: verb, Resource: target.Kind,
		Object: &target,
	}
}

func (memory *memory) LiveGet(target host.Ref, subresource string, view host.View) host.Read {
	memory.mutex.Lock()
	defer memory.mutex.Unlock()
	if failed := memory.refused("get", target); failed != nil {
		return host.Read{Err: failed}
	}
	object, has := memory.objects[key(target)]
	if !has || target.UID != "" && metadata(object)["uid"] != target.UID {
		return host.Read{}
	}
	switch subresource {
	case "", "status":
	case "scale":
		object = scale(object)
	default:
		// As on the real host, the error names no object, because the object itself exists.
		failed := memory.notFound("get", target)
		failed.Object = nil
		return host.Read{Err: failed}
	}
	return host.Read{Object: text(viewed(object, view))}
}

func (memory *memory) LiveList(query host.LiveQuery) (host.Page, *host.APIError) {
	if query.FieldSelector != "" {
		panic("windlasstest: lists by a field selector are not supported: test the function that uses the objects directly")
	}
	page, failed := memory.list(query.Kind, query.Namespace, query.LabelSelector, false, nil)
	// The token is the number of objects on earlier pages.
	start := 0
	if query.PageToken != "" {
		var err error
		if start, err = strconv.Atoi(query.PageToken); err != nil {
			panic("windlasstest: " + query.PageToken + " is not a token of this host")
		}
	}
	start = min(start, len(page.Items))
	if end := start + min(int(query.Limit), livePageMax); end < len(page.Items) {
		page.Items, page.Next = page.Items[:end], strconv.Itoa(end)
	}
	page.Items = page.Items[start:]
	for place, item := range page.Items {
		page.Items[place] = text(viewed(parsed(item).(windlass.Object), query.View))
	}
	return page, failed
}

// livePageMax is the host's limit for the objects of a page.
const livePageMax = 500

func (memory *memory) LiveLog(query host.LogQuery) (string, *host.APIError) {
	memory.mutex.Lock()
	defer memory.mutex.Unlock()
	if failed := memory.refused("get", query.Target); failed != nil {
		return "", failed
	}
	log, has := memory.logs[key(query.Target)]
	if !has {
		return "", memory.notFound("get", query.Target)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(log, "\n"), "\n")
	if tail := int(query.TailLines); tail > 0 && tail < len(lines) {
		log = log[len(strings.Join(lines[:len(lines)-tail], "")):]
	}
	if most := int(query.LimitBytes); most > 0 && most < len(log) {
		for !utf8.RuneStart(log[most]) {
			most--
		}
		log = log[:most]
	}
	return log, nil
}

func (memory *memory) LiveServed(kind host.Kind) (*host.Served, *host.APIError) {
	memory.mutex.Lock()
	defer memory.mutex.Unlock()
	if failed := memory.refused("served", windlass.Ref{APIVersion: kind.APIVersion, Kind: kind.Kind}); failed != nil {
		return nil, failed
	}
	if memory.unserved[kind] {
		return nil, nil
	}
	return new(memory.served(kind)), nil
}

func (memory *memory) served(kind windlass.Kind) host.Served {
	isClusterScoped := memory.clusterScoped[kind]
	for ref := range memory.objects {
		isClusterScoped = isClusterScoped || ref.APIVersion == kind.APIVersion && ref.Kind == kind.Kind && ref.Namespace == ""
	}
	return host.Served{
		Resource: strings.ToLower(kind.Kind) + "s", Namespaced: !isClusterScoped,
		Verbs:        []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		Subresources: []string{"status"},
	}
}

// LiveKinds returns the kinds of the objects in the host and of the definitions.
func (memory *memory) LiveKinds() ([]host.Listed, *host.APIError) {
	memory.mutex.Lock()
	defer memory.mutex.Unlock()
	if failed := memory.refused("kinds", windlass.Ref{}); failed != nil {
		return nil, failed
	}
	kinds := slices.Collect(maps.Keys(memory.definitions))
	for ref := range memory.objects {
		kinds = append(kinds, windlass.Kind{APIVersion: ref.APIVersion, Kind: ref.Kind})
	}
	slices.SortFunc(kinds, func(one, other windlass.Kind) int {
		return cmp.Or(
			cmp.Compare(group(one), group(other)), cmp.Compare(one.Kind, other.Kind), cmp.Compare(one.APIVersion, other.APIVersion),
		)
	})
	kinds = slices.DeleteFunc(kinds, func(kind windlass.Kind) bool { return memory.unserved[kind] })
	// If a kind has several versions, it is listed at the first one.
	kinds = slices.CompactFunc(kinds, func(one, other windlass.Kind) bool {
		return group(one) == group(other) && one.Kind == other.Kind
	})
	listed := make([]host.Listed, len(kinds))
	for place, kind := range kinds {
		listed[place] = host.Listed{Kind: kind, Served: memory.served(kind)}
	}
	return listed, nil
}

// group returns the API group of a kind; empty for the core group.
func group(kind windlass.Kind) string {
	group, _, has := strings.Cut(kind.APIVersion, "/")
	if !has {
		return ""
	}
	return group
}

// DeleteCollection deletes the objects that the selector matches. This host does not support field selectors.
func (memory *memory) DeleteCollection(collection host.Collection, options host.DeleteOptions) ([]host.Ref, *host.APIError) {
	if collection.FieldSelector != "" {
		panic("windlasstest: collections by a field selector are not supported: test the function that uses the objects directly")
	}
	memory.mutex.Lock()
	defer memory.mutex.Unlock()
	target := windlass.Ref{APIVersion: collection.Kind.APIVersion, Kind: collection.Kind.Kind, Namespace: collection.Namespace}
	if target.Namespace == "" {
		target.Namespace = memory.Primary.Namespace
	}
	failed := memory.refused("deletecollection", target)
	if failed == nil && !collection.All && collection.LabelSelector == "" {
		failed = &windlass.APIError{
			Code: 422, Reason: windlass.Invalid, StatusReason: "Invalid", Message: "nothing is selected", Verb: "deletecollection",
			Resource: target.Kind,
		}
	}
	body := windlass.Object{"labelSelector": collection.LabelSelector, "all": collection.All}
	memory.writes = append(memory.writes, Write{
		Verb: "deletecollection", Target: target, Body: body, Deletion: options, Err: asError(failed),
	})
	if failed != nil {
		return nil, failed
	}
	deleted := []host.Ref{}
	for _, ref := range memory.sorted(collection.Kind, target.Namespace) {
		if object := memory.objects[ref]; selects(collection.LabelSelector, object) {
			memory.remove(ref, object, options.Propagation == host.Orphan, options.DryRun)
			ref.UID, _ = metadata(object)["uid"].(string)
			deleted = append(deleted, ref)
		}
	}
	return deleted, nil
}

// asError turns a nil pointer into a nil error.
func asError(failed *windlass.APIError) error {
	if failed == nil {
		return nil
	}
	return failed
}

// viewed returns the part of an object that a live read selects.
func viewed(object windlass.Object, view host.View) windlass.Object {
	if view.Metadata {
		return windlass.Object{"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": object["metadata"]}
	}
	return projected(object, view.Fields)
}

// scale returns the scale subresource of an object that has replicas.
func scale(object windlass.Object) windlass.Object {
	replicas := func(part string) windlass.Object {
		fields, _ := object[part].(windlass.Object)
		number, _ := fields["replicas"].(int64)
		return windlass.Object{"replicas": number}
	}
	of := windlass.Object{}
	for _, name := range []string{"name", "namespace", "uid", "resourceVersion"} {
		if value, has := metadata(object)[name]; has {
			of[name] = value
		}
	}
	return windlass.Object{
		"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": of, "spec": replicas("spec"), "status": replicas("status"),
	}
}
