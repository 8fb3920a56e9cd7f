package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDefaultsRunEveryController(t *testing.T) {
	cfg, err := parseFlags(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(cfg.controllers, controllerNames()) {
		t.Errorf("controllers are %v, want all", cfg.controllers)
	}
	if cfg.dir != "" || cfg.auditLog != "" || cfg.gcSyncPeriod != time.Second || cfg.untilStdinCloses {
		t.Errorf("unexpected defaults: %+v", cfg)
	}
}

func TestFlagsSetTheConfiguration(t *testing.T) {
	cfg, err := parseFlags([]string{"--dir=state", "--port=6443", "--audit-log=/tmp/audit.log", "--controllers=namespace,deployment",
		"--gc-sync-period=250ms", "--apiserver-args=--v=2 --max-requests-inflight=10", "--until-stdin-closes"})
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(cfg.dir) || filepath.Base(cfg.dir) != "state" {
		t.Errorf("--dir became %q, want an absolute path", cfg.dir)
	}
	if want := []string{"--v=2", "--max-requests-inflight=10"}; !slices.Equal(cfg.apiServerArgs, want) {
		t.Errorf("--apiserver-args became %q, want %q", cfg.apiServerArgs, want)
	}
	if want := []string{"namespace", "deployment"}; !slices.Equal(cfg.controllers, want) {
		t.Errorf("--controllers became %q, want %q", cfg.controllers, want)
	}
	if cfg.port != 6443 || cfg.auditLog != "/tmp/audit.log" || cfg.gcSyncPeriod != 250*time.Millisecond || !cfg.untilStdinCloses {
		t.Errorf("unexpected settings: %+v", cfg)
	}
}

func TestNoControllersMeansNone(t *testing.T) {
	cfg, err := parseFlags([]string{"--controllers="})
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.controllers) != 0 {
		t.Errorf("controllers are %q, want none", cfg.controllers)
	}
}

func TestBadFlagsAreRefused(t *testing.T) {
	for arg, want := range map[string]string{
		"--controllers=scheduler": `"scheduler" is unknown`,
		"--port=70000":            "not a TCP port",
		"--gc-sync-period=0s":     "not positive",
		"up":                      `unexpected argument "up"`,
		"--no-such-flag":          "no-such-flag",
	} {
		_, err := parseFlags([]string{arg})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want one with %q", arg, err, want)
		}
	}
}
