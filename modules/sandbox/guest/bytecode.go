package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const (
	// compileEntry is the program that compiles the runtime.
	compileEntry = RuntimeDir + "/bytecode.py"
	// maxBytecode bounds what it prints.
	maxBytecode = 16 << 20
)

// Compiled returns a copy of the runtime with the bytecode of its modules. The
// first server with this runtime and this root makes it, and it stays for the
// next one. It is made in a cell that has never held a program.
func (h *Host) Compiled(ctx context.Context, bwrap string) (string, error) {
	h.compile.Lock()
	defer h.compile.Unlock()
	if h.compiled != "" {
		return h.compiled, nil
	}
	// Of a root that is built anew. Another Python looks for its own bytecode,
	// and compiles where there is none.
	var built int64
	if stamp, err := os.Stat(filepath.Join(h.Root, ".stamp")); err == nil {
		built = stamp.ModTime().UnixNano()
	}
	dir := fmt.Sprintf("%s-%x", h.Runtime, built)
	if _, err := os.Stat(dir); err != nil {
		files, err := h.bytecode(ctx, bwrap)
		if err != nil {
			return "", fmt.Errorf("sandbox runtime: compile: %w", err)
		}
		if err := h.Slots.install(dir, files); err != nil {
			return "", fmt.Errorf("sandbox runtime: %w", err)
		}
	}
	h.compiled = dir
	return dir, nil
}

// bytecode runs the program that compiles.
func (h *Host) bytecode(ctx context.Context, bwrap string) (files map[string][]byte, err error) {
	slot, err := h.Slots.Take()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, slot.Release()) }()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cell, err := StartCell(ctx, CellConfig{
		Bwrap: bwrap, ID: slot.ID, Spawner: h.Spawner, Filters: h.Filters,
		Options: append(BaseOptions(h.Root, h.Runtime), "--disable-userns", "--cap-drop", "ALL", "--remount-ro", "/dev", "--remount-ro", "/run", "--chdir", "/"),
		Command: []string{"/usr/bin/python3", "-I", compileEntry},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cell.Close()) }()
	defer context.AfterFunc(ctx, func() { _ = cell.Stdout.SetReadDeadline(time.Unix(1, 0)) })()
	text, err := io.ReadAll(io.LimitReader(cell.Stdout, maxBytecode))
	if err == nil {
		err = json.Unmarshal(text, &files) // of an interpreter that failed: nothing
	}
	if err != nil {
		return nil, cell.Explain(ctx, err)
	}
	return files, nil
}
