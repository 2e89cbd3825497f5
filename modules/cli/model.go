package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
	"github.com/portico-run/portico/modules/model"
)

// model holds the commands about the models that agents ask.
func (c *cli) model() *cobra.Command {
	return c.Group("model", "The models that agents ask", c.modelList(), c.modelTry())
}

type modelBody struct {
	Name      string       `json:"name"`
	Protocol  string       `json:"protocol"`
	Model     string       `json:"model"`
	BaseURL   string       `json:"baseUrl"`
	Context   int64        `json:"context"`
	MaxOutput int64        `json:"maxOutput"`
	Input     money.Amount `json:"inputPrice"`
	Cached    money.Amount `json:"cachedPrice"`
	Written   money.Amount `json:"writtenPrice"`
	Output    money.Amount `json:"outputPrice"`
	Fallbacks []string     `json:"fallbacks"`
}

func (c *cli) modelList() *cobra.Command {
	s := shell.Spec{Use: "list", Short: "List the models of MODEL_FILE, or the one of MODEL_NAME; the first answers where none is named", Example: "portico model list", JSON: true}
	return c.Command(s, func(cmd *cobra.Command, _ []string) error {
		return c.Without(cmd, func(_ context.Context, a *app.App) error {
			list := []modelBody{}
			if a.Models != nil {
				for _, name := range a.Models.Names() {
					m := a.Models.Find(name)
					list = append(list, modelBody{
						Name: name, Protocol: string(m.Config.Protocol), Model: m.Config.Model, BaseURL: shown(m.Config.BaseURL), Context: m.Context, MaxOutput: m.Config.MaxOutput,
						Input: m.Prices.Input, Cached: m.Prices.Cached, Written: m.Prices.Written, Output: m.Prices.Output, Fallbacks: append([]string{}, m.Fallbacks...),
					})
				}
			}
			return c.Answer(list, c.Table("NAME | PROTOCOL | MODEL | AT | CONTEXT | PRICE IN, CACHED, OUT | FALLBACKS", func(w io.Writer) {
				for _, m := range list {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s, %s, %s\t%s\n", m.Name, m.Protocol, m.Model, m.BaseURL, m.Context, m.Input, m.Cached, m.Output, strings.Join(m.Fallbacks, ", "))
				}
			}))
		})
	})
}

func noModel(name string) error {
	return errs.Newf(errs.NotFound, "There is no model %q.", name).Do("portico model list shows those that there are.")
}

// shown is an address without the password that may be in it.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Redacted()
}

type triedBody struct {
	Name    string  `json:"name"`
	Model   string  `json:"model"`
	Answer  string  `json:"answer"`
	Input   int64   `json:"inputTokens"`
	Cached  int64   `json:"cachedTokens"`
	Output  int64   `json:"outputTokens"`
	Seconds float64 `json:"seconds"`
}

func (c *cli) modelTry() *cobra.Command {
	s := shell.Spec{
		Use: "try NAME PROMPT", Short: "Ask a model something, to see whether its address and its key work; nobody is charged for it",
		Example: `portico model try small "Say hello."`, JSON: true,
	}
	return c.Command(s, func(cmd *cobra.Command, args []string) error {
		return c.Without(cmd, func(ctx context.Context, a *app.App) error {
			if a.Models == nil || !a.Models.Has(args[0]) {
				return noModel(args[0])
			}
			begin := time.Now()
			// Not its fallbacks: the question is whether this one works.
			m := a.Models.Find(args[0])
			m.Config.Logger = a.Logger
			got, err := model.New(m.Config).Respond(ctx, model.Request{Input: []model.Item{model.User(args[1])}}, func(model.Delta) {})
			if err != nil {
				return err
			}
			if got.Incomplete != nil {
				return fmt.Errorf("the answer was cut: %s", got.Incomplete.Reason)
			}
			text, _ := got.Read()
			b := triedBody{m.Name, got.Model, text, got.Usage.Input, got.Usage.InputDetails.Cached, got.Usage.Output, time.Since(begin).Seconds()}
			return c.Answer(b, c.Line("%s\n[%s, %d tokens in, %d out, %.1f s]", b.Answer, b.Model, b.Input, b.Output, b.Seconds))
		})
	})
}
