package main

import (
	"context"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
)

// The sockets are named relative to the state directory, which is the working directory: a socket's path may have some
// hundred bytes only.
const etcdSocket, peerSocket = "etcd.sock", "peer.sock"

// startEtcd runs a single member, reachable through a Unix socket only: no port to choose, to lose to another
// process, or to leave unprotected on loopback.
func startEtcd(ctx context.Context, dir stateDir, failed chan<- error) error {
	socket := func(name string) []url.URL { return []url.URL{{Scheme: "unix", Host: name}} }

	cfg := embed.NewConfig()
	cfg.Dir = dir.etcdData()
	// What it advertises must be host and port; the defaults do, since no peer or client ever asks for them.
	cfg.ListenClientUrls, cfg.ListenPeerUrls = socket(etcdSocket), socket(peerSocket)
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.LogLevel = "error"
	cfg.LogOutputs = []string{"stderr"}
	cfg.QuotaBackendBytes = 4 << 30
	// Only a crash of the machine, not one of this process, can lose what was not synced.
	cfg.UnsafeNoFsync = true
	// A single member has nobody to wait a second for before it elects itself.
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
