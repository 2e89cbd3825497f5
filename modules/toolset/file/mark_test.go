package file_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/toolset/file"
	"github.com/portico-run/portico/modules/toolset/mark"
)

// A file makes methods plain functions that only read or may be repeated; what
// contradicts that, and a refused name, stops the file with a sentence.
func TestMarksOfFiles(t *testing.T) {
	t.Parallel()
	apply := func(name, method, more string) (*shelf, error) {
		var s shelf
		_, err := service(&s).Apply(t.Context(), []file.File{{Name: "f.yaml", Content: fmt.Appendf(nil,
			"key: k\nname: K\nbilling: 0\nmethods:\n  - {name: %s, endpoint: https://example.com/a, method: %s, %s}\n", name, method, more)}})
		return &s, err
	}
	for more, want := range map[string]mark.Mark{
		"sandbox_callable: true": {ReadOnly: true},

		"sandbox_callable: true, read_only: false, idempotent: true": {Idempotent: true},
	} {
		s, err := apply("get", "GET", more)
		require.NoError(t, err, more)
		want.Toolset, want.Tool, want.Name, want.FromFile = "k", "get", "get", true
		require.Equal(t, []mark.Mark{want}, s.stored[0].Marks, more)
	}
	for _, c := range [][4]string{
		{"put", "POST", "sandbox_callable: true", "only if it only reads"},
		{"put", "PUT", "sandbox_callable: true, read_only: true", "read_only of \"put\" contradicts its HTTP method PUT"},
		{"get", "GET", "sandbox_callable: true, allowedCallers: [direct]", "contradicts its allowedCallers"},
		{"rlm_reset", "GET", "sandbox_callable: true", "never called from code"},
		{"a-b", "GET", "sandbox_callable: true", "cannot be a function named \"a-b\""},
		{"llm_query", "GET", "sandbox_callable: true", "which every program has"},
	} {
		s, err := apply(c[0], c[1], c[2])
		require.ErrorContains(t, err, c[3])
		require.ErrorContains(t, err, "f.yaml:5: ")
		require.Empty(t, s.stored)
	}
	s, err := apply("put", "PUT", "idempotent: true")
	require.NoError(t, err)
	require.Empty(t, s.stored[0].Marks)
}
