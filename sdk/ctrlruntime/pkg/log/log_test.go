package log_test

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/internal/shop"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"windlass.dev/sdk/windlasstest"
)

func TestLinesAreInThePluginsLog(t *testing.T) {
	host := windlasstest.New(t)
	logger := log.FromContext(context.Background(), "a", 1).WithName("x").WithName("y")
	object := &shop.Shop{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "s"}}
	logger.Info("first", "shop", object, "key", types.NamespacedName{Namespace: "n", Name: "m"}, "list", []int{1}, "odd")
	logger.V(1).Info("second")
	logger.V(4).Info("third")
	logger.Error(errors.New("why"), "fourth")
	var none *shop.Shop
	logger.Info("fifth", "none", none)
	lines := host.Lines()
	for place, level := range []string{"info", "debug", "trace", "error", "info"} {
		if lines[place].Level != level || lines[place].Fields["a"] != "1" || lines[place].Fields["logger"] != "x.y" {
			t.Errorf("%+v", lines[place])
		}
	}
	first := lines[0].Fields
	if first["shop"] != "prod/s" || first["key"] != "n/m" || first["list"] != "[1]" || first["odd"] != "(no value)" {
		t.Errorf("%+v", first)
	}
	if lines[3].Fields["error"] != "why" {
		t.Errorf("%+v", lines[3])
	}
}

func TestSetLoggerReplacesTheRootOfEarlierLoggers(t *testing.T) {
	windlasstest.New(t)
	early := log.Log.WithName("early").WithValues("a", 1)
	early.Info("into the plugin's log")
	var text string
	log.SetLogger(funcr.New(func(prefix, args string) { text = prefix + " " + args }, funcr.Options{}))
	t.Cleanup(func() { log.SetLogger(log.Plugin()) })
	early.Info("hello")
	if text != `early "level"=0 "msg"="hello" "a"=1` {
		t.Error(text)
	}
	own := log.IntoContext(context.Background(), logr.Discard())
	text = ""
	if log.FromContext(own).Info("nothing"); text != "" {
		t.Error(text)
	}
}
