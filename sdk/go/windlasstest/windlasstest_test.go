package windlasstest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"windlass.dev/sdk"
	"windlass.dev/sdk/cache"
	"windlass.dev/sdk/clock"
	"windlass.dev/sdk/config"
	"windlass.dev/sdk/events"
	fetching "windlass.dev/sdk/http"
	"windlass.dev/sdk/http/client"
	"windlass.dev/sdk/live"
	"windlass.dev/sdk/metrics"
	"windlass.dev/sdk/owners"
	"windlass.dev/sdk/random"
	"windlass.dev/sdk/triggers"
	"windlass.dev/sdk/windlasstest"
	"windlass.dev/sdk/writes"
)

type object = windlass.Object

func configMap(name string, labels object) object {
	return object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": name, "namespace": "prod", "labels": labels}}
}

func named(name string) windlass.Ref {
	return windlass.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "prod", Name: name}
}

func equal(t *testing.T, what string, got, wanted any) {
	t.Helper()
	if !reflect.DeepEqual(got, wanted) {
		t.Errorf("%s: got %v, wanted %v", what, got, wanted)
	}
}

func TestReadsFindStoredObjects(t *testing.T) {
	host := windlasstest.New(t)
	host.Put(configMap("b", object{"tier": "back"}), configMap("a", object{"tier": "front"}))
	got, err := cache.Get[object](named("a"), "/metadata/labels/tier")
	if err != nil || (*got)["metadata"].(object)["labels"].(object)["tier"] != "front" || (*got)["metadata"].(object)["generation"] != nil {
		t.Error(got, err)
	}
	if got, err := live.Get[object](named("none")); got != nil || err != nil {
		t.Error(got, err)
	}
	type shape struct{ Metadata windlass.Metadata }
	kind := windlass.Kind{APIVersion: "v1", Kind: "ConfigMap"}
	for selector, wanted := range map[string]int{"": 2, "tier": 2, "tier=back": 1, "tier!=back": 1, "!tier": 0, "tier=back,tier=front": 0} {
		all, err := cache.All(cache.List[shape](cache.Query{Kind: kind, LabelSelector: selector}))
		if err != nil || len(all) != wanted {
			t.Error(selector, len(all), err)
		}
	}
	page, next, err := live.Page[shape](live.Query{Kind: kind})
	if err != nil || next != "" || page[0].Metadata.Name != "a" {
		t.Error(page, next, err)
	}
	many := cache.GetMany[shape]([]windlass.Ref{named("a"), named("none")})
	if many[0].Object == nil || many[1].Object != nil || many[1].Err != nil {
		t.Error(many)
	}
}

func TestWritesAreCarriedOutAndRecorded(t *testing.T) {
	host := windlasstest.New(t)
	created, err := writes.Create(configMap("a", nil))
	if err != nil || created["metadata"].(object)["uid"] == nil {
		t.Fatal(created, err)
	}
	_, err = writes.Create(configMap("a", nil))
	equal(t, "a name that is taken", windlass.IsAlreadyExists(err), true)
	_, err = writes.Apply(object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "a", "namespace": "prod"}, "data": object{"x": "1"}})
	equal(t, "an apply", err, nil)
	_, err = writes.MergePatch[object](named("a"), object{"data": object{"y": "2", "x": nil}})
	equal(t, "a merge patch", err, nil)
	_, err = writes.JSONPatch[object](named("a"), []writes.Step{
		{Op: "test", Path: "/data/y", Value: "2"}, {Op: "add", Path: "/list", Value: []int{1, 3}},
		{Op: "add", Path: "/list/1", Value: 2}, {Op: "remove", Path: "/list/0"}, {Op: "copy", From: "/data/y", Path: "/data/z"},
	}, writes.IfVersion("3"))
	equal(t, "a JSON patch", err, nil)
	now := host.Object(named("a"))
	equal(t, "the data", now["data"], object{"y": "2", "z": "2"})
	equal(t, "the list", now["list"], []any{int64(2), int64(3)})
	_, err = writes.Update(now, writes.IfVersion("1"))
	equal(t, "an old version", windlass.IsConflict(err), true)
	equal(t, "a status", writes.ApplyStatus(named("a"), object{"ready": true}), nil)
	equal(t, "the status", host.Object(named("a"))["status"], object{"ready": true})
	left, err := writes.Delete(named("a"), writes.Foreground)
	equal(t, "what is left", len(left), 0)
	equal(t, "a deletion", err, nil)
	_, err = writes.Delete(named("a"))
	equal(t, "one of nothing", windlass.IsNotFound(err), true)
	var verbs []string
	for _, write := range host.Writes() {
		verbs = append(verbs, write.Verb)
	}
	equal(t, "the verbs", strings.Join(verbs, " "), "create create apply patch patch update apply delete delete")
	equal(t, "what the plugin was told", windlass.IsAlreadyExists(host.Writes()[1].Err), true)
}

func TestEnsureCreatesOrPatchesOnlyIfNeeded(t *testing.T) {
	host := windlasstest.New(t)
	ensured := func(object any) windlass.Object {
		t.Helper()
		done, err := writes.Ensure(object)
		if err != nil {
			t.Fatal(err)
		}
		var got windlass.Object
		equal(t, "the ensured object", done.Into(&got), nil)
		equal(t, "the ensured object", got, host.Object(named("a")))
		return windlass.Object{"effect": done.Effect, "data": got["data"]}
	}
	wanted := func(value string) any {
		return struct {
			APIVersion string            `json:"apiVersion"`
			Kind       string            `json:"kind"`
			Metadata   windlass.Metadata `json:"metadata"`
			Data       map[string]string `json:"data"`
		}{"v1", "ConfigMap", windlass.Metadata{Name: "a", Namespace: "prod"}, map[string]string{"k": value}}
	}
	equal(t, "a new object", ensured(wanted("v")), object{"effect": writes.Created, "data": object{"k": "v"}})
	equal(t, "the same again", ensured(wanted("v")), object{"effect": writes.Unchanged, "data": object{"k": "v"}})
	_, err := writes.MergePatch[object](named("a"), object{"data": object{"theirs": "v"}})
	equal(t, "another's field", err, nil)
	equal(t, "another value", ensured(wanted("w")), object{"effect": writes.Patched, "data": object{"k": "w", "theirs": "v"}})
	var verbs []string
	for _, write := range host.Writes() {
		verbs = append(verbs, write.Verb)
	}
	equal(t, "the writes", verbs, []string{"create", "patch", "patch"})
	equal(t, "the patch", host.Writes()[2].Body, object{"data": object{"k": "w"}})
	equal(t, "the incarnation", host.Writes()[2].Target.UID, host.Object(named("a"))["metadata"].(object)["uid"])
	host.Fail("get", "ConfigMap", windlass.NotWatched)
	_, err = writes.Ensure(wanted("w"))
	equal(t, "a kind that is not watched", windlass.Is(err, windlass.NotWatched), true)
}

func TestAnObjectOfAnotherControllerIsNotEnsured(t *testing.T) {
	host := windlasstest.New(t)
	ownedBy := func(name string) object {
		owner := object{"apiVersion": "v1", "kind": "Shop", "name": name, "uid": "u-" + name, "controller": true}
		owned := configMap("a", nil)
		owned["metadata"].(object)["ownerReferences"] = []any{owner}
		return owned
	}
	host.Put(ownedBy("theirs"))
	_, err := writes.Ensure(ownedBy("ours"))
	equal(t, "the class", windlass.IsAlreadyExists(err), true)
	equal(t, "the text", err.Error(), "ensure ConfigMap ConfigMap prod/a: AlreadyExists: it exists, and Shop theirs controls it")
	equal(t, "the writes", len(host.Writes()), 0)
}

func TestABatchReturnsResultsInOrder(t *testing.T) {
	windlasstest.New(t)
	results := writes.Batch(
		writes.Creation(configMap("a", nil)), writes.Creation(func() {}), writes.Deletion(named("b")),
		writes.Merging(named("a"), object{"data": object{"x": "1"}}), writes.Stepping(named("a"), []writes.Step{{Op: "remove", Path: "/none"}}),
	)
	var made struct{ Metadata windlass.Metadata }
	if err := results[0].Into(&made); err != nil || made.Metadata.Name != "a" {
		t.Error(made, err)
	}
	equal(t, "what is no JSON", windlass.IsTerminal(results[1].Err), true)
	equal(t, "what is not there", windlass.IsNotFound(results[2].Err), true)
	equal(t, "a patch", results[3].Err, nil)
	equal(t, "a patch that does not fit", windlass.Is(results[4].Err, windlass.Invalid), true)
}

func TestScaleAndEvictWriteToSubresources(t *testing.T) {
	host := windlasstest.New(t)
	deployment := windlass.Ref{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "prod", Name: "web"}
	pod := windlass.Ref{APIVersion: "v1", Kind: "Pod", Namespace: "prod", Name: "web-1"}
	host.Put(
		object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": "web", "namespace": "prod"}, "spec": object{"replicas": 1}},
		object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "web-1", "namespace": "prod", "uid": "u-1"}},
	)
	equal(t, "scaling", writes.Scale(deployment, 3), nil)
	equal(t, "the replicas", host.Object(deployment)["spec"], object{"replicas": int64(3)})
	pod.UID = "u-1"
	equal(t, "an eviction", writes.Evict(pod), nil)
	equal(t, "the Pod", host.Object(pod), object(nil))
	equal(t, "its precondition", windlass.HasFields(host.Writes()[1].Body, object{"deleteOptions": object{"preconditions": object{"uid": "u-1"}}}), true)
}

func TestADryRunChangesNothing(t *testing.T) {
	host := windlasstest.New(t)
	if _, err := writes.Create(configMap("a", nil), writes.DryRun()); err != nil || host.Object(named("a")) != nil {
		t.Error(err, host.Object(named("a")))
	}
}

func TestAnObjectStaysWhileItHasFinalizers(t *testing.T) {
	host := windlasstest.New(t)
	held := configMap("a", nil)
	held["metadata"].(object)["finalizers"] = []any{"example.com/hold"}
	host.Put(held)
	left, err := writes.Delete(named("a"))
	equal(t, "a deletion", err, nil)
	equal(t, "whether it is there", len(left) > 0, true)
	equal(t, "the request", host.Request(named("a")).Deleting, true)
	_, err = writes.MergePatch[object](named("a"), object{"metadata": object{"finalizers": nil}})
	equal(t, "the patch", err, nil)
	equal(t, "whether it is gone", host.Object(named("a")), object(nil))
}

func TestOwnedWritesAndClaimsSetTheController(t *testing.T) {
	host := windlasstest.New(t)
	host.Put(object{"apiVersion": "example.com/v1", "kind": "Shop", "metadata": object{"name": "s", "namespace": "prod", "uid": "s-1"}})
	shop := windlass.Ref{APIVersion: "example.com/v1", Kind: "Shop", Namespace: "prod", Name: "s"}
	_, err := host.Reconcile(func(_ context.Context, request windlass.Request) (windlass.Outcome, error) {
		equal(t, "the UID", request.UID, "s-1")
		if _, err := writes.Apply(configMap("old", object{"app": "t"}), writes.Owned()); err != nil {
			return windlass.Done, err
		}
		host.Put(configMap("new", object{"app": "s"}))
		kind := windlass.Kind{APIVersion: "v1", Kind: "ConfigMap"}
		claimed, err := owners.Claim(kind, "app=s")
		equal(t, "what was adopted", claimed.Adopted[0].Name, "new")
		equal(t, "what was released", claimed.Released[0].Name, "old")
		type shape struct {
			Metadata struct{ OwnerReferences []windlass.OwnerReference }
		}
		owned, _ := cache.All(cache.List[shape](cache.Query{Kind: kind, Owned: true}))
		equal(t, "how many are owned", len(owned), 1)
		wanted := owners.Reference("example.com/v1", "Shop", windlass.Metadata{Name: "s", UID: "s-1"})
		equal(t, "the owner", owned[0].Metadata.OwnerReferences, []windlass.OwnerReference{wanted})
		return windlass.Done, err
	}, shop)
	equal(t, "the error", err, nil)
}

func TestARequestSetToFailFails(t *testing.T) {
	host := windlasstest.New(t)
	host.Fail("get", "ConfigMap", windlass.ServerError)
	host.Fail("", "", windlass.Timeout)
	_, err := cache.Get[object](named("a"))
	equal(t, "the first", windlass.Is(err, windlass.ServerError), true)
	_, err = cache.All(cache.List[object](cache.Query{Kind: windlass.Kind{APIVersion: "v1", Kind: "Pod"}}))
	equal(t, "any", windlass.Is(err, windlass.Timeout), true)
	_, err = cache.Get[object](named("a"))
	equal(t, "after them", err, nil)
	host.Fail("claim", "Pod", windlass.Forbidden)
	_, err = owners.Claim(windlass.Kind{APIVersion: "v1", Kind: "Pod"}, "a=b")
	equal(t, "a claim", windlass.Is(err, windlass.Forbidden), true)
}

func TestEventsAndMetricsAreRecorded(t *testing.T) {
	host := windlasstest.New(t)
	events.Warning("Broken", "Mend", "it is broken", events.About(named("a")), events.With(named("b")))
	about, with := named("a"), named("b")
	equal(t, "the event", host.Events(), []windlasstest.Event{
		{Warning: true, Reason: "Broken", Action: "Mend", Note: "it is broken", Regarding: &about, Related: &with},
	})
	metrics.Add("count", 1, metrics.Labels{"b": "2", "a": "1"})
	metrics.Set("level", 2, nil)
	metrics.Observe("size", 3, nil)
	equal(t, "the first metric", host.Metrics()[0], windlasstest.Metric{Verb: "add", Name: "count", Value: 1, Labels: map[string]string{"a": "1", "b": "2"}})
	equal(t, "the others", []string{host.Metrics()[1].Verb, host.Metrics()[2].Verb}, []string{"set", "observe"})
}

func TestTheTestSetsTimeRandomnessAndConfiguration(t *testing.T) {
	host := windlasstest.New(t)
	equal(t, "the time", clock.Now(), host.Time)
	one := random.Bytes(8)
	host.Seed = 1
	equal(t, "chance", random.Bytes(8), one)
	equal(t, "whether it goes on", reflect.DeepEqual(random.Bytes(8), one), false)
	_ = random.Uint32()
	host.Configure(object{"big": int64(9007199254740993)})
	got, err := config.Get[object]()
	equal(t, "the configuration", got, object{"big": int64(9007199254740993)})
	equal(t, "the error", err, nil)
	_, err = config.Get[[]int]()
	equal(t, "one that does not fit", windlass.IsTerminal(err), true)
}

func TestTheTestSetsTheTriggers(t *testing.T) {
	host := windlasstest.New(t)
	equal(t, "the triggers of a test that sets none", len(triggers.List()), 0)
	about := named("a")
	host.Triggers = []triggers.Trigger{{Reason: "Changed", Watch: "settings", Object: &about}, {Reason: "Resync"}}
	equal(t, "the triggers", triggers.List(), host.Triggers)
	slog.Info("reconciling", "because", triggers.List())
	equal(t, "their text", host.Lines()[0].Fields["because"], "[Changed ConfigMap prod/a Resync]")
}

func TestTheTestRespondsToHTTP(t *testing.T) {
	host := windlasstest.New(t)
	_, err := fetching.Fetch(fetching.Request{URL: "https://example.com"})
	var failed *fetching.Error
	equal(t, "without a grant", errors.As(err, &failed) && failed.Reason == "not-granted", true)
	var asked fetching.Request
	host.HTTP = func(request fetching.Request) (fetching.Response, error) {
		asked = request
		return fetching.Response{Status: 201, Headers: []fetching.Header{{Name: "etag", Value: "x"}}, Body: []byte("ok")}, nil
	}
	_, err = fetching.Fetch(fetching.Request{Method: "POST", URL: "https://example.com", Text: "ü"})
	equal(t, "the error", err, nil)
	equal(t, "what was asked", []string{asked.Method, asked.Text}, []string{"POST", "ü"})
	_, err = fetching.Fetch(fetching.Request{Method: "POST", URL: "https://example.com", Text: "\xff"})
	equal(t, "the error", err, nil)
	equal(t, "a text that is not UTF-8", []string{asked.Text, string(asked.Body)}, []string{"", "\xff"})
	_, err = fetching.Fetch(fetching.Request{URL: "https://example.com", Text: "a", Body: []byte{1}})
	equal(t, "two bodies", windlass.IsTerminal(err), true)

}

func TestAClientsErrorDoesNotShowTheQuery(t *testing.T) {
	windlasstest.New(t)
	over := client.New()
	request, _ := http.NewRequest("PUT", "https://me:secret@example.com/x?token=secret#secret", nil)
	for name, send := range map[string]func() (*http.Response, error){
		"Put":  func() (*http.Response, error) { return over.Do(request) },
		"Get":  func() (*http.Response, error) { return over.Get("https://example.com/x?token=secret") },
		"Head": func() (*http.Response, error) { return over.Head("https://me:secret@example.com/x") },
		"Post": func() (*http.Response, error) { return over.PostForm("https://example.com/x#secret", nil) },
	} {
		_, err := send()
		var failed *fetching.Error
		equal(t, "whether it is the host's error", errors.As(err, &failed), true)
		equal(t, "the text", err.Error(), fmt.Sprintf(`%s "https://example.com/x": %v`, name, failed))
	}
	_, err := over.Post("https://me:secret@exa mple.com?token=secret", "text/plain", nil)
	equal(t, "whether the text of a malformed URL has it", strings.Contains(err.Error(), "secret"), false)
	equal(t, "the request", request.URL.String(), "https://me:secret@example.com/x?token=secret#secret")
}

func TestTheClientUsesTheHost(t *testing.T) {
	host := windlasstest.New(t)
	var asked fetching.Request
	host.HTTP = func(request fetching.Request) (fetching.Response, error) {
		asked = request
		return fetching.Response{Status: 201, Headers: []fetching.Header{{Name: "etag", Value: "x"}}, Body: []byte("ok")}, nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, "PUT", "https://example.com/x", strings.NewReader("body"))
	request.Header.Add("b", "2")
	request.Header.Add("a", "1")
	response, err := client.New().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(response.Body)
	equal(t, "the response", []string{response.Status, response.Header.Get("ETag"), string(body)}, []string{"201 Created", "x", "ok"})
	equal(t, "the body that was sent", asked.Text, "body")
	equal(t, "the first header", asked.Headers[0], fetching.Header{Name: "A", Value: "1"})
	equal(t, "whether the deadline is the host's to keep", asked.Timeout > 0 && asked.Timeout <= time.Minute, true)
}

func TestLiveReadsHaveViewsAndParts(t *testing.T) {
	host := windlasstest.New(t)
	target := windlass.Ref{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "prod", Name: "d"}
	host.Put(object{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": "d", "namespace": "prod"},
		"spec": object{"replicas": 3, "paused": true},
	})
	if got, err := live.GetMetadata[object](target); err != nil || (*got)["spec"] != nil || (*got)["metadata"].(object)["uid"] == nil {
		t.Error(got, err)
	}
	if got, err := live.Get[object](target, "/spec/replicas"); err != nil || len((*got)["spec"].(object)) != 1 {
		t.Error(got, err)
	}
	scale, err := live.GetSubresource[object](target, "scale")
	if err != nil || (*scale)["kind"] != "Scale" || (*scale)["spec"].(object)["replicas"] != int64(3) {
		t.Error(scale, err)
	}
	kind := windlass.Kind{APIVersion: "apps/v1", Kind: "Deployment"}
	all, err := cache.All(live.List[object](live.Query{Kind: kind, Metadata: true}))
	if err != nil || len(all) != 1 || (*all[0])["spec"] != nil {
		t.Error(all, err)
	}
	served, err := live.Served(kind)
	if err != nil || served.Resource != "deployments" {
		t.Error(served, err)
	}
	host.Unserve(kind)
	if served, err = live.Served(kind); served != nil || err != nil {
		t.Error(served, err)
	}
}

func TestTheKindsInTheHostAreListedOnceByGroupAndKind(t *testing.T) {
	host := windlasstest.New(t)
	host.Define(`{"spec": {"group": "example.com", "names": {"kind": "Shop"}, "versions": [{"name": "v2"}, {"name": "v1"}]}}`)
	host.Put(
		object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "p"}},
		object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": "d"}}, configMap("a", nil), configMap("b", nil),
	)
	host.Unserve(windlass.Kind{APIVersion: "v1", Kind: "Pod"})
	kinds, err := live.Kinds()
	equal(t, "the error", err, nil)
	var listed []windlass.Kind
	for _, each := range kinds {
		listed = append(listed, each.Kind)
	}
	wanted := []windlass.Kind{
		{APIVersion: "v1", Kind: "ConfigMap"}, {APIVersion: "apps/v1", Kind: "Deployment"}, {APIVersion: "example.com/v1", Kind: "Shop"},
	}
	equal(t, "the kinds", listed, wanted)
	equal(t, "how one is served", kinds[0].Served.Resource, "configmaps")
	host.Fail("kinds", "", windlass.ServerError)
	_, err = live.Kinds()
	equal(t, "a failure", windlass.Is(err, windlass.ServerError), true)
}

func TestAWriteReturnsTheFieldsThatItNames(t *testing.T) {
	host := windlasstest.New(t)
	desired := configMap("a", object{"app": "web"})
	desired["data"] = object{"k": "v", "l": "w"}
	written, err := writes.Apply(desired, writes.Fields("/data/k"))
	equal(t, "the error", err, nil)
	equal(t, "the data", written["data"], object{"k": "v"})
	equal(t, "the labels", written["metadata"].(object)["labels"], nil)
	equal(t, "the stored data", host.Object(named("a"))["data"], object{"k": "v", "l": "w"})
	identity, err := writes.Apply(desired, writes.Fields())
	equal(t, "the error", err, nil)
	equal(t, "without fields", identity, object{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": object{"name": "a", "namespace": "prod", "uid": host.Object(named("a"))["metadata"].(object)["uid"]},
	})
	equal(t, "the record", host.Writes()[0].Options.Fields, []string{"/data/k"})
}

func TestTheTestSetsThePodLogs(t *testing.T) {
	host := windlasstest.New(t)
	pod := windlass.Ref{APIVersion: "v1", Kind: "Pod", Namespace: "prod", Name: "p"}
	if _, err := live.Log(pod, live.LogQuery{}); !windlass.Is(err, windlass.NotFound) {
		t.Error(err)
	}
	host.SetLog(pod, "one\ntwo\nthree\n")
	log, err := live.Log(pod, live.LogQuery{TailLines: 2})
	if log != "two\nthree\n" || err != nil {
		t.Error(log, err)
	}
	if log, err = live.Log(pod, live.LogQuery{LimitBytes: 5}); log != "one\nt" || err != nil {
		t.Error(log, err)
	}
}

func TestAReviewIsAnsweredAndACollectionIsDeleted(t *testing.T) {
	host := windlasstest.New(t)
	host.Answer("SubjectAccessReview", object{"status": object{"allowed": true}})
	review := object{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": object{}}
	answer, err := writes.Create(review)
	if err != nil || answer["status"].(object)["allowed"] != true {
		t.Error(answer, err)
	}
	host.Put(configMap("a", object{"app": "web"}), configMap("b", object{"app": "web"}), configMap("c", object{}))
	kind := windlass.Kind{APIVersion: "v1", Kind: "ConfigMap"}
	if _, err := writes.DeleteCollection(writes.Collection{Kind: kind}); !windlass.Is(err, windlass.Invalid) {
		t.Error(err)
	}
	deleted, err := writes.DeleteCollection(writes.Collection{Kind: kind, Namespace: "prod", LabelSelector: "app=web"})
	if err != nil || len(deleted) != 2 || host.Object(named("a")) != nil || host.Object(named("c")) == nil {
		t.Error(deleted, err)
	}
	if _, err := writes.Apply(configMap("d", nil), writes.ManagerSuffix("tls")); err != nil {
		t.Error(err)
	}
	made := host.Writes()
	equal(t, "the suffix", made[len(made)-1].Options.ManagerSuffix, "tls")
}

func TestEvictingAMissingPodSucceeds(t *testing.T) {
	host := windlasstest.New(t)
	pod := windlass.Ref{APIVersion: "v1", Kind: "Pod", Namespace: "prod", Name: "p"}
	if err := writes.Evict(pod); err != nil {
		t.Error(err)
	}
	host.Fail("create", "Eviction", windlass.TooManyRequests)
	if err := writes.Evict(pod); !windlass.Is(err, windlass.TooManyRequests) {
		t.Error(err)
	}
}
