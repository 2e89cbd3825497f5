package main

import (
	"image/color"
	"os"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// line is one line of a panel.
type line struct {
	name   string
	color  color.Color
	points plotter.XYs
}

// panel is one diagram; all share their time axis.
type panel struct {
	title string
	lines []line
}

func blue() color.Color  { return color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff} }
func red() color.Color   { return color.RGBA{R: 0xd6, G: 0x27, B: 0x28, A: 0xff} }
func faint() color.Color { return color.Gray{Y: 0xb0} }

// panels are what happened over all phases, and where each phase began.
func panels(phases []phase) (all []panel, borders []float64, end float64) {
	var done, refused, p50, p99, own, tree, goroutines, descriptors plotter.XYs
	for _, p := range phases {
		borders = append(borders, end)
		for n, s := range p.seconds {
			x := end + float64(n)
			done, refused = append(done, plotter.XY{X: x, Y: float64(s.done)}), append(refused, plotter.XY{X: x, Y: float64(s.refused)})
			if s.p50 > 0 {
				p50, p99 = append(p50, plotter.XY{X: x, Y: milliseconds(s.p50)}), append(p99, plotter.XY{X: x, Y: milliseconds(s.p99)})
			}
		}
		for _, u := range p.usage {
			x := end + u.at.Seconds()
			own, tree = append(own, plotter.XY{X: x, Y: float64(u.RSS) / (1 << 20)}), append(tree, plotter.XY{X: x, Y: float64(u.Tree) / (1 << 20)})
			goroutines, descriptors = append(goroutines, plotter.XY{X: x, Y: float64(u.Goroutines)}), append(descriptors, plotter.XY{X: x, Y: float64(u.Descriptors)})
		}
		end += float64(len(p.seconds))
	}
	return []panel{
		{"Jobs a second", []line{{"done", blue(), done}, {"refused", red(), refused}}},
		{"A call in a run, ms", []line{{"p50", blue(), p50}, {"p99", red(), p99}}},
		{"Memory, MiB", []line{{"server", blue(), own}, {"with sandboxes", red(), tree}}},
		{"Held by the server", []line{{"goroutines", blue(), goroutines}, {"descriptors", red(), descriptors}}},
	}, borders, end
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// drawPhases writes the phases as a picture.
func drawPhases(phases []phase, file string) (err error) {
	const width, height = 1200, 1100
	described, borders, end := panels(phases)
	plots := make([][]*plot.Plot, len(described))
	for n, d := range described {
		p, err := d.plot(borders, end)
		if err != nil {
			return err
		}
		plots[n] = []*plot.Plot{p}
	}
	for n, p := range phases {
		described[0].title += map[bool]string{true: ": ", false: ", "}[n == 0] + p.name
	}
	plots[0][0].Title.Text = described[0].title
	plots[len(plots)-1][0].X.Label.Text = "seconds"
	img := vgimg.New(width*vg.Inch/vgimg.DefaultDPI, height*vg.Inch/vgimg.DefaultDPI)
	tiles := draw.Tiles{Rows: len(plots), Cols: 1, PadX: vg.Points(8), PadY: vg.Points(8), PadTop: vg.Points(8), PadBottom: vg.Points(8), PadLeft: vg.Points(8), PadRight: vg.Points(16)}
	for n, row := range plot.Align(plots, tiles, draw.New(img)) {
		plots[n][0].Draw(row[0])
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(f); err != nil {
		return err
	}
	return f.Close()
}

func (d panel) plot(borders []float64, end float64) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = d.title
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	var top float64
	for _, l := range d.lines {
		if len(l.points) == 0 {
			continue
		}
		drawn, err := plotter.NewLine(l.points)
		if err != nil {
			return nil, err
		}
		drawn.Color = l.color
		p.Add(drawn)
		p.Legend.Add(l.name, drawn)
		for _, point := range l.points {
			top = max(top, point.Y)
		}
	}
	for _, x := range borders {
		border, err := plotter.NewLine(plotter.XYs{{X: x, Y: 0}, {X: x, Y: top}})
		if err != nil {
			return nil, err
		}
		border.Color, border.Dashes = faint(), []vg.Length{vg.Points(4), vg.Points(4)}
		p.Add(border)
	}
	// Room for the legend above the lines.
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, end, 0, 1.3*max(top, 1)
	return p, nil
}
