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
	}
}

// named is an object that names a primary.
type named struct {
	Data struct{ Primary string }
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
