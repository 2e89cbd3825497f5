package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
	"github.com/portico-run/portico/modules/toolset/file"
	"github.com/portico-run/portico/modules/toolset/install"
	"github.com/portico-run/portico/modules/toolset/store"
)

type toolsetBody struct {
	Key     string `json:"key"`
	Name    string `json:"name"`
	Type    string `json:"type"`
	Domain  string `json:"domain"`
	Builtin bool   `json:"builtin"`
	// Methods is how many there are; nil where only the provider knows.
	Methods *int `json:"methods"`
}

func toToolset(i install.InventoryItem) toolsetBody {
	body := toolsetBody{Key: i.Key, Name: i.Name, Type: i.Type, Domain: i.Domain, Builtin: i.Builtin}
	if n := len(i.Methods()); n > 0 {
		body.Methods = &n
	}
	return body
}

// shownToolset is a toolset with its methods.
type shownToolset struct {
	toolsetBody

	Methods   []methodBody `json:"methods"`
	Installed int64        `json:"installed"`
	Connected int64        `json:"connected"`
}

type methodBody struct {
	Name        string `json:"name"`
	Version     int    `json:"version"`
	Description string `json:"description"`
}

func (c *cli) toolset() *cobra.Command {
	return c.Group("toolset", "Toolsets that all users share", c.toolsetList(), c.toolsetShow(), c.toolsetApply(), c.importToolset(), c.toolsetDelete())
}

func (c *cli) toolsetList() *cobra.Command {
	return c.Command(shell.Spec{Use: "list", Short: "List the toolsets of this server", Example: "portico toolset list", JSON: true}, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			items, err := a.Installs.Service.Inventory(ctx)
			if err != nil {
				return err
			}
			bodies := make([]toolsetBody, len(items))
			for i, item := range items {
				bodies[i] = toToolset(item)
			}
			return c.Answer(bodies, c.Table("KEY | NAME | TYPE | METHODS", func(w io.Writer) {
				for _, t := range bodies {
					methods := "-"
					if t.Methods != nil {
						methods = fmt.Sprint(*t.Methods)
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", t.Key, t.Name, t.Type, methods)
				}
			}))
		})
	})
}

func (c *cli) toolsetShow() *cobra.Command {
	s := shell.Spec{Use: "show KEY", Short: "Show a toolset and its methods", Example: "portico toolset show demo", JSON: true}
	return c.Command(s, func(cmd *cobra.Command, args []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			items, err := a.Installs.Service.Inventory(ctx)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(items, func(t install.InventoryItem) bool { return t.Key == args[0] })
			if i < 0 {
				return errs.Newf(errs.ToolsetMissing, "There is no toolset %s.", args[0]).Do("List the toolsets with `portico toolset list`.")
			}
			var held store.Holdings
			if !items[i].Builtin {
				if held, err = a.Inventory.Holdings(ctx, args[0]); err != nil {
					return err
				}
			}
			body := shownToolset{toolsetBody: toToolset(items[i]), Methods: []methodBody{}, Installed: held.Installed, Connected: held.Connected}
			for _, m := range items[i].Methods() {
				body.Methods = append(body.Methods, methodBody{m.Name, m.Version, m.Description})
			}
			return c.Answer(body, c.Table("", func(w io.Writer) {
				fmt.Fprintf(w, "key\t%s\nname\t%s\ntype\t%s\ndomain\t%s\n", body.Key, body.Name, body.Type, body.Domain)
				fmt.Fprintf(w, "installed by users\t%d\nconnected accounts\t%d\n\n", body.Installed, body.Connected)
				for _, m := range body.Methods {
					fmt.Fprintf(w, "%s\t%s\n", m.Name, strings.ReplaceAll(m.Description, "\n", " "))
				}
			}))
		})
	})
}

type appliedBody struct {
	Created   []string `json:"created"`
	Updated   []string `json:"updated"`
	Unchanged []string `json:"unchanged"`
}

func (c *cli) toolsetApply() *cobra.Command {
	var path string
	s := shell.Spec{Use: "apply", Short: "Load toolset files, all or nothing", Example: "portico toolset apply --file configs/toolsets", JSON: true}
	apply := c.Command(s, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			files, err := applied(a, path)
			if err != nil {
				return err
			}
			r, err := a.ToolsetFiles.Apply(ctx, files)
			if err != nil {
				return err
			}
			all := func(keys []string) []string { return append([]string{}, keys...) }
			return c.Answer(appliedBody{all(r.Created), all(r.Updated), all(r.Unchanged)}, func() error {
				for _, line := range []struct {
					what string
					keys []string
				}{{"created", r.Created}, {"updated", r.Updated}, {"unchanged", r.Unchanged}} {
					if len(line.keys) > 0 {
						fmt.Fprintf(c.Stdout, "%-9s  %s\n", line.what, strings.Join(line.keys, ", "))
					}
				}
				return nil
			})
		})
	})
	apply.Flags().StringVarP(&path, "file", "f", "", "a file, or a folder of them; without it, what a start of the server loads: those of TOOLSETS_DIR")
	return apply
}

// applied are the files that the command loads.
func applied(a *app.App, path string) ([]file.File, error) {
	if path != "" {
		return file.Read(path)
	}
	if a.Config.Toolsets.Dir == "" {
		return nil, errs.New(errs.Conflict, "TOOLSETS_DIR names no folder.").Do("Name the files with --file.")
	}
	return a.FolderFiles()
}

func (c *cli) toolsetDelete() *cobra.Command {
	s := shell.Spec{Use: "delete KEY", Short: "Take a toolset away from all users", Example: "portico toolset delete pets --yes"}
	return c.Deletion(s, func(ctx context.Context, a *app.App, key string) (shell.Doomed, error) {
		d := shell.Doomed{What: "toolset " + key, Name: key, Delete: func(ctx context.Context) error { return a.Inventory.Delete(ctx, key) }}
		if err := store.Deletable(key); err != nil {
			return d, err
		}
		held, err := a.Inventory.Holdings(ctx, key)
		if err != nil {
			return d, err
		}
		file, err := fileOf(a.Config.Toolsets.Dir, key)
		if err != nil {
			return d, err
		}
		if file != "" {
			return d, errs.Newf(errs.Conflict, "Toolset %s is described in %s, which the server loads whenever it starts.", key, file).
				Do("Take it out of that file before, or set enabled: false there.")
		}
		d.Along = []string{
			"its methods, prices and credential",
			fmt.Sprintf("toolsets of users that have its key: %d", held.Installed),
			fmt.Sprintf("connected accounts (which stay at the provider): %d", held.Connected),
		}
		d.Stays = []string{"records of its calls, and what they cost"}
		return d, nil
	})
}

// fileOf is the toolset file of a folder that describes a toolset; empty for
// none. A file that cannot be read may be the one.
func fileOf(dir, key string) (string, error) {
	if dir == "" {
		return "", nil
	}
	files, err := file.Read(dir)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(files, func(f file.File) bool { return f.Err != nil || describes(f.Content, key) })
	if i < 0 {
		return "", nil
	}
	return files[i].Name, nil
}

// describes reports whether a toolset file has a toolset of a key, or cannot be
// read, so that it may have.
func describes(content []byte, key string) bool {
	d := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var document struct {
			Key string `yaml:"key"`
		}
		err := d.Decode(&document)
		if errors.Is(err, io.EOF) {
			return false
		}
		if err != nil || document.Key == key {
			return true
		}
	}
}
