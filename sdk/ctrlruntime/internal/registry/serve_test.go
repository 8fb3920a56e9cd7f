package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/controller-runtime/internal/kinds"
	"sigs.k8s.io/controller-runtime/internal/shop"
	"sigs.k8s.io/controller-runtime/internal/watching"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	windlass "windlass.dev/sdk"
	"windlass.dev/sdk/windlasstest"
)

// added returns the manifest's name of the only controller, which watches items with this predicate and map function.
func added(t *testing.T, reconciler reconcile.Reconciler, judge func() bool, mapped handler.MapFunc) string {
	t.Helper()
	Reset()
	t.Cleanup(Reset)
	kinds.Reset()
	t.Cleanup(kinds.Reset)
	scheme := runtime.NewScheme()
	if err := shop.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	items := watching.Of[client.Object](
		&shop.Item{}, handler.EnqueueRequestsFromMapFunc(mapped), predicate.NewPredicateFuncs(func(client.Object) bool { return judge() }),
	)
	controller := &Controller{
		Name: "shop", Scheme: scheme, Reconciler: reconciler,
		Primary: watching.Of[client.Object](&shop.Shop{}, &handler.EnqueueRequestForObject{}), Watches: []*watching.Watch{items},
	}
	if err := Add(controller); err != nil {
		t.Fatal(err)
	}
	made, err := complete()
	if err != nil {
		t.Fatal(err)
	}
	return made.Controllers[0].Watches[0].Name
}

func TestAFailedReadInAMapFunctionOrAPredicateFailsIt(t *testing.T) {
	host := windlasstest.New(t)
	var c client.Client
	var readsList bool
	read := func() bool {
		if readsList {
			return c.List(context.Background(), &shop.CityList{}) == nil
		}
		return client.IgnoreNotFound(c.Get(context.Background(), client.ObjectKey{Name: "vienna"}, &shop.City{})) == nil
	}
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "prod", Name: "a"}}
	watch := added(t, nil, read, func(context.Context, client.Object) []reconcile.Request {
		if !read() {
			return nil
		}
		return []reconcile.Request{request}
	})
	c, err := client.NewCached(client.Options{Scheme: current.controllers[0].Scheme})
	if err != nil {
		t.Fatal(err)
	}
	item := windlass.Object{"apiVersion": "example.com/v1", "kind": "Item", "metadata": windlass.Object{"name": "i"}}
	change := windlasstest.Change(watch, nil, item)
	for _, readsList = range []bool{false, true} {
		host.FailWith("", "City", 2, &windlass.APIError{Reason: windlass.NotWatched})
		if targets, err := Mapped(context.Background(), change); !windlass.Is(err, windlass.NotWatched) || !strings.Contains(err.Error(), "handler") {
			t.Error(targets, err)
		}
		if counts, err := Counts(context.Background(), change); !windlass.Is(err, windlass.NotWatched) || !counts {
			t.Error(counts, err)
		}
		// The earlier failure does not affect the next change, and a missing object is no failure.
		if targets, err := Mapped(context.Background(), change); err != nil || len(targets) != 1 {
			t.Error(targets, err)
		}
		if counts, err := Counts(context.Background(), change); err != nil || !counts {
			t.Error(counts, err)
		}
	}
}

func TestAWaitIsWarnedOf(t *testing.T) {
	t.Cleanup(func() { now = time.Now })
	for _, test := range []struct {
		plugin, host time.Duration
		isWarned     bool
	}{{2 * time.Minute, 0, true}, {time.Millisecond, 0, false}, {time.Minute, time.Minute, false}} {
		host := windlasstest.New(t)
		ofPlugin := time.Unix(0, 0)
		now = func() time.Time { return ofPlugin }
		added(t, reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			ofPlugin, host.Time = ofPlugin.Add(test.plugin), host.Time.Add(test.host)
			return reconcile.Result{}, nil
		}), nil, nil)
		if _, err := Reconcile(context.Background(), windlass.Request{Controller: "shop", Name: "a"}); err != nil {
			t.Fatal(err)
		}
		lines := host.Lines()
		if is := len(lines) == 1 && lines[0].Level == "warn" && lines[0].Fields["waited"] == "2m0s"; is != test.isWarned {
			t.Errorf("%+v: %+v", test, lines)
		}
	}
}

func TestATerminalPartMakesErrorsTerminal(t *testing.T) {
	windlasstest.New(t)
	stop, other := reconcile.TerminalError(errors.New("stop")), errors.New("other")
	for _, isTerminal := range []bool{true, false} {
		if !isTerminal {
			stop = errors.New("go on")
		}
		for _, joined := range []error{stop, errors.Join(stop, other), kerrors.NewAggregate([]error{other, stop})} {
			added(t, reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, joined
			}), nil, nil)
			_, err := Reconcile(context.Background(), windlass.Request{Controller: "shop", Namespace: "prod", Name: "a"})
			// The host sees one failure, the mark itself, and not one failure for each part of a joined error.
			if is := fmt.Sprintf("%T", err) == "*host.Marked"; is != isTerminal || windlass.IsTerminal(err) != isTerminal {
				t.Errorf("%v: terminal %v", err, is)
			}
		}
	}
}
