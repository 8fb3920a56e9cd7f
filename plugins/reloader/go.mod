module windlass.dev/plugins/reloader

go 1.26

require windlass.dev/sdk v0.0.0

require go.bytecodealliance.org/pkg v0.2.1 // indirect

replace windlass.dev/sdk => ../../sdk/go
