// Package knowledge is the commands that fill and show the knowledge store.
package knowledge

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
	"github.com/portico-run/portico/modules/knowledge"
)

type commands struct{ *shell.Shell }

// New makes the command.
func New(s *shell.Shell) *cobra.Command {
	c := &commands{s}
	return c.Group("knowledge", "Documents that are searched", c.add(), c.list(), c.show(), c.remove(), c.clear(), c.stats())
}

// place is where documents are.
type place struct {
	user, collection string
	shared           bool
}

func (p *place) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.user, "user", "", "name of the user that the documents belong to")
	cmd.Flags().BoolVar(&p.shared, "shared", false, "the documents are the operator's, for all users")
}

func (p *place) inside(cmd *cobra.Command, meaning string) {
	cmd.Flags().StringVar(&p.collection, "collection", "", meaning)
}

// owner is whose documents are meant.
func (p *place) owner(ctx context.Context, a *app.App) (knowledge.Owner, error) {
	if p.shared == (p.user != "") {
		return knowledge.Owner{}, fmt.Errorf("give either --user or --shared: %w", shell.ErrUsage)
	}
	if p.shared {
		return knowledge.Shared(), nil
	}
	u, err := a.Accounts.Service.UserByName(ctx, p.user)
	return knowledge.Of(actor.Actor{UID: u.UID}), err
}

type documentBody struct {
	Collection string    `json:"collection"`
	Source     string    `json:"source"`
	Title      string    `json:"title"`
	Framework  string    `json:"framework"`
	Passages   int       `json:"passages"`
	Bytes      int64     `json:"bytes"`
	Model      string    `json:"model"`
	UpdatedAt  time.Time `json:"updatedAt"`
}

func toDocument(d knowledge.Document) documentBody {
	return documentBody{d.Collection, d.Source, d.Title, d.Framework, d.Passages, d.Bytes, d.Model, d.UpdatedAt}
}

func (c *commands) list() *cobra.Command {
	var p place
	s := shell.Spec{Use: "list", Short: "List documents, newest first", Example: "portico knowledge list --shared --collection handbook", JSON: true}
	cmd := c.Command(s, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			owner, err := p.owner(ctx, a)
			if err != nil {
				return err
			}
			bodies, err := shell.All(func(q httpapi.PageQuery) (httpapi.Page[knowledge.Document], error) {
				return a.Knowledge.Service.Documents(ctx, owner, p.collection, q)
			}, toDocument)
			if err != nil {
				return err
			}
			return c.Answer(bodies, c.Table("COLLECTION | SOURCE | TITLE | PASSAGES | UPDATED", func(w io.Writer) {
				for _, d := range bodies {
					fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", d.Collection, d.Source, d.Title, d.Passages, shell.Moment(&d.UpdatedAt))
				}
			}))
		})
	})
	p.flags(cmd)
	p.inside(cmd, "only documents of this collection")
	return cmd
}

type passageBody struct {
	Section string `json:"section"`
	Symbol  string `json:"symbol"`
	Text    string `json:"text"`
}

func (c *commands) show() *cobra.Command {
	var p place
	s := shell.Spec{Use: "show SOURCE", Short: "Show a document as it is stored, in passages", Example: "portico knowledge show docs/lamps.md --shared", JSON: true}
	cmd := c.Command(s, func(cmd *cobra.Command, args []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			owner, err := p.owner(ctx, a)
			if err != nil {
				return err
			}
			d, passages, err := a.Knowledge.Service.PassagesOf(ctx, owner, p.collection, args[0])
			if err != nil {
				return err
			}
			body := struct {
				documentBody

				Texts []passageBody `json:"texts"`
			}{toDocument(d), make([]passageBody, len(passages))}
			for i, t := range passages {
				body.Texts[i] = passageBody{t.Section, t.Symbol, t.Text}
			}
			return c.Answer(body, c.Table("", func(w io.Writer) {
				fmt.Fprintf(w, "%s (%s)\n", d.Title, d.Source)
				for i, t := range body.Texts {
					fmt.Fprintf(w, "\n--- %d of %d  %s\n%s\n", i+1, len(body.Texts), t.Section, t.Text)
				}
			}))
		})
	})
	p.flags(cmd)
	p.inside(cmd, "the collection; documents when left out")
	return cmd
}

func (c *commands) remove() *cobra.Command {
	var p place
	s := shell.Spec{Use: "remove SOURCE", Short: "Delete a document", Example: "portico knowledge remove docs/lamps.md --shared --yes"}
	cmd := c.Deletion(s, func(ctx context.Context, a *app.App, source string) (shell.Doomed, error) {
		owner, err := p.owner(ctx, a)
		if err != nil {
			return shell.Doomed{}, err
		}
		d, _, err := a.Knowledge.Service.PassagesOf(ctx, owner, p.collection, source)
		return shell.Doomed{
			What: "document " + source, Name: source, Along: []string{fmt.Sprintf("passages: %d", d.Passages)},
			Delete: func(ctx context.Context) error { return a.Knowledge.Service.Remove(ctx, owner, p.collection, source) },
		}, err
	})
	p.flags(cmd)
	p.inside(cmd, "the collection; documents when left out")
	return cmd
}

func (c *commands) clear() *cobra.Command {
	var p place
	s := shell.Spec{Use: "clear COLLECTION", Short: "Delete a collection with all that is in it", Example: "portico knowledge clear handbook --shared --yes"}
	cmd := c.Deletion(s, func(ctx context.Context, a *app.App, name string) (shell.Doomed, error) {
		owner, err := p.owner(ctx, a)
		if err != nil {
			return shell.Doomed{}, err
		}
		list, err := a.Knowledge.Service.Owned(ctx, owner)
		if err != nil {
			return shell.Doomed{}, err
		}
		for _, held := range list {
			if held.Name == name {
				return shell.Doomed{
					What: "collection " + name, Name: name, Along: []string{fmt.Sprintf("documents: %d", held.Documents)},
					Delete: func(ctx context.Context) error { return a.Knowledge.Service.Clear(ctx, owner, name) },
				}, nil
			}
		}
		return shell.Doomed{}, knowledge.ErrCollectionMissing
	})
	p.flags(cmd)
	return cmd
}

type statsBody struct {
	Collection string    `json:"collection"`
	Documents  int64     `json:"documents"`
	Passages   int64     `json:"passages"`
	Vectors    int64     `json:"vectors"`
	Bytes      int64     `json:"bytes"`
	UpdatedAt  time.Time `json:"updatedAt"`
}

func (c *commands) stats() *cobra.Command {
	var p place
	s := shell.Spec{Use: "stats", Short: "Show what collections hold", Example: "portico knowledge stats --shared", JSON: true}
	cmd := c.Command(s, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			owner, err := p.owner(ctx, a)
			if err != nil {
				return err
			}
			list, err := a.Knowledge.Service.Owned(ctx, owner)
			if err != nil {
				return err
			}
			bodies := make([]statsBody, len(list))
			for i, l := range list {
				bodies[i] = statsBody{l.Name, l.Documents, l.Passages, l.Vectors, l.Bytes, l.UpdatedAt}
			}
			return c.Answer(bodies, c.Table("COLLECTION | DOCUMENTS | PASSAGES | VECTORS | BYTES | UPDATED", func(w io.Writer) {
				for _, b := range bodies {
					fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", b.Collection, b.Documents, b.Passages, b.Vectors, b.Bytes, shell.Moment(&b.UpdatedAt))
				}
			}))
		})
	})
	p.flags(cmd)
	return cmd
}
