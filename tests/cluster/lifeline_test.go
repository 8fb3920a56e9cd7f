package main

import (
	"io"
	"sync/atomic"
	"testing"
	"time"
)

const soon = 5 * time.Second

func TestOrphanIsNoticed(t *testing.T) {
	const first = 4711
	var parent atomic.Int32
	parent.Store(first)
	gone := make(chan struct{})
	go watchParent(t.Context(), first, func() int { return int(parent.Load()) }, func() { close(gone) })
	parent.Store(1)
	select {
	case <-gone:
	case <-time.After(soon):
		t.Error("the parent's end was not noticed")
	}
}

func TestClosedInputIsNoticed(t *testing.T) {
	reader, writer := io.Pipe()
	gone := make(chan struct{})
	go watchInput(reader, func() { close(gone) })
	if _, err := writer.Write([]byte("what is written does not matter\n")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
		t.Fatal("gone before the end of input")
	default:
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
	case <-time.After(soon):
		t.Error("the end of input was not noticed")
	}
}
