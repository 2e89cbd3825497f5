package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/mediatype"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/program/tables"
	"github.com/portico-run/portico/modules/tool"
)

// Limits of reading files.
const (
	maxListed    = 200
	maxRead      = 64 << 20 // bytes of one file
	usualRows    = 20
	maxShownRows = 200
)

// errNoCanvas is a tool for files in a run without a canvas.
var errNoCanvas = errors.New("this run belongs to no canvas, so that there are no files; the user can start one with a canvas")

// files are those of the run's canvas.
type files struct {
	kept   Files
	tables Tables
	task   Task
}

func (f files) tools() []own { return append(f.readers(), f.chart()) }

// readers are the tools that only read.
func (f files) readers() []own {
	const schema = `{"type":"object","properties":{"file":{"type":"string","description":"Its name or id"},` +
		`"offset":{"type":["integer","null"],"description":"The first row of a table or byte of a text; null for the beginning"},` +
		`"limit":{"type":["integer","null"],"description":"How many rows of a table, at most 200; null for 20"}},` +
		`"required":["file","offset","limit"],"additionalProperties":false}`
	return []own{
		{
			name: "list_files", description: "List the files of the canvas: name, type, size in bytes and, where it is known, what is in them.",
			schema: `{"type":"object","properties":{},"required":[],"additionalProperties":false}`,
			work:   func(ctx context.Context, _ json.RawMessage) (any, error) { return f.list(ctx) },
		},
		{
			name: "read_file", description: "Read a file of the canvas, a piece at a time: of a table the columns and some rows, of a text its characters.",
			schema: schema, work: reading(f.read),
			lent: &own{
				description: "Read a text file of the canvas, a piece at a time. Read tables with pandas.read_parquet: they are in the program's folder.",
				schema:      schema, work: reading(f.readText),
			},
		},
	}
}

// value is what a parameter says, or the usual one.
func value(given *int, usual int) int {
	if given == nil {
		return usual
	}
	return *given
}

func (f files) list(ctx context.Context) (any, error) {
	if f.task.canvas() == "" {
		return nil, errNoCanvas
	}
	page, err := f.kept.List(ctx, f.task.Actor, f.task.canvas(), httpapi.PageQuery{Limit: maxListed})
	if err != nil {
		return nil, errors.New("the files cannot be listed at the moment")
	}
	type listed struct {
		Name    string `json:"name"`
		FileID  string `json:"file_id"`
		Type    string `json:"type"`
		Bytes   int64  `json:"bytes"`
		Content string `json:"content,omitempty"`
	}
	list := make([]listed, len(page.Items))
	for i, of := range page.Items {
		list[i] = listed{of.Name, of.FileID, of.Type, of.Size, of.Summary}
	}
	if page.NextCursor != "" {
		return map[string]any{"files": list, "note": fmt.Sprintf("These are the newest %d; there are more.", maxListed)}, nil
	}
	return map[string]any{"files": list}, nil
}

// open finds a file of the canvas and reads it.
func (f files) open(ctx context.Context, name string) (drive.File, []byte, error) {
	if f.task.canvas() == "" {
		return drive.File{}, nil, errNoCanvas
	}
	found, err := f.kept.Find(ctx, f.task.Actor, f.task.canvas(), name)
	if errors.Is(err, drive.ErrMissing) {
		return found, nil, fmt.Errorf("there is no file %q in the canvas; list_files names them", name)
	}
	if err != nil {
		return found, nil, errors.New("the file cannot be read at the moment")
	}
	found, content, err := f.kept.Read(ctx, f.task.Actor, found.FileID, maxRead)
	if err != nil {
		return found, nil, errors.New(loop.Explain(err))
	}
	return found, content, nil
}

// table is a file of the user's that is a table.
func (f files) table(content []byte) tables.File {
	return tables.File{Owner: f.task.Actor.UID, Content: content}
}

type filePart struct {
	File          string
	Offset, Limit *int
}

func (f files) read(ctx context.Context, in filePart) (any, error) {
	of, content, err := f.open(ctx, in.File)
	if err != nil {
		return nil, err
	}
	if of.Type != mediatype.Parquet {
		return textOf(of, content, value(in.Offset, 0))
	}
	limit := value(in.Limit, usualRows)
	if limit < 0 || limit > maxShownRows {
		return nil, fmt.Errorf("limit must be 0 to %d rows; use code for more", maxShownRows)
	}
	rows, err := f.tables.Rows(ctx, f.table(content), value(in.Offset, 0), limit)
	if err != nil {
		return nil, errors.New(loop.Explain(err))
	}
	return rows, nil
}

// readText reads a file for a program. Tables are refused: reading one takes a
// turn of the sandbox, which the program itself holds.
func (f files) readText(ctx context.Context, in filePart) (any, error) {
	of, content, err := f.open(ctx, in.File)
	if err != nil {
		return nil, err
	}
	if of.Type == mediatype.Parquet {
		return nil, fmt.Errorf("%s is a table; read it with pandas.read_parquet(%q)", of.Name, of.Name)
	}
	return textOf(of, content, value(in.Offset, 0))
}

// textOf is a piece of a file that is a text.
func textOf(of drive.File, content []byte, offset int) (any, error) {
	if !utf8.Valid(content) {
		return nil, fmt.Errorf("%s (%s, %d bytes) is neither a table nor a text; use code to read it", of.Name, of.Type, of.Size)
	}
	return part(content, offset)
}

// chartSchema is in the strict subset: all is required, and what is not needed
// is sent as an empty text.
const chartSchema = `{"type":"object","properties":{
	"df_name":{"type":"string","description":"The table: the name of a Parquet file of the canvas, with or without .parquet"},
	"logical_name":{"type":"string","default":"","description":"What the table is about; the chart's file is named after it"},
	"chart_type":{"type":"string","enum":["bar","column","stacked_column","line","scatter"],"description":"bar is horizontal, column is vertical"},
	"x_field":{"type":"string","description":"The column with the categories, the dates or the x values"},
	"x_label":{"type":"string","default":""},
	"y_label":{"type":"string","default":""},
	"series":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"y_field":{"type":"string","description":"A column of numbers"}},"required":["name","y_field"],"additionalProperties":false},"minItems":1,"maxItems":10},
	"title":{"type":"string","default":""},
	"note":{"type":"string","default":"","description":"A line below the chart"}},
	"required":["df_name","logical_name","chart_type","x_field","x_label","y_label","series","title","note"],"additionalProperties":false}`

// drawing is what to draw, and the table that it is drawn from.
type drawing struct {
	Table string `json:"df_name"`
	tables.Chart
}

// chart is the tool that draws a table.
func (f files) chart() own {
	const description = "Draw a table of the canvas and keep the chart there, as an image and as a Vega-Lite specification. Every row is a point: " +
		"aggregate with code first and write the result as Parquet. Supply every parameter; an empty text for what is not needed."
	return own{
		name: "create_chart", description: description, schema: chartSchema, work: reading(f.draw), serial: f.task.canvas() != "",
		lent: &own{description: description + " The table must have been in the canvas before this program began.", schema: chartSchema, work: reading(f.draw)},
	}
}

func (f files) draw(ctx context.Context, in drawing) (any, error) {
	table, c := in.Table, in.Chart
	_, content, err := f.open(ctx, table)
	if err != nil && !strings.HasSuffix(table, ".parquet") {
		_, content, err = f.open(ctx, table+".parquet")
	}
	if err != nil {
		return nil, err
	}
	// A program that draws would wait for itself where nothing else of its user may run.
	resume, err := tool.PauseOf(ctx)(ctx)
	if err != nil {
		return nil, errors.New(loop.Explain(err))
	}
	drawn, err := f.tables.Chart(ctx, f.table(content), c)
	if resumed := resume(ctx); err == nil {
		err = resumed
	}
	if err != nil {
		return nil, errors.New(loop.Explain(err))
	}
	name := c.LogicalName
	if name == "" {
		name = c.Title
	}
	if name == "" {
		name = strings.TrimSuffix(table, ".parquet") + " " + c.Type
	}
	out := map[string]any{"points": drawn.Points}
	for kind, body := range map[string][]byte{"image": drawn.PNG, "vega_lite": drawn.VegaLite} {
		ext := map[string]string{"image": ".png", "vega_lite": ".vl.json"}[kind]
		kept, err := f.keep(ctx, name+ext, body)
		if err != nil {
			return nil, errors.New(loop.Explain(err))
		}
		out[kind] = map[string]any{"name": kept.Name, "file_id": kept.FileID, "bytes": kept.Size}
	}
	return out, nil
}

// keep stores a file of a tool's in the canvas.
func (f files) keep(ctx context.Context, name string, content []byte) (drive.File, error) {
	return f.kept.Save(ctx, f.task.Actor, drive.Content{
		CanvasID: f.task.canvas(), Name: name, Body: bytes.NewReader(content), Source: drive.Agent, ResultID: f.task.Run.ResultID, Version: f.task.Run.Version, Replace: true,
	})
}
