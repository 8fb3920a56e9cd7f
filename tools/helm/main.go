// The command of Helm, built from its published module. It lints and renders the chart in deploy/chart.
package main

import (
	"os"

	helm "helm.sh/helm/v4/pkg/cmd"
)

func main() {
	command, err := helm.NewRootCmd(os.Stdout, os.Args[1:], helm.SetupLogging)
	if err == nil {
		err = command.Execute()
	}
	if err != nil {
		os.Exit(1)
	}
}
