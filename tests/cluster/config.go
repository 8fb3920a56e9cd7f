package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// config has the values of the command line. Paths are absolute, and empty if not given.
type config struct {
	dir              string
	port             int
	auditLog         string
	apiServerArgs    []string
	controllers      []string
	gcSyncPeriod     time.Duration
	untilStdinCloses bool
}

func parseFlags(args []string) (*config, error) {
	cfg := &config{}
	var apiServerArgs string
	flags := pflag.NewFlagSet("cluster", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringVar(&cfg.dir, "dir", "",
		"keep certificates, the port and etcd's data here, so that a later start continues with them (default: a temporary directory, removed at exit)")
	flags.IntVar(&cfg.port, "port", 0, "port of the API server (0 for the port recorded in --dir, or else a free port)")
	flags.StringVar(&cfg.auditLog, "audit-log", "", "write an audit log at level Metadata to this file")
	flags.StringVar(&apiServerArgs, "apiserver-args", "", "more kube-apiserver flags, separated by spaces")
	flags.StringSliceVar(&cfg.controllers, "controllers", controllerNames(), "the controllers to run; '' for none")
	flags.DurationVar(&cfg.gcSyncPeriod, "gc-sync-period", time.Second,
		"how often the garbage collector looks for new kinds (kube-controller-manager: 30s)")
	flags.BoolVar(&cfg.untilStdinCloses, "until-stdin-closes", false, "stop when standard input reaches its end")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: every setting is a flag, see --help", flags.Arg(0))
	}
	cfg.apiServerArgs = strings.Fields(apiServerArgs)
	return cfg, cfg.complete()
}

// complete checks the values and makes paths independent of the working directory.
func (c *config) complete() error {
	if c.port < 0 || c.port > 65535 {
		return fmt.Errorf("--port %d is not a TCP port", c.port)
	}
	if c.gcSyncPeriod <= 0 {
		return fmt.Errorf("--gc-sync-period %s is not positive", c.gcSyncPeriod)
	}
	known := controllerNames()
	for _, name := range c.controllers {
		if !slices.Contains(known, name) {
			return fmt.Errorf("--controllers: %q is unknown; there are %s", name, strings.Join(known, ", "))
		}
	}
	for _, path := range []*string{&c.dir, &c.auditLog} {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("resolve %s: %w", *path, err)
		}
		*path = absolute
	}
	return nil
}
