package knowledge_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/knowledge"
)

// The floors are a little below what the searches reach, and far above what
// is left when one of them is broken.
func TestQuestionsFindTheirPassages(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db, true)
		f.manual(t, knowledge.Of(anna))
		fused, vectors := f.quality(t, false), f.quality(t, true)
		f.service = nil
		f.open(t, "")
		words := f.quality(t, false)
		t.Logf("words: %s, %d missed: %q", words, len(words.Missed), words.Missed[:min(12, len(words.Missed))])
		t.Logf("vectors: %s, %d missed: %q", vectors, len(vectors.Missed), vectors.Missed[:min(12, len(vectors.Missed))])
		t.Logf("fused: %s, %d missed: %q", fused, len(fused.Missed), fused.Missed[:min(12, len(fused.Missed))])
		require.Equal(t, 60, words.Questions)
		require.GreaterOrEqual(t, words.Recall, 0.9)
		require.GreaterOrEqual(t, words.MRR, 0.74)
		require.GreaterOrEqual(t, vectors.Recall, 0.78)
		require.GreaterOrEqual(t, vectors.MRR, 0.6)
		require.GreaterOrEqual(t, fused.Recall, 0.88)
		require.GreaterOrEqual(t, fused.MRR, 0.68)
	})
}
