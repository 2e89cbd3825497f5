package retention

import (
	"context"
	"time"
)

// Line is what a table keeps.
type Line struct {
	Word

	// Keep is what the setting says; zero for ever, and where there is none.
	Keep time.Duration
	// Due is how many rows, of run_events how many runs with events, would go now, up to
	// MaxDue.
	Due int64
}

// MaxDue is how far what is due is counted.
const MaxDue = 10_000

// Show says of every table how long its rows are kept, and how much would go now.
func (k *Keeper) Show(ctx context.Context) ([]Line, error) {
	now, h := k.deps.DB.Now(), k.deps.DB.Read(ctx)
	var lines []Line
	for _, w := range Words() {
		line := Line{Word: w}
		for _, j := range k.jobs() {
			if j.table != w.Table || j.keep == 0 {
				continue
			}
			line.Keep = j.keep
			var err error
			if line.Due, err = k.rows.count(h, j.table, now.Add(-j.keep), MaxDue); err != nil {
				return nil, err
			}
		}
		lines = append(lines, line)
	}
	return lines, nil
}
