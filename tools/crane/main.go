// The command of crane, built from its published module. It pushes the images of a release to a registry.
package main

import (
	"os"

	"github.com/google/go-containerregistry/cmd/crane/cmd"
)

func main() {
	// The command has already printed the error.
	if err := cmd.Root.Execute(); err != nil {
		os.Exit(1)
	}
}
