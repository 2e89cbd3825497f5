package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/portico-run/portico/dev/instance"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/knowledge"
	"github.com/portico-run/portico/modules/knowledge/embedding"
	"github.com/portico-run/portico/modules/knowledge/knowledgetest"
	reading "github.com/portico-run/portico/modules/knowledge/read"
	"github.com/portico-run/portico/modules/knowledge/vector"
)

// Least recall@10 of words and of both together, and the most processor time of a
// comparison with so many vectors.
const (
	wantRecall    = 0.88
	wantCompared  = 100 * time.Millisecond
	vectorCount   = 100_000
	vectorNumbers = 1024
)

// benchKnowledge asks questions about a manual, in SQLite and, where there is one,
// in PostgreSQL, and compares a question with many vectors.
func benchKnowledge(ctx context.Context, _ options) (rows []result, err error) {
	dir, err := os.MkdirTemp("", "portico-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, d := range databases(dir) {
		if d.url == "" {
			made, drop, err := instance.NewDatabase(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, drop(context.WithoutCancel(ctx))) }()
			d.url = made
		}
		more, err := knowledgeQuality(ctx, d.name, d.url)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	compared, err := compareVectors()
	return append(rows, compared), err
}

// knowledgeQuality measures the search of one database.
func knowledgeQuality(ctx context.Context, name, address string) (rows []result, err error) {
	db, err := database.Open(ctx, database.Config{URL: address, MaxConnections: 4})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.Migrate(ctx); err != nil {
		return nil, err
	}
	service := httptest.NewServer(&knowledgetest.Embeddings{})
	defer service.Close()
	client, err := embedding.New(embedding.Config{URL: service.URL, APIKey: knowledgetest.Key, Model: knowledgetest.Model, Timeout: time.Minute})
	if err != nil {
		return nil, err
	}
	deps := knowledge.Deps{
		DB: db, Embedder: client, Logger: slog.New(slog.DiscardHandler), Reader: func(string) reading.Reader { return reading.Any{} },
		Settings: knowledge.Settings{MaxDocument: mebibyte, Memory: 64 * mebibyte},
	}
	both := knowledge.New(deps).Service
	chapters, err := knowledgetest.Manual()
	if err != nil {
		return nil, err
	}
	for _, c := range chapters {
		if _, err := both.Add(ctx, knowledge.Shared(), knowledge.Addition{Source: c}); err != nil {
			return nil, err
		}
	}
	deps.Embedder = nil
	for _, way := range []struct {
		what   string
		store  *knowledge.Service
		near   bool
		target float64
	}{{"words", knowledge.New(deps).Service, false, wantRecall}, {"vectors of a stand-in", both, true, 0}, {"both", both, false, wantRecall}} {
		q, err := knowledgetest.Measure(ctx, func(ctx context.Context, question string) ([]knowledgetest.Place, error) {
			return places(ctx, way.store, question, way.near)
		})
		if err != nil {
			return nil, err
		}
		row := result{
			what:     fmt.Sprintf("knowledge, %s: %d questions to %d passages by %s, recall@10 and MRR", name, q.Questions, knowledgetest.Passages, way.what),
			measured: fmt.Sprintf("%.3f, %.3f", q.Recall, q.MRR), baseline: "-", ratio: "-", holds: q.Recall >= way.target,
		}
		if way.target > 0 {
			row.target = fmt.Sprintf("recall >= %.2f", way.target)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// places are where a search finds passages; near goes by the vectors alone.
func places(ctx context.Context, s *knowledge.Service, question string, near bool) ([]knowledgetest.Place, error) {
	found, err := s.Search(ctx, actor.Actor{UID: "u-bench"}, knowledge.Query{Text: question, TopK: knowledge.MaxTopK})
	if near {
		slices.SortStableFunc(found.Hits, func(a, b knowledge.Hit) int { return cmp.Compare(b.Similarity, a.Similarity) })
	}
	list := make([]knowledgetest.Place, len(found.Hits))
	for i, h := range found.Hits {
		list[i] = knowledgetest.Place{Source: h.Source, Section: h.Section}
	}
	return list, err
}

// compareVectors measures processor time: other work on the machine does not
// lengthen it much.
func compareVectors() (result, error) {
	r := rand.New(rand.NewPCG(1, 2)) // the same numbers each time
	numbers := make([]float32, vectorCount*vectorNumbers)
	for i := range numbers {
		numbers[i] = r.Float32() - 0.5
	}
	entries := make([]vector.Entry, vectorCount)
	for i := range entries {
		entries[i] = vector.Entry{PK: int64(i), Vector: numbers[i*vectorNumbers : (i+1)*vectorNumbers]}
	}
	set, query := vector.NewSet(entries), entries[vectorCount/2].Vector
	const times = 10
	var used, wall []time.Duration
	for range times {
		before, err := processorTime()
		if err != nil {
			return result{}, err
		}
		began := time.Now()
		if got := set.Nearest(query, "", 100); got[0].PK != vectorCount/2 {
			return result{}, errors.New("the nearest vector was not found")
		}
		wall = append(wall, time.Since(began))
		after, err := processorTime()
		if err != nil {
			return result{}, err
		}
		used = append(used, after-before)
	}
	median := percentile(used, 0.5)
	return result{
		what:     fmt.Sprintf("knowledge: a question compared with %d vectors of %d numbers, processor time (wall %s)", vectorCount, vectorNumbers, ms(percentile(wall, 0.5))),
		measured: ms(median), baseline: "-", ratio: "-", target: "<= " + ms(wantCompared), holds: median <= wantCompared,
	}, nil
}

func processorTime() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
