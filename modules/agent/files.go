package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/mediatype"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/program/tables"
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

// files are the tools for the files of the canvas.
func (j *job) files() []Tool {
	return []Tool{
		j.builtin("list_files", "List the files of the canvas: name, type, size in bytes and, where it is known, what is in them.",
			`{"type":"object","properties":{},"required":[],"additionalProperties":false}`,
			func(ctx context.Context, _ json.RawMessage) (any, error) { return j.listFiles(ctx) }),
		j.builtin(readFile, "Read a file of the canvas, a piece at a time: of a table the columns and some rows, of a text its characters.",
			`{"type":"object","properties":{"file":{"type":"string","description":"Its name or id"},`+
				`"offset":{"type":["integer","null"],"description":"The first row of a table or byte of a text; null for the beginning"},`+
				`"limit":{"type":["integer","null"],"description":"How many rows of a table, at most 200; null for 20"}},`+
				`"required":["file","offset","limit"],"additionalProperties":false}`,
			func(ctx context.Context, arguments json.RawMessage) (any, error) {
				var in struct {
					File          string
					Offset, Limit *int
				}
				if err := json.Unmarshal(arguments, &in); err != nil {
					return nil, err
				}
				return j.readFile(ctx, in.File, value(in.Offset, 0), value(in.Limit, usualRows))
			}),
	}
}

// value is what a parameter says, or the usual one.
func value(given *int, usual int) int {
	if given == nil {
		return usual
	}
	return *given
}

func (j *job) listFiles(ctx context.Context) (any, error) {
	if j.run.CanvasID == "" {
		return nil, errNoCanvas
	}
	page, err := j.service.Access.Files.List(ctx, j.actor, j.run.CanvasID, httpapi.PageQuery{Limit: maxListed})
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
	for i, f := range page.Items {
		list[i] = listed{f.Name, f.FileID, f.Type, f.Size, f.Summary}
	}
	if page.NextCursor != "" {
		return map[string]any{"files": list, "note": fmt.Sprintf("These are the newest %d; there are more.", maxListed)}, nil
	}
	return map[string]any{"files": list}, nil
}

// open finds a file of the canvas and reads it.
func (j *job) open(ctx context.Context, name string) (drive.File, []byte, error) {
	if j.run.CanvasID == "" {
		return drive.File{}, nil, errNoCanvas
	}
	f, err := j.service.Access.Files.Find(ctx, j.actor, j.run.CanvasID, name)
	if errors.Is(err, drive.ErrMissing) {
		return f, nil, fmt.Errorf("there is no file %q in the canvas; list_files names them", name)
	}
	if err != nil {
		return f, nil, errors.New("the file cannot be read at the moment")
	}
	f, content, err := j.service.Access.Files.Read(ctx, j.actor, f.FileID, maxRead)
	if err != nil {
		return f, nil, errors.New(explain(err))
	}
	return f, content, nil
}

// explain is what a model may know of an error, with what to do about it.
func explain(err error) string {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok {
		return "the server has a fault"
	}
	return strings.TrimSpace(e.Message + " " + e.Detail)
}

func (j *job) readFile(ctx context.Context, name string, offset, limit int) (any, error) {
	f, content, err := j.open(ctx, name)
	if err != nil {
		return nil, err
	}
	if f.Type == mediatype.Parquet {
		if limit < 0 || limit > maxShownRows {
			return nil, fmt.Errorf("limit must be 0 to %d rows; use code for more", maxShownRows)
		}
		rows, err := j.service.Access.Tables.Rows(ctx, content, offset, limit)
		if err != nil {
			return nil, errors.New(explain(err))
		}
		return rows, nil
	}
	return textOf(f, content, offset)
}

// textOf is a piece of a file that is a text.
func textOf(f drive.File, content []byte, offset int) (any, error) {
	if !utf8.Valid(content) {
		return nil, fmt.Errorf("%s (%s, %d bytes) is neither a table nor a text; use code to read it", f.Name, f.Type, f.Size)
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

// createChart is its name.
const createChart = "create_chart"

// chart is the tool that draws a table.
func (j *job) chart() Tool {
	t := j.builtin(createChart, "Draw a table of the canvas and keep the chart there, as an image and as a Vega-Lite specification. Every row is a point: "+
		"aggregate with code first and write the result as Parquet. Supply every parameter; an empty text for what is not needed.",
		chartSchema, func(ctx context.Context, arguments json.RawMessage) (any, error) {
			var in struct {
				Table string `json:"df_name"`
				tables.Chart
			}
			if err := json.Unmarshal(arguments, &in); err != nil {
				return nil, err
			}
			return j.draw(ctx, in.Table, in.Chart)
		})
	t.Serial = j.changesFiles()
	return t
}

func (j *job) draw(ctx context.Context, table string, c tables.Chart) (any, error) {
	_, content, err := j.open(ctx, table)
	if err != nil && !strings.HasSuffix(table, ".parquet") {
		_, content, err = j.open(ctx, table+".parquet")
	}
	if err != nil {
		return nil, err
	}
	drawn, err := j.service.Access.Tables.Chart(ctx, content, c)
	if err != nil {
		return nil, errors.New(explain(err))
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
		f, err := j.keep(ctx, name+ext, body)
		if err != nil {
			return nil, errors.New(explain(err))
		}
		out[kind] = map[string]any{"name": f.Name, "file_id": f.FileID, "bytes": f.Size}
	}
	return out, nil
}

// keep stores a file of a tool's in the canvas.
func (j *job) keep(ctx context.Context, name string, content []byte) (drive.File, error) {
	return j.service.Access.Files.Save(ctx, j.actor, drive.Content{
		CanvasID: j.run.CanvasID, Name: name, Body: bytes.NewReader(content), Source: drive.Agent, ResultID: j.run.ResultID, Version: j.run.Version, Replace: true,
	})
}
