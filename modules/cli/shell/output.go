package shell

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/httpapi"
)

// logger logs to standard error. Commands raise the level, so that their
// output is what they are asked for. The level may change later.
func (c *Shell) logger(l configs.Log, least slog.Level) (*slog.Logger, *slog.LevelVar) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		level = slog.LevelInfo // Load has refused any other word
	}
	now := &slog.LevelVar{}
	now.Set(max(level, least))
	o := &slog.HandlerOptions{Level: now}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(c.Stderr, o)), now
	}
	return slog.New(slog.NewTextHandler(c.Stderr, o)), now
}

// Answer prints what a script reads with --json, and otherwise what a person
// reads.
func (c *Shell) Answer(v any, text func() error) error {
	if !c.JSON {
		return text()
	}
	e := json.NewEncoder(c.Stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// Table prints cells that are separated by tabs, below a head of words.
func (c *Shell) Table(head string, write func(w io.Writer)) func() error {
	return func() error {
		w := tabwriter.NewWriter(c.Stdout, 0, 8, 2, ' ', 0)
		if head != "" {
			fmt.Fprintln(w, strings.ReplaceAll(head, " | ", "\t"))
		}
		write(w)
		return w.Flush()
	}
}

// Line prints one line.
func (c *Shell) Line(format string, args ...any) func() error {
	return func() error {
		_, err := fmt.Fprintf(c.Stdout, format+"\n", args...)
		return err
	}
}

// Database is the address of a database without its password, with the
// whole path of a file.
func Database(u configs.DatabaseURL) string {
	path, file := strings.CutPrefix(u.Reveal(), "sqlite:")
	if !file {
		return u.String()
	}
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	return "sqlite:" + path
}

// Moment shows a time to a person; none is a dash.
func Moment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// All reads every page of a list, and returns what is written of its items.
func All[T, B any](read func(q httpapi.PageQuery) (httpapi.Page[T], error), body func(T) B) ([]B, error) {
	bodies := []B{}
	for q := (httpapi.PageQuery{Limit: httpapi.MaxPageSize}); ; {
		page, err := read(q)
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, httpapi.MapPage(page, body).Items...)
		if q.Cursor = page.NextCursor; q.Cursor == "" {
			return bodies, nil
		}
	}
}
