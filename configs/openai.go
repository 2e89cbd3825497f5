package configs

import (
	"time"
)

// OpenAI is what serves the forms of OpenAI's API.
type OpenAI struct {
	// API answers POST /v1/responses and POST /v1/chat/completions.
	API bool `key:"api" env:"OPENAI_API"`
	// StoredLife is how long responses are kept; MaxStored is how many of one user, and
	// MaxStoredBytes how much room these take. The oldest make room.
	StoredLife     time.Duration `key:"storedLife" env:"OPENAI_STORED_LIFE"`
	MaxStored      int           `key:"maxStored" env:"OPENAI_MAX_STORED"`
	MaxStoredBytes int64         `key:"maxStoredBytes" env:"OPENAI_MAX_STORED_BYTES"`
}

func (l *loader) validateOpenAI() {
	o := &l.config.OpenAI
	mustBeWithin(l, &o.StoredLife, time.Minute, 366*24*time.Hour, "between 1m and 8784h")
	mustBeWithin(l, &o.MaxStored, 1, 1_000_000, "between 1 and 1000000")
	mustBeWithin(l, &o.MaxStoredBytes, 64*mib, 1<<40, "at least 64MiB") // the largest request, twice
}
