package cli_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// What clients are told is in the form that each reads, names the endpoint, and holds
// no key.
func TestWhatClientsAreTold(t *testing.T) {
	t.Parallel()
	const header, endpoint = "X-API-Key", "https://portico.example.com/mcp"
	type entry struct {
		Type    string            `yaml:"type"`
		URL     string            `yaml:"url"`
		Headers map[string]string `yaml:"headers"`
	}
	for client, key := range map[string]string{
		"claude-code": "${PORTICO_API_KEY}", "cursor": "${env:PORTICO_API_KEY}", "vscode": "${input:portico-key}", "librechat": "{{PORTICO_API_KEY}}",
	} {
		code, out, errs := portico(t, []string{"PORTICO_API=https://portico.example.com/", "PORTICO_API_KEY=rf_secret"}, "mcp", "config", client)
		require.Zero(t, code, errs)
		require.Contains(t, errs, "Paste this into ")
		require.NotContains(t, out, "rf_secret")
		var told struct {
			Servers    map[string]entry `yaml:"servers"`
			MCPServers map[string]entry `yaml:"mcpServers"`
		}
		if client != "librechat" {
			require.True(t, json.Valid([]byte(out)), out)
		}
		require.NoError(t, yaml.Unmarshal([]byte(out), &told), client) // JSON is YAML
		one := told.MCPServers["portico"]
		if client == "vscode" {
			one = told.Servers["portico"]
		}
		require.Equal(t, endpoint, one.URL, client)
		require.Equal(t, map[string]string{header: key}, one.Headers, client)
	}
	code, _, errs := portico(t, nil, "mcp", "config", "emacs")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "none of claude-code, codex, cursor, librechat, vscode")
	code, _, errs = portico(t, nil, "mcp", "config", "codex", "--url", "portico.example.com")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "no address of a server")
	code, _, errs = portico(t, nil, "mcp", "serve")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "PORTICO_API_KEY")

	text, err := os.ReadFile("../../configs/server.json")
	require.NoError(t, err)
	var listed struct {
		Name, Version, Description string
		Remotes                    []struct {
			Type, URL string
			Headers   []struct {
				Name                 string
				IsRequired, IsSecret bool
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &listed))
	require.LessOrEqual(t, len(listed.Description), 100, "registries take no longer ones")
	require.Equal(t, "https://{host}/mcp", listed.Remotes[0].URL)
	require.Equal(t, header, listed.Remotes[0].Headers[0].Name)
	require.True(t, listed.Remotes[0].Headers[0].IsRequired && listed.Remotes[0].Headers[0].IsSecret)
}

// With --oauth, clients are told the address where they get tokens, and no key.
func TestWhatClientsAreToldOfOAuth(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"claude-code", "codex", "cursor", "librechat", "vscode"} {
		code, out, errs := portico(t, []string{"PORTICO_API=https://portico.example.com/", "PORTICO_API_KEY=rf_secret"}, "mcp", "config", client, "--oauth")
		require.Zero(t, code, errs)
		require.NotContains(t, out, "rf_secret")
		require.NotContains(t, out, "PORTICO_API_KEY")
		require.NotContains(t, out, "X-API-Key")
		require.Regexp(t, `url"? ?[:=] "?https://portico\.example\.com/mcp/oauth"?\n`, out, client)
		if client != "codex" {
			var told map[string]map[string]map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(out), &told), client) // JSON is YAML
			for _, servers := range told {
				require.NotContains(t, servers["portico"], "headers", client)
			}
		}
	}
}
