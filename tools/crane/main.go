// crane's own command, from its published module: what brings the image of a release to a registry.
package main

import (
	"os"

	"github.com/google/go-containerregistry/cmd/crane/cmd"
)

func main() {
	// It has told of the error.
	if err := cmd.Root.Execute(); err != nil {
		os.Exit(1)
	}
}
