package main

import (
	"context"
	"errors"

	"windlass.dev/conformance/pure"
	"windlass.dev/sdk"
	"windlass.dev/sdk/cache"
)

// changed is an object of the watch `mapped`, whose events the probe's own mapper handles. Its spec lists the affected
// primaries.
type changed struct {
	Spec struct {
		Targets []struct {
			Namespace, Name string
			Index, Value    string
		}
		Target    *pure.Target
		TellWatch bool
		Fail      string
		Raise     string
		// Matches is the name of the watch for which the change counts; nil if it counts for every watch.
		Matches      *string
		FailMatches  string
		RaiseMatches string
	}
}

// named is an object that names a primary.
type named struct {
	Data struct{ Primary string }
}

// matched reports whether a change counts: the last of its states says so.
func matched(_ context.Context, change windlass.Change) (bool, error) {
	states, err := windlass.States[changed](change)
	if err != nil {
		return false, err
	}
	counts := true
	for _, state := range states {
		switch {
		case state.Spec.FailMatches != "":
			return false, errors.New(state.Spec.FailMatches)
		case state.Spec.RaiseMatches != "":
			pure.Raise(state.Spec.RaiseMatches)
		}
		counts = state.Spec.Matches == nil || *state.Spec.Matches == change.Watch
	}
	return counts, nil
}

func mapped(_ context.Context, change windlass.Change) ([]windlass.Target, error) {
	states, err := windlass.States[changed](change)
	if err != nil {
		return nil, err
	}
	var targets []windlass.Target
	for _, state := range states {
		switch {
		case state.Spec.Fail != "":
			return nil, errors.New(state.Spec.Fail)
		case state.Spec.Raise != "":
			pure.Raise(state.Spec.Raise)
		}
		for _, target := range state.Spec.Targets {
			if target.Index != "" {
				targets = append(targets, windlass.Indexed(target.Index, target.Value))
			} else {
				targets = append(targets, windlass.Primary(target.Namespace, target.Name))
			}
		}
		if target := state.Spec.Target; target != nil {
			read, err := cache.Get[named](target.Ref())
			if err != nil {
				return nil, err
			}
			if read != nil {
				targets = append(targets, windlass.Primary("prod", read.Data.Primary))
			}
		}
		if state.Spec.TellWatch {
			targets = append(targets, windlass.Indexed("watch", change.Watch))
		}
	}
	return targets, nil
}
