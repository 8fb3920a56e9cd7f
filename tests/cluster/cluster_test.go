package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// asProgram makes this test's executable act as the cluster program. So the test runs the tested code, and no second
// program must be linked.
const asProgram = "WINDLASS_CLUSTER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// process is a running cluster.
type process struct {
	*exec.Cmd
	stdin      io.Closer
	kubeconfig string
	ended      chan struct{}
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], args...), ended: make(chan struct{})}
	// The cluster creates its temporary directory inside the test's.
	p.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+t.TempDir())
	p.Stderr = os.Stderr
	stdin, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	stdout, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	line, readErr := bufio.NewReader(stdout).ReadString('\n')
	go func() {
		_ = p.Wait() // how it ended is in ProcessState
		close(p.ended)
	}()
	kubeconfig, found := strings.CutPrefix(strings.TrimSpace(line), "KUBECONFIG=")
	if readErr != nil || !found {
		t.Fatalf("the cluster printed %q (%v), want KUBECONFIG=…", line, readErr)
	}
	p.kubeconfig = kubeconfig
	return p
}

func (p *process) kill() {
	_ = p.Process.Kill() // it may have ended already
	<-p.ended
}

// expectEnd checks that the process ends by itself, successfully and soon.
func (p *process) expectEnd(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(5 * time.Second):
		t.Fatal("the cluster still runs")
	}
	if !p.ProcessState.Success() {
		t.Errorf("the cluster ended with %s", p.ProcessState)
	}
}

func (p *process) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	c, err := newClients(p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return c.typed
}

func TestClusterContinuesAfterKill(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	audit := filepath.Join(dir, "audit.log")

	first := startProcess(t, "--dir="+dir, "--audit-log="+audit)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	if _, err := first.client(t).CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kept := first.client(t)
	first.kill()

	second := startProcess(t, "--dir="+dir, "--audit-log="+audit)
	if second.kubeconfig != first.kubeconfig {
		t.Errorf("the kubeconfig moved from %s to %s", first.kubeconfig, second.kubeconfig)
	}
	// The client of the first start still works: port, certificates and data are the same.
	if _, err := kept.CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	log, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), `"level":"Metadata"`) || !strings.Contains(string(log), userAgent) {
		t.Error("the audit log does not name its clients")
	}
	if err := second.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	second.expectEnd(t)
}

func TestClusterCollectsDependentsAndLeavesNothingBehind(t *testing.T) {
	ctx := t.Context()
	cluster := startProcess(t, "--until-stdin-closes")
	maps := cluster.client(t).CoreV1().ConfigMaps("default")

	owner, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dependent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name:            "dependent",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}},
	}}
	if _, err := maps.Create(ctx, dependent, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(ctx, owner.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the dependent is gone", func(ctx context.Context) bool {
		_, err := maps.Get(ctx, "dependent", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})

	if err := cluster.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	cluster.expectEnd(t)
	if _, err := os.Stat(filepath.Dir(cluster.kubeconfig)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary directory is still there (%v)", err)
	}
}

func TestUsedPortIsReportedFirst(t *testing.T) {
	dir := stateDir(t.TempDir())
	taken, err := listen(0, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	if _, err := listen(0, dir); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("the recorded port was not tried again: %v", err)
	}
}

func eventually(t *testing.T, what string, holds func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !holds(ctx) {
		select {
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
