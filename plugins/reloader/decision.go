package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// What follows for a workload from the states of its sources. Pure: nothing here calls the host.

// digestDigits is how many digits of a digest are kept: as many as the original's have.
const digestDigits = 40

// States are the digests of the sources that concern a workload. A source that does not exist has an empty one.
type States map[Ref]string

// Seen is the content of the annotation `seen`: digests, or missing, by the texts of refs.
type Seen map[string]string

// seenVersion stands for what digests are computed from. A change of the pointers in `sources`, of `stateOf` or of
// digestDigits raises it. Digests of other versions, or of other keys, cannot be compared: a comparison would replace
// the Pods of all workloads.
const seenVersion = 2

// seenSizeMax is the maximum size of `seen`, in bytes: half of what the API server admits for all annotations of an
// object. It would refuse the whole patch.
const seenSizeMax = 128 << 10

// seenRecord is the annotation `seen`, as JSON.
type seenRecord struct {
	Version int `json:"version"`
	// KeyID names the key of the digests; empty if they have none.
	KeyID   string `json:"keyID,omitempty"`
	Sources Seen   `json:"sources"`
}

// missing is in Seen for a source that did not exist.
const missing = "missing"

// seenBy reads the annotation. A damaged one, and one of another version or key, count as none.
func seenBy(workload *Workload, settings *Settings) Seen {
	var record seenRecord
	err := json.Unmarshal([]byte(workload.Metadata.Annotations[seen]), &record)
	if err != nil || record.Version != seenVersion || record.KeyID != settings.keyID() {
		return nil
	}
	return record.Sources
}

// refs returns the sources of which the annotation knows.
func (it Seen) refs() []Ref {
	var all []Ref
	for text := range it {
		if kind, name, _ := strings.Cut(text, "/"); name != "" {
			all = append(all, Ref{Kind(kind), name})
		}
	}
	return all
}

func (it Seen) text(settings *Settings) string {
	if len(it) == 0 {
		return ""
	}
	text, err := json.Marshal(seenRecord{seenVersion, settings.keyID(), it})
	if err != nil {
		panic(fmt.Sprint("texts can be written: ", err))
	}
	return string(text)
}

// limit removes sources that `seen` has no room for, and returns their number. It keeps the sources that the Pods use
// before those that only a name or a pattern fits.
func (states States) limit(used refs) (removed int) {
	all := refs{}
	for ref := range states {
		all[ref] = true
	}
	order := all.sorted()
	slices.SortStableFunc(order, func(a, b Ref) int {
		switch {
		case used[a] == used[b]:
			return 0
		case used[a]:
			return -1
		default:
			return 1
		}
	})
	size := 0
	for _, ref := range order {
		if size += len(`"":"",`) + len(ref.String()) + digestDigits; size > seenSizeMax {
			delete(states, ref)
			removed++
		}
	}
	return removed
}

// Change is a source whose change reloads a workload.
type Change struct {
	ref Ref
	// digest is empty if the source was deleted.
	digest string
}

// compare returns the changes since the workload was last reloaded, and what it has seen after a reload. A source of
// which the annotation knows nothing has not changed: the workload may have been started with it.
func (before Seen) compare(states States, settings *Settings) (after Seen, changes []Change) {
	after = Seen{}
	all := refs{}
	for ref := range states {
		all[ref] = true
	}
	for _, ref := range all.sorted() {
		was, isKnown := before[ref.String()]
		now := states[ref]
		switch {
		case now != "":
			after[ref.String()] = now
			if isKnown && was != now && (was != missing || settings.ReloadOnCreate) {
				changes = append(changes, Change{ref, now})
			}
		case isKnown && was != missing && !settings.ReloadOnDelete:
			// If it comes back with other data, this is a change.
			after[ref.String()] = was
		default:
			if isKnown && was != missing {
				changes = append(changes, Change{ref, ""})
			}
			if settings.ReloadOnCreate {
				after[ref.String()] = missing
			}
		}
	}
	return after, changes
}

// Plan is what to do about a workload.
type Plan struct {
	// annotations are the new values of annotations. An empty value stands for none.
	annotations map[string]string
	// reloads are the changes that the Pods are to be replaced for.
	reloads []Change
	// resumes is true if the original has paused the Deployment, and its pause is over.
	resumes bool
	// again is when to look again; zero if only after a change.
	again time.Duration
}

func decide(workload *Workload, states States, settings *Settings, period time.Duration, now time.Time) Plan {
	before := seenBy(workload, settings)
	after, changes := before.compare(states, settings)
	plan := Plan{annotations: map[string]string{changedAt: ""}, reloads: changes}
	if len(changes) > 0 && period > 0 {
		begin := workload.Metadata.Annotations[changedAt]
		if _, err := time.Parse(time.RFC3339, begin); err != nil {
			begin = now.Format(time.RFC3339)
		}
		if left := left(begin, period, now); left > 0 {
			plan.wait(left)
			plan.annotations[changedAt] = begin
			plan.reloads = nil
			for _, change := range changes {
				after[change.ref.String()] = before[change.ref.String()]
			}
		}
	}
	plan.annotations[seen] = after.text(settings)
	plan.endPause(workload, period, now)
	return plan
}

// endPause ends a pause of the original when its period is over. Nothing else would end it once the original is gone.
// The original itself ends no pause without a period that can be read, so a user has to. Other pauses are not touched,
// and neither are Deployments of namespaces that are not selected, since their period is zero.
func (plan *Plan) endPause(workload *Workload, period time.Duration, now time.Time) {
	begin := workload.Metadata.Annotations[pausedAt]
	if begin == "" || period == 0 || workload.Kind != deployment {
		return
	}
	if left := left(begin, period, now); workload.Spec.Paused && left > 0 {
		plan.wait(left)
		return
	}
	plan.resumes = workload.Spec.Paused
	plan.annotations[pausedAt] = ""
}

func (plan *Plan) wait(left time.Duration) {
	if plan.again == 0 || left < plan.again {
		plan.again = left
	}
}

// left returns how much is left of a period. If its begin cannot be read, or lies ahead since a clock was set back, the
// period is over.
func left(begin string, period time.Duration, now time.Time) time.Duration {
	at, err := time.Parse(time.RFC3339, begin)
	if err != nil || at.After(now) {
		return 0
	}
	return max(at.Add(period).Sub(now), 0)
}

// pausePeriodOf returns the pause period of a Deployment; zero if it has none. If the annotation cannot be read, it
// returns an error.
func pausePeriodOf(workload *Workload) (time.Duration, error) {
	text := workload.Metadata.Annotations[pausePeriod]
	if text == "" || workload.Kind != deployment {
		return 0, nil
	}
	period, err := time.ParseDuration(text)
	if err != nil || period <= 0 {
		return 0, fmt.Errorf("%s has %q, which is no duration above zero, such as 30s or 5m", pausePeriod, text)
	}
	return period, nil
}
