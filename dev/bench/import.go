package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/portico-run/portico/dev/instance"
)

const (
	documentSize = 1_200_000
	schemas      = 120
)

// benchImport measures what turning a large OpenAPI document into a toolset
// takes, and how much larger the database is after it.
func benchImport(ctx context.Context, o options) ([]result, error) {
	return outside(o, func(program, dir string) ([]result, error) {
		document, operations, err := openAPI()
		if err != nil {
			return nil, err
		}
		file := filepath.Join(dir, "openapi.json")
		if err := os.WriteFile(file, document, 0o600); err != nil {
			return nil, err
		}
		db := filepath.Join(dir, "portico.db")
		// The tables are there before the import.
		s, err := instance.Start(ctx, instance.Config{Program: program, Dir: dir, Database: "sqlite:" + db})
		if err != nil {
			return nil, err
		}
		if err := s.Stop(ctx); err != nil {
			return nil, err
		}
		before, err := packed(ctx, db)
		if err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, program, "toolset", "import", "--openapi", file, "--name", "large", "--domain", "https://api.example.com")
		cmd.Env = []string{"DATABASE_URL=sqlite:" + db, "OBJECT_STORAGE_FOLDER=" + dir, "HOME=" + os.Getenv("HOME"), "ENCRYPTION_KEY=" + strings.Repeat("0a", 32)}
		begin := time.Now()
		peak, err := peakMemory(cmd)
		if err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
		took := time.Since(begin)
		after, err := packed(ctx, db)
		if err != nil {
			return nil, err
		}
		what := fmt.Sprintf("import of an OpenAPI document of %.1f MB, %d operations: ", float64(len(document))/1e6, operations)
		stored := bounded(what+"stored (the document)", float64(after-before)/1e6, 2*float64(len(document))/1e6, "%.1f MB")
		stored.baseline, stored.ratio = fmt.Sprintf("%.1f MB", float64(len(document))/1e6), fmt.Sprintf("%.2f", float64(after-before)/float64(len(document)))
		return []result{
			bounded(what+"time", took.Seconds(), 5, "%.1f s"),
			bounded(what+"peak memory", float64(peak)/mebibyte, 200, "%.0f MiB"),
			stored,
		}, nil
	})
}

// peakMemory runs a program and returns the most memory that it had, in bytes. It
// looks while the program runs: what the system tells of a process that has ended
// begins with what this one had when it started it.
func peakMemory(cmd *exec.Cmd) (peak int64, err error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				return 0, fmt.Errorf("%w: %.500s", err, out.String())
			}
			return peak, nil
		case <-look.C:
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
			if err != nil {
				continue // it has ended
			}
			if m := highWater.FindSubmatch(status); m != nil {
				kib, err := strconv.ParseInt(string(m[1]), 10, 64)
				if err != nil {
					return 0, err
				}
				peak = max(peak, kib<<10)
			}
		}
	}
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// packed is the size of a SQLite database without its free pages.
func packed(ctx context.Context, path string) (int64, error) {
	s, err := openSQLite(path)
	if err != nil {
		return 0, err
	}
	_, err = s.ExecContext(ctx, "VACUUM")
	if err := errors.Join(err, s.Close()); err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// openAPI writes a document as those of large services are: many operations over
// schemas that share each other.
func openAPI() (document []byte, operations int, err error) {
	ref := func(n int) map[string]any {
		return map[string]any{"$ref": fmt.Sprintf("#/components/schemas/Thing%d", n)}
	}
	shared := map[string]any{}
	for n := range schemas {
		properties := map[string]any{}
		for field := range 12 {
			properties[fmt.Sprintf("field_%d", field)] = map[string]any{
				"type": []string{"string", "integer", "boolean", "number"}[field%4], "description": fmt.Sprintf("Field %d of thing %d, as it was given when the thing was made", field, n),
			}
		}
		// Schemas name later ones, so that none contains itself.
		for k, next := range []int{2*n + 1, 2*n + 2} {
			if next < schemas {
				properties[fmt.Sprintf("part_%d", k)] = ref(next)
			}
		}
		shared[fmt.Sprintf("Thing%d", n)] = map[string]any{"type": "object", "required": []string{"field_0"}, "properties": properties}
	}
	paths := map[string]any{}
	whole := map[string]any{
		"openapi": "3.0.3", "info": map[string]any{"title": "Large", "version": "1"}, "paths": paths, "components": map[string]any{"schemas": shared},
		"servers": []any{map[string]any{"url": "https://api.example.com"}},
	}
	for len(document) < documentSize {
		for range 50 {
			paths[fmt.Sprintf("/things/%d/{id}", operations)] = map[string]any{"post": operation(operations, ref)}
			operations++
		}
		if document, err = json.Marshal(whole); err != nil {
			return nil, 0, err
		}
	}
	return document, operations, nil
}

func operation(n int, ref func(int) map[string]any) map[string]any {
	var parameters []any
	parameters = append(parameters, map[string]any{"name": "id", "in": "path", "required": true, "schema": map[string]any{"type": "string"}, "description": "Which thing"})
	for p := range 4 {
		parameters = append(parameters, map[string]any{
			"name": fmt.Sprintf("filter_%d", p), "in": "query", "schema": map[string]any{"type": "string"}, "description": fmt.Sprintf("Only what matches filter %d of operation %d, case and accents ignored", p, n),
		})
	}
	content := func(n int) map[string]any {
		return map[string]any{"application/json": map[string]any{"schema": ref(n % schemas)}}
	}
	return map[string]any{
		"operationId": fmt.Sprintf("changeThing%d", n), "summary": fmt.Sprintf("Change thing %d and answer what it is afterwards", n), "parameters": parameters,
		"requestBody": map[string]any{"required": true, "content": content(n)},
		"responses":   map[string]any{"200": map[string]any{"description": "What it is afterwards", "content": content(n + 7)}},
	}
}
