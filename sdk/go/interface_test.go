package windlass_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheBindingsAreThoseOfTheInterface(t *testing.T) {
	files, err := filepath.Glob("../../host/wasm/wit/v0_2_0/*.wit")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("the interface is not beside this SDK, which is a copy in a plugin's folder")
	}
	var now strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&now, "%x  %s\n", sha256.Sum256(text), filepath.Base(file))
	}
	noted, err := os.ReadFile("internal/wit/wit.sha256")
	if err != nil {
		t.Fatal(err)
	}
	if string(noted) != now.String() {
		t.Errorf("wit/ has changed: run sdk/go/internal/wit/generate, and see what else follows. Then:\n%snow:\n%s", noted, now.String())
	}
}
