module windlass.dev/benches/by-sdk

go 1.26

require (
	go.bytecodealliance.org/pkg v0.2.1
	windlass.dev/sdk v0.0.0
)

replace windlass.dev/sdk => ../../../../../sdk/go
