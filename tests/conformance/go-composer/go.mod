module windlass.dev/conformance-composer

go 1.26

require (
	windlass.dev/conformance v0.0.0
	windlass.dev/sdk v0.0.0
)

require go.bytecodealliance.org/pkg v0.2.1 // indirect

replace (
	windlass.dev/conformance => ../go
	windlass.dev/sdk => ../../../sdk/go
)
