package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// output has the original standard output and standard error of this process, because its servers' logs go to a file.
type output struct {
	stdout, stderr *os.File
	logPath        string
}

// redirectOutput sends file descriptors 1 and 2 to a log file. The servers' libraries (klog, zap, gRPC, the
// runtime's own panics) each have their own idea of where to log; the descriptors catch all of them.
func redirectOutput(logPath string) (*output, error) {
	out := &output{logPath: logPath}
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	defer log.Close()
	if out.stdout, err = moveAway(os.Stdout, log); err != nil {
		return nil, err
	}
	if out.stderr, err = moveAway(os.Stderr, log); err != nil {
		return nil, err
	}
	return out, nil
}

// moveAway makes the descriptor of file refer to target, and returns a new file for the descriptor's earlier
// destination.
func moveAway(file, target *os.File) (*os.File, error) {
	fd, err := unix.Dup(int(file.Fd()))
	if err != nil {
		return nil, fmt.Errorf("duplicate %s: %w", file.Name(), err)
	}
	unix.CloseOnExec(fd)
	if err := unix.Dup2(int(target.Fd()), int(file.Fd())); err != nil {
		return nil, fmt.Errorf("redirect %s: %w", file.Name(), err)
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}

// restore is for a failure only. It restores standard error, and adds the end of the log to the error, because the log
// in a temporary directory is about to be removed. After a proper stop, the servers may continue to log to the file.
func (o *output) restore(failure error) error {
	if failure == nil {
		return nil
	}
	if err := unix.Dup2(int(o.stderr.Fd()), int(os.Stderr.Fd())); err != nil {
		return errors.Join(failure, fmt.Errorf("restore standard error: %w", err))
	}
	log, err := os.ReadFile(o.logPath)
	if err != nil {
		return errors.Join(failure, err)
	}
	return fmt.Errorf("%w\nthe end of its log:\n%s", failure, lastLines(log, 20))
}

func lastLines(text []byte, count int) []byte {
	lines := bytes.SplitAfter(bytes.TrimRight(text, "\n"), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-count):], nil)
}
