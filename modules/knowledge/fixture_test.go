package knowledge_test

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/knowledge"
	"github.com/portico-run/portico/modules/knowledge/embedding"
	"github.com/portico-run/portico/modules/knowledge/knowledgetest"
	"github.com/portico-run/portico/modules/knowledge/read"
)

var (
	anna = actor.Actor{UID: "u-anna", Scope: actor.Full}
	ben  = actor.Actor{UID: "u-ben", Scope: actor.Full}
)

type fixture struct {
	*knowledge.Service
	db       *database.DB
	service  *knowledgetest.Embeddings
	settings knowledge.Settings
}

// setup makes a store; with says whether there are vectors.
func setup(t *testing.T, db *database.DB, with bool) *fixture {
	t.Helper()
	for _, a := range []actor.Actor{anna, ben} {
		require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
			return database.Unscoped(tx.Handle).Exec("INSERT INTO users (uid, name) VALUES (?, ?)", a.UID, a.UID).Error
		}))
	}
	f := &fixture{db: db, settings: knowledge.Settings{MaxPassages: 1000, MaxBytes: 1 << 20, MaxDocument: 1 << 20, Memory: 64 << 20}}
	if with {
		f.service = &knowledgetest.Embeddings{}
	}
	f.open(t, knowledgetest.Model)
	return f
}

// open makes the store anew, as after a start of the server.
func (f *fixture) open(t *testing.T, model string) {
	t.Helper()
	d := knowledge.Deps{DB: f.db, Reader: func(string) read.Reader { return read.Any{} }, Settings: f.settings, Logger: slog.New(slog.DiscardHandler)}
	if f.service != nil {
		server := httptest.NewServer(f.service)
		t.Cleanup(server.Close)
		client, err := embedding.New(embedding.Config{URL: server.URL, APIKey: knowledgetest.Key, Model: model, Timeout: 10 * time.Second})
		require.NoError(t, err)
		d.Embedder = client
	}
	f.Service = knowledge.New(d).Service
}

func text(name, content string) read.Source {
	return read.Source{
		Name: name, MIME: "text/markdown", Size: int64(len(content)),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil },
	}
}

func (f *fixture) add(t *testing.T, o knowledge.Owner, collection, name, content string) knowledge.Added {
	t.Helper()
	added, err := f.Add(t.Context(), o, knowledge.Addition{Collection: collection, Source: text(name, content)})
	require.NoError(t, err)
	return added
}

// find is the sources that a search finds, in order.
func (f *fixture) find(t *testing.T, a actor.Actor, q knowledge.Query) []string {
	t.Helper()
	found, err := f.Search(t.Context(), a, q)
	require.NoError(t, err)
	sources := []string{}
	for _, h := range found.Hits {
		sources = append(sources, h.Source)
	}
	return sources
}

// manual adds all chapters.
func (f *fixture) manual(t *testing.T, o knowledge.Owner) {
	t.Helper()
	chapters, err := knowledgetest.Manual()
	require.NoError(t, err)
	for _, c := range chapters {
		_, err := f.Add(t.Context(), o, knowledge.Addition{Collection: "manual", Source: c})
		require.NoError(t, err)
	}
}

// quality asks the questions about the manual; near goes by the vectors alone.
func (f *fixture) quality(t *testing.T, near bool) knowledgetest.Quality {
	t.Helper()
	q, err := knowledgetest.Measure(t.Context(), func(ctx context.Context, question string) ([]knowledgetest.Place, error) {
		found, err := f.Search(ctx, anna, knowledge.Query{Text: question, TopK: knowledge.MaxTopK})
		if near {
			slices.SortStableFunc(found.Hits, func(a, b knowledge.Hit) int { return cmp.Compare(b.Similarity, a.Similarity) })
		}
		places := make([]knowledgetest.Place, len(found.Hits))
		for i, h := range found.Hits {
			places[i] = knowledgetest.Place{Source: h.Source, Section: h.Section}
		}
		return places, err
	})
	require.NoError(t, err)
	return q
}
