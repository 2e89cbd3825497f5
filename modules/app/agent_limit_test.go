package app_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A run that has spent what it may does not ask the model again, and says so.
func TestAgentsStopAtTheirSpendingLimit(t *testing.T) {
	t.Parallel()
	_, env := script(t, `
- output: [{call: {name: get_time}}]
- output: [{text: Never.}]
`)
	each(t, func(t *testing.T, s *instance) {
		r := s.invoke(t, map[string]any{"query": "Hi"})
		require.Equal(t, "error", r.Status)
		require.Contains(t, r.Errors[0], "The spending limit of this run is 0.01 credits")
		require.Equal(t, 1, s.count("SELECT count(*) FROM credit_usages WHERE usage_type = 'model_call'"))
	}, append(env, "BILLING_RUN_LIMIT=0.01", "MODEL_INPUT_PRICE=1000", "MODEL_OUTPUT_PRICE=1000")...)
}
