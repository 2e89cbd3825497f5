package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/dev/demo"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/demos"
	"github.com/portico-run/portico/modules/cli/shell"
)

type checkBody struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Text  string `json:"text"`
}

func (c *cli) doctor() *cobra.Command {
	s := shell.Spec{Use: "doctor", Short: "Check what this machine and configuration give", Example: "portico doctor", JSON: true}
	return c.Command(s, func(cmd *cobra.Command, _ []string) error {
		a, err := c.Open(cmd.Context(), c.Options(), slog.LevelError)
		if err != nil {
			return err
		}
		defer func() { _ = a.Close() }()
		var bodies []checkBody
		bad := 0
		for _, k := range a.Doctor(cmd.Context()) {
			bodies = append(bodies, checkBody{k.Name, k.OK, k.Text})
			if !k.OK {
				bad++
			}
		}
		err = c.Answer(bodies, func() error {
			for _, k := range bodies {
				mark := map[bool]string{true: "ok  ", false: "FAIL"}[k.OK]
				fmt.Fprintf(c.Stdout, "%s  %-28s %s\n", mark, k.Check, k.Text)
			}
			return nil
		})
		if bad > 0 {
			err = errors.Join(err, fmt.Errorf("%d of %d checks failed", bad, len(bodies)))
		}
		return err
	})
}

func (c *cli) config() *cobra.Command {
	s := shell.Spec{Use: "config", Short: "Print the configuration in force, secrets hidden", Example: "portico config", JSON: true}
	return c.Command(s, func(*cobra.Command, []string) error {
		cfg, err := configs.Load(c.Options())
		if err != nil {
			return err
		}
		if !c.JSON {
			return cfg.Print(c.Stdout)
		}
		var text strings.Builder
		if err := cfg.Print(&text); err != nil {
			return err
		}
		var tree map[string]any
		if err := yaml.Unmarshal([]byte(text.String()), &tree); err != nil {
			return err
		}
		return c.Answer(tree, nil)
	})
}

// demo holds the demonstrations; the program's is the command itself.
func (c *cli) demo() *cobra.Command {
	show := func() demos.Demos { return demos.Demos{Options: c.Options(), Open: c.Open, Out: c.Stdout} }
	d := c.Command(shell.Spec{Use: "demo", Short: "Run a program with tool calls and watch it", Example: "portico demo"},
		func(cmd *cobra.Command, _ []string) error { return show().Program(cmd.Context()) })
	var picture string
	s := shell.Spec{Use: "agent", Short: "Let an agent with a scripted model write programs, and compare with plain tool calls", Example: "portico demo agent --chart chart.png"}
	agent := c.Command(s, func(cmd *cobra.Command, _ []string) error { return show().Agent(cmd.Context(), picture) })
	agent.Flags().StringVar(&picture, "chart", "data/demo-chart.png", "where to save the chart")
	tools := c.Command(shell.Spec{Use: "tools", Short: "Bring tools from anywhere into programs, step by step", Example: "portico demo tools"},
		func(cmd *cobra.Command, _ []string) error { return show().Tools(cmd.Context()) })
	hours := c.Command(shell.Spec{Use: "hours", Short: "Be the MCP server of the demonstration of tools", Example: "portico demo hours"},
		func(cmd *cobra.Command, _ []string) error { return demo.ServeHours(cmd.Context()) })
	var with demos.Asking
	s = shell.Spec{Use: "clients", Short: "Ask the same through five clients of model vendors, and compare what they see", Example: "portico demo clients --vendors .cache/vendors"}
	clients := c.Command(s, func(cmd *cobra.Command, _ []string) error { return show().Clients(cmd.Context(), with) })
	clients.Flags().StringVar(&with.Vendors, "vendors", ".cache/vendors", "the folder with the clients, which tools/vendors.sh installs")
	clients.Flags().BoolVar(&with.Configured, "configured", false, "ask the first model of the configuration, instead of the scripted one")
	d.AddCommand(agent, clients, tools, hours)
	return d
}

// versionBody says what was built. What the build did not record is empty.
type versionBody struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Date     string `json:"date"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (c *cli) version() *cobra.Command {
	return c.Command(shell.Spec{Use: "version", Short: "Print the version, and what it was built of", Example: "portico version --json", JSON: true}, func(*cobra.Command, []string) error {
		v := versionBody{Version: app.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, s := range info.Settings {
				switch s.Key {
				case "vcs.revision":
					v.Commit = s.Value
				case "vcs.time":
					v.Date = s.Value
				case "vcs.modified":
					v.Modified = s.Value == "true"
				}
			}
		}
		return c.Answer(v, c.Table("", func(w io.Writer) {
			fmt.Fprintf(w, "version\t%s\ncommit\t%s\nmodified\t%t\ndate of the commit\t%s\ngo\t%s\nplatform\t%s\n", v.Version, orUnknown(v.Commit), v.Modified, orUnknown(v.Date), v.Go, v.Platform)
		}))
	})
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}
