package app

import (
	"context"
	"encoding/json"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/program/tables"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/install"
	"github.com/portico-run/portico/modules/toolset/mark"
)

// details says of tools what the packages above package install know.
type details struct{ app *App }

// Lines implements install.Details.
func (details) Lines(set toolset.Definition) map[string]string {
	lines := map[string]string{}
	for _, t := range catalogue.New([]toolset.Definition{set}, nil).Tools(set.Key) {
		lines[t.Name] = t.Line()
	}
	return lines
}

// Hints implements install.Details.
func (d details) Hints(ctx context.Context, a actor.Actor, key, tool string) (readOnly, idempotent *bool, err error) {
	h, _, err := d.app.hints.Hints(ctx, a, key, tool)
	return h.ReadOnly, h.Idempotent, err
}

// Health implements install.Details.
func (d details) Health(ctx context.Context, a actor.Actor, key string) (install.ServerHealth, error) {
	s, err := d.app.MCP.Server(ctx, a, key)
	if err != nil {
		return install.ServerHealth{}, err
	}
	h := d.app.MCP.Health(a, s)
	return install.ServerHealth{State: string(h.State), Reason: h.Reason, ConnectURL: h.ConnectURL}, nil
}

// Marks implements install.Details.
func (d details) Marks(ctx context.Context, key string) ([]mark.Mark, error) {
	all, err := d.app.marks.All(ctx)
	var of []mark.Mark
	for _, m := range all {
		if m.Toolset == key {
			of = append(of, m)
		}
	}
	return of, err
}

// previews reads tables in the sandbox, each as a job of the user whose it is.
type previews struct{ app *App }

// Head implements drive.Tables.
func (p previews) Head(ctx context.Context, a actor.Actor, parquet []byte, rows int) (drive.Table, error) {
	reader := tables.Service{Sandbox: p.app.Engine, Timeout: p.app.Config.Sandbox.Timeout}
	read, err := reader.Rows(ctx, tables.File{Owner: a.UID, Content: parquet}, 0, rows)
	if err != nil {
		return drive.Table{}, err
	}
	out := drive.Table{Columns: []drive.TableColumn{}, Rows: [][]json.RawMessage{}, Total: &read.Total}
	for _, c := range read.Columns {
		out.Columns = append(out.Columns, drive.TableColumn(c))
	}
	for _, r := range read.Rows {
		var values map[string]json.RawMessage
		if err := json.Unmarshal(r, &values); err != nil {
			return drive.Table{}, err
		}
		row := make([]json.RawMessage, len(read.Columns))
		for i, c := range read.Columns {
			row[i] = values[c.Name]
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}
