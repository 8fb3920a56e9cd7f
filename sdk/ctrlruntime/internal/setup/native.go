//go:build !wasip1

package setup

const isGuest = false
