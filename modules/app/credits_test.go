package app_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/testenv"
)

// priced is the file of a toolset whose one method costs 2.
func priced(key string) string {
	return fmt.Sprintf(`{key: %s, name: Priced, domain: "${PORTICO_DEMO_URL}", billing: 2, egress: {allow: [127.0.0.0/8]},
		credential: {type: header, name: X-Demo-Key, value: "${PORTICO_DEMO_KEY}"}, methods: [{name: get, endpoint: /cities, method: GET}]}`, key)
}

// Six toolsets cost nothing on a server that nobody has configured; the row
// says what the list price was.
func TestFreeToolsetsOfTheShippedConfiguration(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		files := map[string]string{"other.yaml": priced("other")}
		free := []string{"nano_banana_pro", "instagram", "facebook", "twitter", "fish_audio", "seedream_image"}
		for _, key := range free {
			files[key+".yaml"] = priced(key)
		}
		s.apply(t, files)
		for _, key := range append(free, "other") {
			a := s.send(s.key, "POST", "/v1/tool/execute", map[string]any{"toolsetKey": key, "toolName": "get", "arguments": map[string]string{"file_name_title": "x"}})
			require.Equal(t, 200, a.status, a.raw)
			require.Contains(t, a.raw, `"status":"success"`, key)
			amount := 0
			if key == "other" {
				amount = 2
			}
			require.Equal(t, 1, s.count("SELECT count(*) FROM credit_usages u JOIN tool_call_results c ON c.call_id = u.tool_call_id WHERE c.toolset_id = ? AND u.amount = ? AND u.due_amount = 2", key, amount), key)
		}
	})
}

func TestTheListOfFreeToolsetsCanBeEmptied(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		s.apply(t, map[string]string{"instagram.yaml": priced("instagram")})
		a := s.send(s.key, "POST", "/v1/tool/execute", `{"toolsetKey":"instagram","toolName":"get","arguments":{"file_name_title":"x"}}`)
		require.Equal(t, 200, a.status, a.raw)
		require.Equal(t, 1, s.count("SELECT count(*) FROM credit_usages WHERE amount = 2 AND due_amount = 2"))
	}, "BILLING_FREE_TOOLSETS=none")
}

// A limit holds as it is configured, to the last decimal; what cannot be read
// is no server without limits but no server.
func TestConfiguredLimitsHold(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		call := func() string {
			return s.send(s.key, "POST", "/v1/tool/execute", `{"toolsetKey":"demo","toolName":"get_weather","arguments":{"city":"Rome","file_name_title":"x"}}`).raw
		}
		require.Contains(t, call(), `"status":"success"`)
		require.Contains(t, call(), "SPENDING_LIMIT")
		require.Equal(t, 1, s.count("SELECT count(*) FROM credit_usages"))
	}, "BILLING_DAY_LIMIT=3.999999")
	for _, limit := range []string{"1_000", "0x1p4", "1e3", "NaN", "-1"} {
		for _, name := range []string{"BILLING_DAY_LIMIT", "BILLING_RUN_LIMIT", "BILLING_OVERDRAFT"} {
			_, err := configs.Load(configs.Options{Environ: environ(t, "sqlite::memory:", name+"="+limit)})
			require.ErrorContains(t, err, name)
		}
	}
}
