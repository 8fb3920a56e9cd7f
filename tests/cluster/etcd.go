package main

import (
	"context"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
)

// The sockets are named relative to the state directory, which is the working directory, because a socket's path can
// have only about a hundred bytes.
const etcdSocket, peerSocket = "etcd.sock", "peer.sock"

// startEtcd runs a single member that can be reached only through a Unix socket. So there is no port to choose, to lose
// to another process, or to leave unprotected on loopback.
func startEtcd(ctx context.Context, dir stateDir, failed chan<- error) error {
	socket := func(name string) []url.URL { return []url.URL{{Scheme: "unix", Host: name}} }

	cfg := embed.NewConfig()
	cfg.Dir = dir.etcdData()
	// The advertised URLs must have a host and a port. The defaults are good enough, because no peer or client uses
	// them.
	cfg.ListenClientUrls, cfg.ListenPeerUrls = socket(etcdSocket), socket(peerSocket)
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.LogLevel = "error"
	cfg.LogOutputs = []string{"stderr"}
	cfg.QuotaBackendBytes = 4 << 30
	// Unsynced data can be lost only if the machine crashes, not if this process does.
	cfg.UnsafeNoFsync = true
	// A single member need not wait a second for other members before it elects itself.
	cfg.TickMs, cfg.ElectionMs = 10, 100

	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	select {
	case <-etcd.Server.ReadyNotify():
	case err := <-etcd.Err():
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	go func() { failed <- fmt.Errorf("etcd: %w", <-etcd.Err()) }()
	return nil
}
