package run

import (
	"time"

	"github.com/portico-run/portico/internal/errs"
)

// Canvas is a place that groups runs and files.
type Canvas struct {
	CanvasID  string
	Title     string
	CreatedAt time.Time
	UpdatedAt time.Time
	// Runs and Files are how many there are in it, and Bytes what its files take.
	Runs, Files int
	Bytes       int64
}

// ErrCanvasBusy is the refusal to delete a canvas while a run of it has not ended.
var ErrCanvasBusy = errs.New(errs.Conflict, "Runs of this canvas have not ended.").Do("Wait for them, or end them with POST /v1/action/abort.")

const (
	// targetCanvas marks a run whose target is a canvas.
	targetCanvas  = "canvas"
	untitled      = "Untitled"
	maxCanvasName = 200 // characters
)
