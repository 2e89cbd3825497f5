package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/modules/cli/shell"
)

// setting is what a client of another maker wants to know of this server.
type setting struct {
	Client string `json:"client"`
	// Where it is written, and Text what.
	Where string `json:"where"`
	Text  string `json:"text"`
}

// object is JSON with its keys in order.
type object = map[string]any

// settings are those of each client. None holds a key: each client reads it from the
// environment, or asks for it.
func settings() map[string]func(endpoint string) (setting, error) {
	header := func(value string) object { return object{"X-API-Key": value} }
	inJSON := func(where string, v any) (setting, error) {
		text, err := json.MarshalIndent(v, "", "  ")
		return setting{Where: where, Text: string(text) + "\n"}, err
	}
	return map[string]func(endpoint string) (setting, error){
		"claude-code": func(endpoint string) (setting, error) {
			return inJSON(placeClaudeCode, object{"mcpServers": object{"portico": object{"type": "http", "url": endpoint, "headers": header("${" + variableKey + "}")}}})
		},
		"cursor": func(endpoint string) (setting, error) {
			return inJSON(placeCursor, object{"mcpServers": object{"portico": object{"url": endpoint, "headers": header("${env:" + variableKey + "}")}}})
		},
		"vscode": func(endpoint string) (setting, error) {
			return inJSON(placeVSCode, object{
				"inputs":  []object{{"type": "promptString", "id": "portico-key", "description": "Your Portico API key", "password": true}},
				"servers": object{"portico": object{"type": "http", "url": endpoint, "headers": header("${input:portico-key}")}},
			})
		},
		"codex": func(endpoint string) (setting, error) {
			return setting{Where: placeCodex, Text: fmt.Sprintf("[mcp_servers.portico]\nurl = %q\nbearer_token_env_var = %q\ntool_timeout_sec = 60\n", endpoint, variableKey)}, nil
		},
		"librechat": func(endpoint string) (setting, error) {
			return setting{Where: placeLibreChat, Text: fmt.Sprintf(`mcpServers:
  portico:
    type: streamable-http
    url: %s
    timeout: 60000
    headers:
      X-API-Key: "{{%[2]s}}"
    customUserVars:
      %[2]s:
        title: Portico API key
        description: Your own key of the Portico server
`, endpoint, variableKey)}, nil
		},
	}
}

// letIn are the settings of each client at the address for apps: it gets tokens by
// itself, once its user lets it in.
func letIn() map[string]func(endpoint string) (setting, error) {
	inJSON := func(where, list string, more object) func(string) (setting, error) {
		return func(endpoint string) (setting, error) {
			server := object{"url": endpoint}
			maps.Copy(server, more)
			text, err := json.MarshalIndent(object{list: object{"portico": server}}, "", "  ")
			return setting{Where: where, Text: string(text) + "\n"}, err
		}
	}
	return map[string]func(endpoint string) (setting, error){
		"claude-code": inJSON(placeClaudeCode, "mcpServers", object{"type": "http"}),
		"cursor":      inJSON(placeCursor, "mcpServers", nil),
		"vscode":      inJSON(placeVSCode, "servers", object{"type": "http"}),
		"codex": func(endpoint string) (setting, error) {
			return setting{Where: placeCodex + "; then run: codex mcp login portico", Text: fmt.Sprintf("[mcp_servers.portico]\nurl = %q\ntool_timeout_sec = 60\n", endpoint)}, nil
		},
		"librechat": func(endpoint string) (setting, error) {
			return setting{Where: placeLibreChat, Text: fmt.Sprintf("mcpServers:\n  portico:\n    type: streamable-http\n    url: %s\n    timeout: 60000\n    requiresOAuth: true\n", endpoint)}, nil
		},
	}
}

// Where clients read their settings.
const (
	placeClaudeCode = ".mcp.json of a project"
	placeCursor     = ".cursor/mcp.json of a project, or ~/.cursor/mcp.json"
	placeVSCode     = ".vscode/mcp.json of a project"
	placeCodex      = "~/.codex/config.toml"
	placeLibreChat  = "librechat.yaml"
)

// config holds the command that prints what clients are told.
func (c commands) config() *cobra.Command {
	var given string
	var oauth bool
	known := strings.Join(slices.Sorted(maps.Keys(settings())), ", ")
	cmd := c.Command(shell.Spec{
		Use: "config CLIENT", Short: "Print what an MCP client is to be told: " + known, JSON: true,
		Example: "portico mcp config claude-code --url https://portico.example.com",
	}, func(_ *cobra.Command, args []string) error {
		list := settings()
		if oauth {
			list = letIn()
		}
		of, ok := list[args[0]]
		if !ok {
			return fmt.Errorf("%q is none of %s: %w", args[0], known, shell.ErrUsage)
		}
		endpoint, err := c.endpoint(given)
		if err != nil {
			return err
		}
		if oauth {
			endpoint += "/oauth"
		}
		s, err := of(endpoint)
		if err != nil {
			return err
		}
		s.Client = args[0]
		fmt.Fprintf(c.Stderr, "Paste this into %s:\n", s.Where)
		return c.Answer(s, func() error {
			_, err := fmt.Fprint(c.Stdout, s.Text)
			return err
		})
	})
	cmd.ValidArgsFunction = cobra.FixedCompletions(slices.Sorted(maps.Keys(settings())), cobra.ShellCompDirectiveNoFileComp)
	cmd.Flags().StringVar(&given, "url", "", urlFlag)
	cmd.Flags().BoolVar(&oauth, "oauth", false, "for the address where apps get tokens by OAuth, without a key")
	return cmd
}
