package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"windlass.dev/sdk"
)

// The tests of the pure parts: which sources concern a workload, what has changed, and the patch.

var now = time.Date(2026, 11, 21, 10, 48, 45, 0, time.UTC)

// app is a ConfigMap, and db a Secret.
var app, db = Ref{ConfigMap, "app"}, Ref{Secret, "db"}

func equal(t *testing.T, what string, got, wanted any) {
	t.Helper()
	if !reflect.DeepEqual(got, wanted) {
		t.Errorf("%s: %v, wanted %v", what, got, wanted)
	}
}

// workloadOf reads a workload with these annotations, and with a template that uses app in its first container and db
// in its second one.
func workloadOf(annotations map[string]string) *Workload {
	const template = `{"spec": {
		"initContainers": [{"name": "prepare", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "early"}}}],
			"volumeMounts": [{"name": "for-init"}]}],
		"containers": [
			{"name": "web", "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "app"}}}, {"name": "B"}]},
			{"name": "proxy", "volumeMounts": [{"name": "keys"}]}
		],
		"volumes": [
			{"name": "keys", "projected": {"sources": [{"secret": {"name": "db"}}, {"serviceAccountToken": {}}]}},
			{"name": "unused", "secret": {"secretName": "spare"}},
			{"name": "for-init", "secret": {"secretName": "first"}}
		]
	}}`
	workload := &Workload{APIVersion: "apps/v1", Kind: deployment}
	workload.Metadata = windlass.Metadata{Name: "web", Namespace: "shop", Annotations: annotations}
	if err := json.Unmarshal([]byte(template), &workload.Spec.Template); err != nil {
		panic(err)
	}
	return workload
}

func sourceWith(annotations map[string]string) *Source {
	return &Source{Metadata: windlass.Metadata{Annotations: annotations}}
}

func TestReferencesAreFoundEverywhereInATemplate(t *testing.T) {
	spec := workloadOf(nil).Spec.Template.Spec
	equal(t, "the references", spec.references(), refs{app: true, db: true, {Secret, "early"}: true, {Secret, "first"}: true})
	equal(t, "the users of app", spec.users(app), []int{0})
	equal(t, "the users of db", spec.users(db), []int{1})
	if users := spec.users(Ref{Secret, "spare"}); users != nil {
		t.Errorf("%v use a volume that no container mounts", users)
	}
}

func TestAnnotationsSayWhichSourcesConcernAWorkload(t *testing.T) {
	const reloadSecrets, exclude = "secret.reloader.stakater.com/reload", "configmaps.exclude.reloader.stakater.com/reload"
	all := Settings{AutoReloadAll: true}
	for what, it := range map[string]struct {
		annotations map[string]string
		settings    Settings
		// of app and of db, which the workload uses, and of a Secret key-1, which it does not use.
		wanted [3]bool
	}{
		"none":                        {nil, Settings{}, [3]bool{}},
		"auto":                        {map[string]string{auto: "true"}, Settings{}, [3]bool{true, true, false}},
		"auto for Secrets":            {map[string]string{"secret.reloader.stakater.com/auto": "true"}, Settings{}, [3]bool{false, true, false}},
		"one auto of two is enough":   {map[string]string{auto: "false", "configmap.reloader.stakater.com/auto": "true"}, Settings{}, [3]bool{true, false, false}},
		"names":                       {map[string]string{reloadSecrets: " db ,x"}, Settings{}, [3]bool{false, true, false}},
		"a pattern":                   {map[string]string{reloadSecrets: "key-[0-9]|x"}, Settings{}, [3]bool{false, false, true}},
		"a pattern for a whole name":  {map[string]string{reloadSecrets: "ke[y]"}, Settings{}, [3]bool{}},
		"ends bind closer than or":    {map[string]string{reloadSecrets: "ke|y"}, Settings{}, [3]bool{false, false, true}},
		"names beside auto: false":    {map[string]string{auto: "false", reloadSecrets: "key-1"}, Settings{}, [3]bool{false, false, true}},
		"an exclusion":                {map[string]string{auto: "true", exclude: "x, app"}, Settings{}, [3]bool{false, true, false}},
		"an exclusion is a name":      {map[string]string{auto: "true", exclude: "ap."}, Settings{}, [3]bool{true, true, false}},
		"auto for all":                {nil, all, [3]bool{true, true, false}},
		"auto for all but this":       {map[string]string{auto: "false"}, all, [3]bool{}},
		"auto for all but Secrets":    {map[string]string{"secret.reloader.stakater.com/auto": "false"}, all, [3]bool{true, false, false}},
		"an unreadable opt-out":       {map[string]string{auto: "never"}, all, [3]bool{}},
		"an empty opt-out":            {map[string]string{auto: ""}, all, [3]bool{true, true, false}},
		"another spelling of true":    {map[string]string{auto: "True"}, Settings{}, [3]bool{true, true, false}},
		"1 for Secrets":               {map[string]string{"secret.reloader.stakater.com/auto": "1"}, Settings{}, [3]bool{false, true, false}},
		"search without a match":      {map[string]string{search: "true"}, Settings{}, [3]bool{}},
		"auto wins over search":       {map[string]string{auto: "true", search: "true"}, Settings{}, [3]bool{true, true, false}},
		"Secrets are ignored":         {map[string]string{auto: "true", reloadSecrets: "key-1"}, Settings{ResourcesToIgnore: []string{"secrets"}}, [3]bool{true, false, false}},
		"search, ConfigMaps ignored":  {map[string]string{search: "true"}, Settings{ResourcesToIgnore: []string{"configMaps"}}, [3]bool{}},
		"configmaps in lower case":    {map[string]string{auto: "true"}, Settings{ResourcesToIgnore: []string{"configmaps"}}, [3]bool{false, true, false}},
		"values other than true":      {map[string]string{auto: "yes", search: "1"}, Settings{}, [3]bool{}},
		"an empty list":               {map[string]string{reloadSecrets: " , "}, Settings{}, [3]bool{}},
		"a mistake beside a name":     {map[string]string{reloadSecrets: "(,db"}, Settings{}, [3]bool{false, true, false}},
		"an exclusion beats the name": {map[string]string{reloadSecrets: "db", "secrets.exclude.reloader.stakater.com/reload": "db"}, Settings{}, [3]bool{}},
	} {
		rules := rulesOf(workloadOf(it.annotations), &it.settings)
		got := [3]bool{
			rules.concern(app, sourceWith(nil), true, false), rules.concern(db, sourceWith(nil), true, false),
			rules.concern(Ref{Secret, "key-1"}, sourceWith(nil), false, false),
		}
		equal(t, what, got, it.wanted)
	}
}

func TestTheTemplateChoosesOnlyIfTheWorkloadDoesNot(t *testing.T) {
	const autoSecrets, exclude = "secret.reloader.stakater.com/auto", "configmaps.exclude.reloader.stakater.com/reload"
	for what, it := range map[string]struct {
		onWorkload, onTemplate map[string]string
		// of app and of db.
		wanted [2]bool
	}{
		"only the template":              {nil, map[string]string{auto: "true"}, [2]bool{true, true}},
		"the workload opts out":          {map[string]string{auto: "false"}, map[string]string{auto: "true"}, [2]bool{}},
		"another choice of the workload": {map[string]string{search: "false"}, map[string]string{auto: "true"}, [2]bool{}},
		"a choice for the other kind":    {map[string]string{autoSecrets: "false"}, map[string]string{auto: "true"}, [2]bool{true, false}},
		"an exclusion on the template":   {nil, map[string]string{auto: "true", exclude: "app"}, [2]bool{true, true}},
		"an exclusion on the workload":   {map[string]string{exclude: "app"}, map[string]string{auto: "true"}, [2]bool{false, true}},
	} {
		workload := workloadOf(it.onWorkload)
		workload.Spec.Template.Metadata.Annotations = it.onTemplate
		rules := rulesOf(workload, &Settings{})
		got := [2]bool{rules.concern(app, sourceWith(nil), true, false), rules.concern(db, sourceWith(nil), true, false)}
		equal(t, what, got, it.wanted)
	}
	workload := workloadOf(nil)
	workload.Spec.Template.Metadata.Annotations = map[string]string{pausePeriod: "5m"}
	period, err := pausePeriodOf(workload)
	equal(t, "a pause period on the template", period, time.Duration(0))
	equal(t, "its error", err, error(nil))
}

func TestSourcesChooseByMatchAndIgnore(t *testing.T) {
	rules := rulesOf(workloadOf(map[string]string{search: "true"}), &Settings{})
	matching := sourceWith(map[string]string{match: "true"})
	equal(t, "a match", rules.concern(app, matching, true, false), true)
	equal(t, "a match that is not used", rules.concern(app, matching, false, false), false)
	equal(t, "a match that is gone", rules.concern(app, nil, true, true), true)
	equal(t, "a source that never was", rules.concern(app, nil, true, false), false)
	rules = rulesOf(workloadOf(map[string]string{auto: "true"}), &Settings{})
	equal(t, "an ignored source", rules.concern(app, sourceWith(map[string]string{ignore: "true"}), true, false), false)
}

func TestOnlyAKnownSourceCanChange(t *testing.T) {
	create, remove := Settings{ReloadOnCreate: true}, Settings{ReloadOnDelete: true}
	for what, it := range map[string]struct {
		before   Seen
		state    string
		settings Settings
		after    Seen
		changed  bool
	}{
		"first sight":                  {Seen{}, "1", Settings{}, Seen{"ConfigMap/app": "1"}, false},
		"first sight of none":          {Seen{}, "", Settings{}, Seen{}, false},
		"no change":                    {Seen{"ConfigMap/app": "1"}, "1", Settings{}, Seen{"ConfigMap/app": "1"}, false},
		"a change":                     {Seen{"ConfigMap/app": "1"}, "2", Settings{}, Seen{"ConfigMap/app": "2"}, true},
		"a deletion":                   {Seen{"ConfigMap/app": "1"}, "", Settings{}, Seen{"ConfigMap/app": "1"}, false},
		"a deletion that counts":       {Seen{"ConfigMap/app": "1"}, "", remove, Seen{}, true},
		"a missing source":             {Seen{}, "", create, Seen{"ConfigMap/app": missing}, false},
		"still missing":                {Seen{"ConfigMap/app": missing}, "", create, Seen{"ConfigMap/app": missing}, false},
		"created":                      {Seen{"ConfigMap/app": missing}, "1", create, Seen{"ConfigMap/app": "1"}, true},
		"created, not to count":        {Seen{"ConfigMap/app": missing}, "1", Settings{}, Seen{"ConfigMap/app": "1"}, false},
		"missing, then of no interest": {Seen{"ConfigMap/app": missing}, "", remove, Seen{}, false},
	} {
		after, changes := it.before.compare(States{app: it.state}, &it.settings)
		equal(t, what, after, it.after)
		equal(t, what, len(changes) == 1, it.changed)
	}
	after, changes := Seen{"Secret/db": "1"}.compare(States{}, &Settings{})
	if len(after) != 0 || len(changes) != 0 {
		t.Errorf("a source that no longer concerns the workload is kept: %v, %v", after, changes)
	}
}

func TestADamagedOrUnknownAnnotationCountsAsNone(t *testing.T) {
	for _, text := range []string{
		"", "{", "[1]", `{"ConfigMap/app": "1"}`, `{"version":2,"sources":{"ConfigMap/app":1}}`, `{"version":1,"sources":{"ConfigMap/app":"1"}}`,
		`{"version":2,"keyID":"01234567","sources":{"ConfigMap/app":"1"}}`,
	} {
		if seenBefore := seenBy(workloadOf(map[string]string{seen: text}), &Settings{}); len(seenBefore.refs()) != 0 {
			t.Errorf("%s: %v", text, seenBefore)
		}
	}
}

func TestChangesWaitForTheEndOfThePausePeriod(t *testing.T) {
	states, known := States{app: "2", db: "1"}, Seen{"ConfigMap/app": "1"}.text(&Settings{})
	begin := now.Add(-time.Minute).Format(time.RFC3339)
	plan := decide(workloadOf(map[string]string{seen: known}), states, &Settings{}, time.Hour, now)
	wanted := map[string]string{changedAt: now.Format(time.RFC3339), seen: Seen{"ConfigMap/app": "1", "Secret/db": "1"}.text(&Settings{})}
	equal(t, "the begin", plan, Plan{annotations: wanted, again: time.Hour})

	workload := workloadOf(map[string]string{seen: known, changedAt: begin})
	plan = decide(workload, states, &Settings{}, time.Hour, now)
	equal(t, "the wait", plan.again, 59*time.Minute)
	equal(t, "the begin stays", plan.annotations[changedAt], begin)

	plan = decide(workload, states, &Settings{}, time.Minute, now)
	after := map[string]string{changedAt: "", seen: Seen{"ConfigMap/app": "2", "Secret/db": "1"}.text(&Settings{})}
	equal(t, "the end", plan, Plan{annotations: after, reloads: []Change{{app, "2"}}})

	plan = decide(workload, States{app: "1"}, &Settings{}, time.Hour, now)
	equal(t, "a change that was taken back", plan, Plan{annotations: map[string]string{changedAt: "", seen: known}})

	workload.Metadata.Annotations[changedAt] = now.Add(time.Minute).Format(time.RFC3339)
	plan = decide(workload, states, &Settings{}, time.Hour, now)
	equal(t, "a clock that was set back", len(plan.reloads), 1)
}

func TestOnlyAPauseOfTheOriginalIsEnded(t *testing.T) {
	begin := now.Add(-time.Minute).Format(time.RFC3339)
	for what, it := range map[string]struct {
		kind, begin string
		paused      bool
		period      time.Duration
		resumes     bool
		again       time.Duration
	}{
		"over":                 {deployment, begin, true, time.Minute, true, 0},
		"not over":             {deployment, begin, true, time.Hour, false, 59 * time.Minute},
		"without a period":     {deployment, begin, true, 0, false, 0},
		"with a damaged begin": {deployment, "now", true, time.Hour, true, 0},
		"already resumed":      {deployment, begin, false, time.Hour, false, 0},
		"of another user":      {deployment, "", true, time.Minute, false, 0},
		"of another kind":      {"DaemonSet", begin, true, time.Minute, false, 0},
	} {
		workload := workloadOf(map[string]string{})
		workload.Kind, workload.Spec.Paused = it.kind, it.paused
		if it.begin != "" {
			workload.Metadata.Annotations[pausedAt] = it.begin
		}
		plan := decide(workload, nil, &Settings{}, it.period, now)
		equal(t, what, plan.resumes, it.resumes)
		equal(t, what, plan.again, it.again)
	}
}

func TestAPausePeriodIsADurationAboveZero(t *testing.T) {
	for text, wanted := range map[string]time.Duration{"": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute} {
		period, err := pausePeriodOf(workloadOf(map[string]string{pausePeriod: text}))
		if err != nil || period != wanted {
			t.Errorf("%s: %v, %v", text, period, err)
		}
	}
	for _, text := range []string{"5", "-5m", "0s", "soon"} {
		if period, err := pausePeriodOf(workloadOf(map[string]string{pausePeriod: text})); err == nil || period != 0 {
			t.Errorf("%s: %v", text, period)
		}
	}
}

func TestVariablesHaveTheNamesOfTheOriginal(t *testing.T) {
	for name, wanted := range map[string]string{
		"app": "STAKATER_APP_CONFIGMAP", "elasticsearch-node0-cert": "STAKATER_ELASTICSEARCH_NODE0_CERT_CONFIGMAP",
		"a.b--c": "STAKATER_A_B_C_CONFIGMAP",
	} {
		equal(t, name, variable(Ref{ConfigMap, name}), wanted)
	}
	equal(t, "a Secret", variable(db), "STAKATER_DB_SECRET")
}

func TestAVariableIsSetWhereItIsOrWhereItsSourceIsUsed(t *testing.T) {
	workload := workloadOf(nil)
	plan := Plan{reloads: []Change{{app, "1"}, {db, "2"}, {Ref{Secret, "unused"}, ""}, {db, "3"}}}
	text, err := json.Marshal(plan.patch(workload, &Settings{}, now))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "the patch", string(text), `[`+
		`{"op":"add","path":"/spec/template/spec/containers/0/env/-","value":{"name":"STAKATER_APP_CONFIGMAP","value":"1"}},`+
		`{"op":"add","path":"/spec/template/spec/containers/1/env","value":[{"name":"STAKATER_DB_SECRET","value":"2"}]},`+
		`{"op":"add","path":"/spec/template/spec/containers/0/env/-","value":{"name":"STAKATER_UNUSED_SECRET","value":"deleted"}},`+
		`{"op":"add","path":"/spec/template/spec/containers/1/env/0/value","value":"3"}]`)
}

func TestAnAnnotationOfTheTemplateNamesTheFirstChange(t *testing.T) {
	plan := Plan{reloads: []Change{{db, "1"}, {app, "2"}}}
	steps := plan.patch(workloadOf(nil), &Settings{ReloadStrategy: "annotations"}, now)
	equal(t, "the number of steps", len(steps), 2)
	equal(t, "the path", steps[1].Path, "/spec/template/metadata/annotations/reloader.stakater.com~1last-reloaded-from")
	equal(t, "the value", steps[1].Value, any(`{"type":"SECRET","name":"db","namespace":"shop","hash":"1",`+
		`"containerRefs":["proxy"],"observedAt":1795258125}`))
}

func TestOnlyAnnotationsThatDifferAreWritten(t *testing.T) {
	before := map[string]string{"a": "1", "b": "2", "c": "3"}
	steps := annotate("/metadata", before, map[string]string{"a": "1", "b": "", "c": "4", "d": ""})
	var paths []string
	for _, step := range steps {
		paths = append(paths, step.Op+" "+step.Path)
	}
	equal(t, "the steps", paths, []string{"remove /metadata/annotations/b", "add /metadata/annotations/c"})
	if steps := annotate("/metadata", nil, map[string]string{"a": ""}); steps != nil {
		t.Errorf("%v", steps)
	}
}

func TestTheProjectionHasAllThatReferencesNeed(t *testing.T) {
	for _, field := range []string{
		"/spec/template/spec/containers/*/env/*/valueFrom/configMapKeyRef/name", "/spec/template/spec/volumes/*/secret/secretName",
		"/spec/template/spec/initContainers/*/envFrom/*/secretRef/name", "/spec/template/spec/volumes/*/projected/sources/*/configMap/name",
	} {
		if !slices.Contains(workloadFields(), field) {
			t.Errorf("%s is not in the cache", field)
		}
	}
	// The cache also keeps the fields of predicates and indexes.
	document, err := json.Marshal(plugin)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{`"/spec/template"`, `/env/*/value"`, `/env/*"`} {
		if strings.Contains(string(document), field) {
			t.Errorf("the cache keeps the values of variables: %s", field)
		}
	}
}

func TestStatesDependOnThePlaceAndOnTheKey(t *testing.T) {
	source := &Source{Digest: "sha256:" + strings.Repeat("a", 64)}
	plain, keyed := &Settings{}, &Settings{DigestKey: strings.Repeat("k", 32)}
	states := map[string]bool{
		plain.stateOf(app, "shop", source): true, plain.stateOf(app, "other", source): true, plain.stateOf(db, "shop", source): true,
		keyed.stateOf(app, "shop", source): true, keyed.stateOf(app, "shop", &Source{Digest: "sha256:b"}): true,
	}
	equal(t, "the number of different states", len(states), 5)
	equal(t, "a second time", states[keyed.stateOf(app, "shop", source)], true)
	equal(t, "the digits", len(plain.stateOf(app, "shop", source)), digestDigits)
	equal(t, "a source that does not exist", keyed.stateOf(app, "shop", nil), "")
	workload := workloadOf(map[string]string{seen: Seen{"ConfigMap/app": "1"}.text(keyed)})
	equal(t, "seen with this key", len(seenBy(workload, keyed)), 1)
	equal(t, "seen with another key", len(seenBy(workload, plain)), 0)
}

func TestTheVersionOfSeenBelongsToWhatDigestsAreMadeOf(t *testing.T) {
	var projections []string
	for _, controller := range plugin.Controllers {
		for _, watch := range controller.Watches[:2] {
			text, err := json.Marshal(watch.Projection)
			if err != nil {
				t.Fatal(err)
			}
			projections = append(projections, string(text))
		}
	}
	configMaps, secrets := `{"pointers":["/data","/binaryData"],"type":"digest"}`, `{"pointers":["/data"],"type":"digest"}`
	// If this fails, raise seenVersion and correct this test. Otherwise an upgrade replaces the Pods of all workloads.
	equal(t, "the projections", projections, slices.Repeat([]string{configMaps, secrets}, len(plugin.Controllers)))
	equal(t, "the number of digits", digestDigits, 40)
	state := (&Settings{DigestKey: "k"}).stateOf(app, "shop", &Source{Digest: "sha256:00"})
	equal(t, "a state", state, "ca708dfc1c5b742c5d8dc64e913a710032de72d5")
	equal(t, "the version", seenVersion, 2)
}

func TestSourcesThatSeenHasNoRoomForAreLeftOut(t *testing.T) {
	states := States{db: strings.Repeat("a", digestDigits)}
	for number := range 5000 {
		states[Ref{ConfigMap, fmt.Sprintf("app-%d", number)}] = strings.Repeat("a", digestDigits)
	}
	removed := states.limit(refs{db: true})
	equal(t, "the number of sources", removed+len(states), 5001)
	equal(t, "whether some are left out", removed > 0, true)
	equal(t, "whether a source that is used stays", states[db] != "", true)
	after, _ := Seen{}.compare(states, &Settings{})
	equal(t, "whether the annotation fits", len(after.text(&Settings{})) <= seenSizeMax+100, true)
	equal(t, "a second time", states.limit(refs{db: true}), 0)
}
