package tables_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image/png"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/table"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/program/tables"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/forkserver"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/sandbox/sandboxtest"
)

var update = flag.Bool("update", false, "write the golden files")

func service(t *testing.T) *tables.Service {
	t.Helper()
	root := sandboxtest.Root()
	testenv.Sandbox(t, root)
	d, err := forkserver.New(guest.Config{
		Root:    root,
		Preload: []string{"pandas", "pyarrow.parquet", "matplotlib.figure"},
	})
	require.NoError(t, err)
	engine := sandbox.New(sandbox.Deps{Driver: d, MaxConcurrent: 2, MaxQueue: 100, Queue: sandbox.Queue{Timeout: time.Minute}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, engine.Stop(t.Context())) })
	return &tables.Service{Sandbox: engine, Timeout: time.Minute}
}

func parquet(t *testing.T, csv string) tables.File {
	t.Helper()
	var out bytes.Buffer
	_, err := table.ConvertCSV(t.Context(), strings.NewReader(csv), &out)
	require.NoError(t, err)
	return tables.File{Owner: "u-1", Content: out.Bytes()}
}

const sales = `month,region,sold,returned
2026-01-01,North,10,1
2026-02-01,North,12.5,
2026-03-01,South,9,2
`

func TestRows(t *testing.T) {
	t.Parallel()
	s := service(t)
	got, err := s.Rows(t.Context(), parquet(t, sales), 1, 5)
	require.NoError(t, err)
	text, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, `{"totalRows":3,"columns":[{"name":"month","type":"date32[day]"},{"name":"region","type":"string"},
		{"name":"sold","type":"double"},{"name":"returned","type":"int64"}],"from":1,"rows":[
		{"month":"2026-02-01","region":"North","sold":12.5,"returned":null},{"month":"2026-03-01","region":"South","sold":9,"returned":2}]}`, string(text))
	got, err = s.Rows(t.Context(), parquet(t, sales), 7, 5)
	require.NoError(t, err)
	require.Empty(t, got.Rows)
	_, err = s.Rows(t.Context(), tables.File{Content: []byte("no table")}, 0, 5)
	require.ErrorIs(t, err, tables.ErrInvalid)
	require.Contains(t, detail(err), "It is no Parquet file")
	_, err = s.Rows(t.Context(), parquet(t, sales), 0, tables.MaxRows+1)
	require.ErrorIs(t, err, tables.ErrInvalid)
}

// stopping stops its engine as soon as it has a job.
type stopping struct{ engine *sandbox.Engine }

// Run implements tables.Sandbox.
func (s stopping) Run(ctx context.Context, job sandbox.Job) (sandbox.Result, error) {
	x, err := s.engine.Begin(ctx, job)
	if err != nil {
		return sandbox.Result{}, err
	}
	if err := s.engine.Stop(ctx); err != nil {
		return sandbox.Result{}, err
	}
	return x.Result()
}

// A table that could not be read because the server stops is not an empty one.
func TestATableWhileTheSandboxStops(t *testing.T) {
	t.Parallel()
	s := service(t)
	engine, ok := s.Sandbox.(*sandbox.Engine)
	require.True(t, ok)
	s.Sandbox = stopping{engine}
	_, err := s.Rows(t.Context(), parquet(t, sales), 0, 5)
	require.ErrorIs(t, err, sandbox.ErrUnavailable)
}

func detail(err error) string {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok {
		return ""
	}
	return e.Detail
}

func TestCharts(t *testing.T) {
	t.Parallel()
	s := service(t)
	data := parquet(t, sales)
	for _, kind := range tables.ChartTypes() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d, err := s.Chart(t.Context(), data, tables.Chart{
				Type: kind, X: "month", YLabel: "Pieces", Title: "Costs $5 & 6$", Note: "Made up",
				Series: []tables.Series{{"Sold", "sold"}, {"Returned", "returned"}},
			})
			require.NoError(t, err)
			require.Equal(t, 5, d.Points)
			picture, err := png.Decode(bytes.NewReader(d.PNG))
			require.NoError(t, err)
			require.Greater(t, picture.Bounds().Dx(), 600)
			golden := filepath.Join("testdata", kind+".vl.json")
			if *update {
				require.NoError(t, os.WriteFile(golden, d.VegaLite, 0o600))
				require.NoError(t, os.WriteFile(filepath.Join(os.TempDir(), kind+".png"), d.PNG, 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(string(want), string(d.VegaLite)))
		})
	}
}

func TestChartsThatCannotBeDrawn(t *testing.T) {
	t.Parallel()
	s := service(t)
	one := []tables.Series{{"", "sold"}}
	var many strings.Builder
	many.WriteString("x,sold\n")
	for n := range 5001 {
		fmt.Fprintf(&many, "k%d,%d\n", n, n)
	}
	for name, c := range map[string]struct {
		csv   string
		chart tables.Chart
		want  string
	}{
		"kind":          {sales, tables.Chart{Type: "pie", X: "month", Series: one}, "chart_type must be one of"},
		"no series":     {sales, tables.Chart{Type: "line", X: "month"}, "1 to 10 series"},
		"no column":     {sales, tables.Chart{Type: "line", X: "day", Series: one}, "There is no column 'day'; the columns are: month, region, sold, returned."},
		"text":          {sales, tables.Chart{Type: "line", X: "month", Series: []tables.Series{{"", "region"}}}, "'region' is not numeric"},
		"same names":    {sales, tables.Chart{Type: "line", X: "month", Series: []tables.Series{{"", "sold"}, {"", "sold"}}}, "the same name"},
		"no rows":       {"a,sold\n", tables.Chart{Type: "line", X: "a", Series: []tables.Series{{"", "sold"}}}, "'sold' is not numeric"},
		"many points":   {many.String(), tables.Chart{Type: "scatter", X: "x", Series: one}, "5001 points are too many"},
		"many bars":     {many.String()[:3000], tables.Chart{Type: "bar", X: "x", Series: one}, "bars are too many"},
		"damaged table": {"", tables.Chart{Type: "bar", X: "x", Series: one}, "It is no Parquet file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := tables.File{Content: []byte("PAR1 and nothing more")}
			if c.csv != "" {
				data = parquet(t, c.csv[:strings.LastIndexByte(c.csv, '\n')+1])
			}
			_, err := s.Chart(t.Context(), data, c.chart)
			require.ErrorIs(t, err, tables.ErrInvalid)
			require.Contains(t, detail(err), c.want)
		})
	}
}
