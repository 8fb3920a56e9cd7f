// Command cluster is a Kubernetes control plane for tests: etcd, the real kube-apiserver and the controllers that
// tests need, in one process on loopback. README.md says how it is built, started and stopped.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

func main() {
	cfg, err := parseFlags(os.Args[1:])
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(2)
	}
	// The goroutines of the servers are not awaited: kube-apiserver drains for seconds, which is useless for a test.
	if err := run(context.Background(), cfg); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}
