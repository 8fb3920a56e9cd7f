package windlass_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheTestsOfTheTemplatesPass(t *testing.T) {
	templates, err := filepath.Glob("templates/*")
	if err != nil {
		t.Fatal(err)
	}
	if len(templates) == 0 {
		t.Skip("the templates are not part of this SDK, which is a copy in a plugin's folder")
	}
	sdk, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, template := range templates {
		// These templates need types that `windlass new --from-crd` generates. A story in tests/cases
		// runs their tests.
		if strings.HasSuffix(template, "-definition") {
			continue
		}
		t.Run(filepath.Base(template), func(t *testing.T) {
			folder := filled(t, template, sdk)
			for _, arguments := range [][]string{{"vet", "."}, {"test", "."}} {
				command := exec.Command("go", arguments...)
				command.Dir = folder
				if output, err := command.CombinedOutput(); err != nil {
					t.Errorf("go %s: %v\n%s", strings.Join(arguments, " "), err, output)
				}
			}
		})
	}
}

// filled writes a template as a folder, with this SDK inside.
func filled(t *testing.T, template, sdk string) string {
	t.Helper()
	folder := t.TempDir()
	files, err := os.ReadDir(template)
	if err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer(
		"{{name}}", "my-shop", "{{Kind}}", "MyShop", "{{module}}", "my_shop", "{{plural}}", "myshops", "{{singular}}", "myshop",
		"{{group}}", "example.com", "{{version}}", "v1",
		"=> ./sdk", "=> "+sdk,
	)
	write := func(from, name string) {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(fill.Replace(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		name, is := strings.CutSuffix(file.Name(), ".tmpl")
		if !is {
			t.Fatalf("%s is no template", file.Name())
		}
		write(filepath.Join(template, file.Name()), name)
	}
	// The folders of all languages share these files.
	write("../../host/author/src/new/common/crd.yaml", "crd.yaml")
	return folder
}
