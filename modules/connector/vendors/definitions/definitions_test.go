package definitions_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/modules/connector/vendors/definitions"
)

// Every vendor says who it is, where its API is, what a user gives, and what
// its tools take.
func TestDefinitionsAreWhole(t *testing.T) {
	t.Parallel()
	all, err := definitions.Load()
	require.NoError(t, err)
	require.Equal(t, []string{"apify-13f", "jina", "notion", "perplexity"}, slices.Sorted(maps.Keys(all)))
	for key, d := range all {
		require.Equal(t, key, d.Key)
		require.NotEmpty(t, d.Name)
		require.NotEmpty(t, d.Description)
		require.Contains(t, d.Domain, "https://")
		require.True(t, d.CredentialItems[0].Required)
		require.Len(t, d.Methods, len(d.Tools))
		for _, m := range d.Methods {
			require.NotEmpty(t, m.Description, m.Name)
			for _, schema := range [][]byte{m.Request, m.Response} {
				_, err := jsonschema.Compile(schema)
				require.NoError(t, err, m.Name)
			}
		}
	}
}
