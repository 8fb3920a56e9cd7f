package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// startTimeout limits the start, from the first step to "ready". On an idle machine a start takes two seconds.
const startTimeout = 2 * time.Minute

// run starts the cluster, and prints `KUBECONFIG=<path>` on standard output once the cluster is usable. It returns nil
// when it is told to stop, and an error when a part fails.
func run(ctx context.Context, cfg *config) (err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, orphaned := context.WithCancel(ctx)
	defer orphaned()
	go watchParent(ctx, os.Getppid(), os.Getppid, orphaned)
	if cfg.untilStdinCloses {
		go watchInput(os.Stdin, orphaned)
	}

	dir, removeDir, err := openDir(cfg.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeDir()) }()
	if err := os.Chdir(string(dir)); err != nil { // for etcd's sockets
		return err
	}
	out, err := redirectOutput(dir.log())
	if err != nil {
		return err
	}
	defer func() { err = out.restore(err) }()

	failed := make(chan error, 3)
	if err := start(ctx, cfg, dir, failed); err != nil {
		if ctx.Err() != nil { // told to stop while starting
			return nil
		}
		return err
	}
	if _, err := fmt.Fprintf(out.stdout, "KUBECONFIG=%s\n", dir.kubeconfig()); err != nil {
		return fmt.Errorf("report readiness: %w", err)
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// start starts one part after the other, and returns when the controllers have synced. If a part ends later, it sends
// the reason to failed.
func start(ctx context.Context, cfg *config, dir stateDir, failed chan error) error {
	begin := time.Now()
	startCtx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()

	listener, err := listen(cfg.port, dir)
	if err != nil {
		return err
	}
	credentials, err := ensurePKI(dir.pki())
	if err != nil {
		return err
	}
	if err := writeKubeconfig(dir.kubeconfig(), "https://"+listener.Addr().String(), credentials); err != nil {
		return err
	}
	if err := startEtcd(startCtx, dir, failed); err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	logStep(begin, "etcd is ready")
	if err := startAPIServer(ctx, cfg, dir, credentials, listener, failed); err != nil {
		return fmt.Errorf("kube-apiserver: %w", err)
	}
	client, err := newClients(dir.kubeconfig())
	if err != nil {
		return err
	}
	if err := client.waitUntilServing(startCtx, failed); err != nil {
		return fmt.Errorf("kube-apiserver: %w", err)
	}
	logStep(begin, "kube-apiserver is ready")
	if err := startControllers(ctx, startCtx, cfg, client); err != nil {
		return fmt.Errorf("controllers: %w", err)
	}
	logStep(begin, "controllers have synced")
	return nil
}

// listen takes the API server's port before anything else starts. So a port in use is the first error, and no other
// process can take the port in between.
func listen(port int, dir stateDir) (net.Listener, error) {
	if port == 0 {
		recorded, err := os.ReadFile(dir.port())
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("read the recorded port: %w", err)
		default:
			if port, err = strconv.Atoi(strings.TrimSpace(string(recorded))); err != nil {
				return nil, fmt.Errorf("read the recorded port: %w", err)
			}
		}
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listen for the API server: %w", err)
	}
	_, taken, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("listen for the API server: %w", err)
	}
	if err := os.WriteFile(dir.port(), []byte(taken+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("record the port: %w", err)
	}
	return listener, nil
}

func logStep(begin time.Time, what string) {
	fmt.Fprintf(os.Stderr, "cluster: %s after %.3fs\n", what, time.Since(begin).Seconds())
}

// stateDir is the directory of one cluster. It contains everything that a restart needs.
type stateDir string

func (d stateDir) pki() string         { return filepath.Join(string(d), "pki") }
func (d stateDir) kubeconfig() string  { return filepath.Join(string(d), "kubeconfig") }
func (d stateDir) port() string        { return filepath.Join(string(d), "port") }
func (d stateDir) log() string         { return filepath.Join(string(d), "cluster.log") }
func (d stateDir) etcdData() string    { return filepath.Join(string(d), "etcd") }
func (d stateDir) auditPolicy() string { return filepath.Join(string(d), "audit-policy.yaml") }

// openDir creates the directory. Without a path it is a temporary directory, which remove deletes.
func openDir(path string) (dir stateDir, remove func() error, err error) {
	if path != "" {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return "", nil, fmt.Errorf("create the state directory: %w", err)
		}
		return stateDir(path), func() error { return nil }, nil
	}
	temporary, err := filepath.Abs(os.TempDir())
	if err == nil {
		path, err = os.MkdirTemp(temporary, "windlass-cluster-")
	}
	if err != nil {
		return "", nil, fmt.Errorf("create a state directory: %w", err)
	}
	return stateDir(path), func() error { return removeAll(path) }, nil
}

// removeAll deletes a directory while the servers still run and may be creating files in it.
func removeAll(path string) error {
	var err error
	for range 20 {
		if err = os.RemoveAll(path); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("remove the state directory: %w", err)
}
