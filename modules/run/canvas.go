package run

import "time"

// Canvas is a place that groups runs and files.
type Canvas struct {
	CanvasID  string
	Title     string
	CreatedAt time.Time
	UpdatedAt time.Time
}

const (
	// targetCanvas marks a run whose target is a canvas.
	targetCanvas  = "canvas"
	untitled      = "Untitled"
	maxCanvasName = 200 // characters
)
