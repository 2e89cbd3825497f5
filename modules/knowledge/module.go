// Package knowledge keeps documents in passages and finds those that answer a
// question: by their words, in the database, and by the meaning of their texts
// where a service makes vectors. It answers questions with a model and names its
// sources. What it keeps belongs to users, or to the operator for all of them.
package knowledge

import (
	"context"
	"log/slog"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/knowledge/read"
	"github.com/portico-run/portico/modules/knowledge/vector"
)

// Embedder makes vectors of texts, each of length 1.
type Embedder interface {
	// Model names what makes them: vectors of different names do not compare.
	Model() string
	Embed(ctx context.Context, texts []string) ([][]float32, error)
	EmbedQuery(ctx context.Context, text string) ([]float32, error)
}

// Deps is what the module needs.
type Deps struct {
	DB *database.DB
	// Embedder is nil where no service makes vectors.
	Embedder Embedder
	// Reader reads what is added, at the cost of a user; empty is the server's own.
	Reader   func(uid string) read.Reader
	Files    Files
	Settings Settings
	Logger   *slog.Logger
}

// Settings are the limits of the store.
type Settings struct {
	// MaxPassages and MaxBytes are how many passages one user has at most, and
	// how much text in bytes. The operator's collections have no such limit.
	MaxPassages, MaxBytes int64
	// MaxDocument is the largest file that is read, in bytes.
	MaxDocument int64
	// Memory is how much the vectors of all collections may take in memory.
	Memory int64
}

// Module is the wired package.
type Module struct{ Service *Service }

// New wires the module and starts nothing.
func New(d Deps) *Module {
	return &Module{Service: &Service{deps: d, vectors: vector.NewCache(stored{db: d.DB}, d.Settings.Memory), now: d.DB.Now}}
}

// Service is the rules of the store.
type Service struct {
	deps    Deps
	rows    repository
	vectors *vector.Cache
	now     func() time.Time
}
