// Package zap has the options of controller-runtime's logger. They have no effect: the logger writes to the plugin's
// log, and the host decides on its level and form. It does not contain zap.
package zap

import (
	"flag"
	"io"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Options are accepted, and have no effect. Fields that have types of zap in controller-runtime accept any value.
type Options struct {
	Development          bool
	Encoder              any
	EncoderConfigOptions []any
	NewEncoder           any
	DestWriter           io.Writer
	Level                any
	StacktraceLevel      any
	ZapOpts              []any
	TimeEncoder          any
}

// BindFlags adds no flags: a plugin has no arguments.
func (o *Options) BindFlags(*flag.FlagSet) {}

// Opts is an option of New.
type Opts func(*Options)

// New returns a logger that writes to the plugin's log.
func New(...Opts) logr.Logger { return log.Plugin() }

// UseFlagOptions has no effect.
func UseFlagOptions(in *Options) Opts { return func(o *Options) { *o = *in } }

// UseDevMode has no effect.
func UseDevMode(enabled bool) Opts { return func(o *Options) { o.Development = enabled } }

// WriteTo has no effect.
func WriteTo(out io.Writer) Opts { return func(o *Options) { o.DestWriter = out } }

// Level has no effect.
func Level(level any) Opts { return func(o *Options) { o.Level = level } }

// StacktraceLevel has no effect.
func StacktraceLevel(level any) Opts { return func(o *Options) { o.StacktraceLevel = level } }

// JSONEncoder has no effect.
func JSONEncoder(...any) Opts { return func(*Options) {} }

// ConsoleEncoder has no effect.
func ConsoleEncoder(...any) Opts { return func(*Options) {} }

// RawZapOpts has no effect.
func RawZapOpts(options ...any) Opts { return func(o *Options) { o.ZapOpts = options } }
