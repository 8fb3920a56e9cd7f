package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	basecompatibility "k8s.io/component-base/compatibility"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// auditPolicy records each request (user, User-Agent, verb, object, status), without bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// startAPIServer returns once the server's configuration is valid. The caller checks whether the server serves.
func startAPIServer(ctx context.Context, cfg *config, dir stateDir, pki *credentials, listener net.Listener, failed chan<- error) error {
	args := apiServerArgs(pki)
	if cfg.auditLog != "" {
		if err := os.WriteFile(dir.auditPolicy(), []byte(auditPolicy), 0o600); err != nil {
			return fmt.Errorf("write the audit policy: %w", err)
		}
		args = append(args, "--audit-policy-file="+dir.auditPolicy(), "--audit-log-path="+cfg.auditLog)
	}
	completed, err := completeOptions(ctx, append(args, cfg.apiServerArgs...), listener)
	if err != nil {
		return err
	}
	go func() {
		if err := app.Run(ctx, completed); ctx.Err() == nil {
			failed <- fmt.Errorf("kube-apiserver ended: %v", err)
		}
	}()
	return nil
}

func apiServerArgs(pki *credentials) []string {
	return []string{
		"--etcd-servers=unix://" + etcdSocket,
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + pki.server.cert,
		"--tls-private-key-file=" + pki.server.key,
		"--client-ca-file=" + pki.ca.cert,
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + pki.serviceAccountKey,
		"--service-account-signing-key-file=" + pki.serviceAccountKey,
		// A /24 network has no addresses left after about 250 Services.
		"--service-cluster-ip-range=10.0.0.0/16",
		"--authorization-mode=RBAC",
		// This plugin would refuse Pods until their namespace's ServiceAccount exists. No containers run here, so it is
		// not needed.
		"--disable-admission-plugins=ServiceAccount",
		"--allow-privileged=true",
		"--profiling=false",
	}
}

// completeOptions repeats the steps of kube-apiserver's own command before it runs.
func completeOptions(ctx context.Context, args []string, listener net.Listener) (options.CompletedOptions, error) {
	none := options.CompletedOptions{}
	opts := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range opts.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(args); err != nil {
		return none, err
	}
	opts.SecureServing.Listener = listener

	registry := opts.GenericServerRunOptions.ComponentGlobalsRegistry
	if err := registry.Set(); err != nil {
		return none, err
	}
	if err := logsapi.ValidateAndApply(opts.Logs, registry.FeatureGateFor(basecompatibility.DefaultKubeComponent)); err != nil {
		return none, err
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	completed, err := opts.Complete(ctx)
	if err != nil {
		return none, err
	}
	return completed, utilerrors.NewAggregate(completed.Validate())
}
