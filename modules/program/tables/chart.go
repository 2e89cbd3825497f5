package tables

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
)

// Chart is what to draw: docs/wire/refly.md#charts. Texts that are empty are left
// out.
type Chart struct {
	LogicalName string   `json:"logical_name"`
	Type        string   `json:"chart_type"`
	X           string   `json:"x_field"`
	XLabel      string   `json:"x_label"`
	YLabel      string   `json:"y_label"`
	Series      []Series `json:"series"`
	Title       string   `json:"title"`
	Note        string   `json:"note"`
}

// Series is one column that is drawn.
type Series struct {
	Name string `json:"name"`
	Y    string `json:"y_field"`
}

// Drawing is a chart as an image and as a Vega-Lite specification that holds
// its data.
type Drawing struct {
	PNG      []byte
	VegaLite []byte
	Points   int
}

// ChartTypes are the kinds of charts. A bar chart has its categories on the
// vertical axis.
func ChartTypes() []string { return []string{"bar", "column", "stacked_column", "line", "scatter"} }

// maxSeries is how many columns one chart shows.
const maxSeries = 10

// Chart draws columns of a file.
func (s *Service) Chart(ctx context.Context, f File, c Chart) (Drawing, error) {
	switch {
	case !slices.Contains(ChartTypes(), c.Type):
		return Drawing{}, ErrInvalid.Do(fmt.Sprintf("chart_type must be one of %v.", ChartTypes()))
	case len(c.Series) == 0 || len(c.Series) > maxSeries:
		return Drawing{}, ErrInvalid.Do(fmt.Sprintf("A chart has 1 to %d series.", maxSeries))
	}
	var drawn struct{ Points int }
	files, err := s.work(ctx, f, chartProgram, c, &drawn)
	if err != nil {
		return Drawing{}, err
	}
	d := Drawing{PNG: files["chart.png"], VegaLite: files["chart.vl.json"], Points: drawn.Points}
	if len(d.PNG) == 0 || len(d.VegaLite) == 0 {
		return Drawing{}, errors.New("the program that draws left no chart")
	}
	return d, nil
}

//go:embed chart.py
var chartProgram string
