// Generates the CronJob project of kubebuilder's book, as kubebuilder's own documentation does: `generate KUBEBUILDER
// FOLDER`. tools/build-operators compiles this file inside a copy of kubebuilder's module, because the package with the
// book's code is internal to it.
package main

import (
	"log"
	"os"

	cronjob "sigs.k8s.io/kubebuilder/v4/hack/docs/internal/cronjob-tutorial"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: generate KUBEBUILDER FOLDER")
	}
	program, folder := os.Args[1], os.Args[2]
	if err := os.MkdirAll(folder, 0o755); err != nil {
		log.Fatal(err)
	}
	project := cronjob.NewSample(program, folder)
	project.GenerateSampleProject()
	project.UpdateTutorial()
}
