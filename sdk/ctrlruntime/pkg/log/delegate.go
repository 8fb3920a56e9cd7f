package log

import "github.com/go-logr/logr"

// root is the sink of Log. SetLogger replaces it.
var root logr.LogSink = &sink{}

// delegate passes everything on to the root, with the names and values given so far. The root may be replaced
// later.
type delegate struct {
	steps []func(logr.LogSink) logr.LogSink
	// made is the result of the steps for the root base.
	made, base logr.LogSink
}

var _ logr.LogSink = &delegate{}

func (d *delegate) target() logr.LogSink {
	if d.made == nil || d.base != root {
		d.made, d.base = root, root
		for _, step := range d.steps {
			d.made = step(d.made)
		}
	}
	return d.made
}

func (d *delegate) with(step func(logr.LogSink) logr.LogSink) logr.LogSink {
	return &delegate{steps: append(d.steps[:len(d.steps):len(d.steps)], step)}
}

func (*delegate) Init(logr.RuntimeInfo)    {}
func (d *delegate) Enabled(level int) bool { return d.target().Enabled(level) }

func (d *delegate) Info(level int, message string, keysAndValues ...any) {
	d.target().Info(level, message, keysAndValues...)
}

func (d *delegate) Error(err error, message string, keysAndValues ...any) {
	d.target().Error(err, message, keysAndValues...)
}

func (d *delegate) WithValues(keysAndValues ...any) logr.LogSink {
	return d.with(func(sink logr.LogSink) logr.LogSink { return sink.WithValues(keysAndValues...) })
}

func (d *delegate) WithName(name string) logr.LogSink {
	return d.with(func(sink logr.LogSink) logr.LogSink { return sink.WithName(name) })
}
