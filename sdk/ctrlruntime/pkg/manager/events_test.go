package manager

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/internal/call"
	"sigs.k8s.io/controller-runtime/internal/shop"
	"windlass.dev/sdk/windlasstest"
)

func TestWhatTheHostDropsOfEventsIsWarnedOf(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := shop.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	host := windlasstest.New(t)
	call.Begin(context.Background(), "prod")
	t.Cleanup(func() { call.Begin(context.Background(), "") })
	recorder := &oldRecorder{recorder{scheme}}
	near := &shop.Shop{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "a"}}
	recorder.Event(near, "Normal", "Opened", "")
	if len(host.Events()) != 1 || len(host.Lines()) != 0 {
		t.Error(host.Events(), host.Lines())
	}
	for range 2 {
		recorder.AnnotatedEventf(near, map[string]string{"run": "1"}, "Normal", "Opened", "")
	}
	if lines := host.Lines(); len(host.Events()) != 3 || len(lines) != 1 || lines[0].Level != "warn" {
		t.Error(host.Events(), lines)
	}
	host.Forget()
	recorder.Event(&shop.City{ObjectMeta: metav1.ObjectMeta{Name: "vienna"}}, "Normal", "Opened", "")
	recorder.Event(&shop.Shop{ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: "c"}}, "Normal", "Opened", "")
	lines := host.Lines()
	if len(host.Events()) != 0 || len(lines) != 2 || !strings.Contains(lines[1].Fields["object"], "test/c") {
		t.Error(host.Events(), lines)
	}
	host.Forget()
	call.Begin(context.Background(), "")
	recorder.Event(near, "Normal", "Opened", "")
	if len(host.Events()) != 1 {
		t.Error("an event is dropped, although the primary has no namespace")
	}
}
