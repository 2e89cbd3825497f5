package vendors_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/connector/vendors/vendorstest"
)

// Each stand-in is what the client library that its vendor publishes takes for
// the vendor.
func TestTheStandInsAreTakenForTheVendors(t *testing.T) {
	t.Parallel()
	tools := testenv.Need(t, "PORTICO_PYTOOLS", "tools/pytools.sh prints it")
	for vendor, c := range map[string]struct {
		start func(testing.TB) *vendorstest.Server
		more  []string
		want  string
	}{
		"perplexity": {vendorstest.Perplexity, nil, `{
			"answer": "About tea: it is so [1].", "cost": 0.0125, "citations": ["https://example.com/a"], "sources": ["A"],
			"search": ["https://example.com/a", "https://example.com/b"], "refused": "AuthenticationError"}`},
		"jina": {vendorstest.Jina, nil, `{
			"page": [200, "Example", true], "shot": "https://storage.example.com/shot.png", "search": ["tea 0", "tea 1", "tea 2"], "refused": "HTTPStatusError"}`},
		"apify": {vendorstest.Apify, nil, `{
			"run": ["SUCCEEDED", 0.03], "failed": ["FAILED", "There is no such manager"], "items": [1500, 3, 1000], "refused": "UnauthorizedError"}`},
		"notion": {vendorstest.Notion, []string{
			vendorstest.NotionPage, vendorstest.NotionDatabase, vendorstest.NotionSource, vendorstest.NotionRow, vendorstest.NotionUser,
		}, `{
			"database": true, "rows": 2, "columns": ["Done", "Task"], "block": ["paragraph", true], "search": 1, "user": ["Ada", 1], "page": true,
			"property": "title", "comment": "comment", "upload": ["pending", "uploaded", 5], "refused": ["APIResponseError", "APIResponseError"]}`},
	} {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			s := c.start(t)
			arguments := append([]string{"testdata/vendor.py", vendor, s.URL, vendorstest.Token}, c.more...)
			out, err := exec.CommandContext(t.Context(), filepath.Join(tools, "bin", "python"), arguments...).Output()
			if failed, ok := errors.AsType[*exec.ExitError](err); ok {
				t.Fatalf("%s", failed.Stderr)
			}
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(out))
		})
	}
}
