//go:build wasip1

package setup

import "os"

// Fail ends the instance. A build shows the text, which a panic would bury in a stack.
func Fail(text string) {
	_, _ = os.Stderr.WriteString(text + "\n")
	os.Exit(1)
}
