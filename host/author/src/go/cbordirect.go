// Package direct stands in for the CBOR of apimachinery. A plugin and the host exchange JSON only.
package direct

import "errors"

var errNoCBOR = errors.New("a plugin has no CBOR: objects are JSON")

// Marshal returns an error.
func Marshal(src any) ([]byte, error) { return nil, errNoCBOR }

// Unmarshal returns an error.
func Unmarshal(src []byte, dst any) error { return errNoCBOR }

// Diagnose returns an error.
func Diagnose(src []byte) (string, error) { return "", errNoCBOR }
