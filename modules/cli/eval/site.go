package eval

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/dev/services"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/model/named"
	"github.com/portico-run/portico/modules/toolset/file"
)

// Prices of the scripted model, in credits for a million tokens.
const (
	scriptedInput  = "300"
	scriptedOutput = "1200"
)

// stopTimeout bounds the stop of a server that was started for a form.
const stopTimeout = 30 * time.Second

// site is a server for one form, on a database of its own.
type site struct {
	bench *bench
	app   *app.App
	serve *app.Serving
	url   string
	users []user
}

// user makes runs, one after the other. At the services it has a world of its own,
// which its installed toolsets name.
type user struct {
	actor.Actor

	key, world string
}

// environment is that of a server for a form: the operator's, with what all
// comparisons have alike. An address of a model is that of the scripted one.
func (b *bench) environment(f form, folder, model string) []string {
	env := append(slices.Clone(b.shell.Environ),
		"PORTICO_MODE=development", "PORTICO_LISTEN=127.0.0.1:0", "DATABASE_URL=sqlite:"+filepath.Join(folder, "eval.db"),
		"OBJECT_STORAGE_DRIVER=folder", "OBJECT_STORAGE_FOLDER="+filepath.Join(folder, "objects"), "REDIS_URL=",
		"TOOLSETS_DIR=", "DEMO_ENABLED=false", "MCP_DIR="+filepath.Join(folder, "mcp"), "MCP_SERVERS_FILE=", "APPROVAL_DEFAULT=never",
		"PTC_MODE=on", "PTC_DEBUG=", "PTC_TOOLSET_BLOCKLIST=", "PTC_TOOLSET_ALLOWLIST=", "PTC_ROLLOUT_PERCENT=100", "SANDBOX_S3LIB_HASH=",
		"AGENT_BREAK_EVEN=false", "AGENT_CODE_TOOL_NAME=execute_code", "AGENT_LIFECYCLE_TOOLS=false",
		"FLAT_TOOLS=false", // all forms have the same tools: only code could call these
	)
	env = append(env, f.settings...)
	if model != "" {
		env = append(env, "MODEL_FILE=", "MODEL_PROTOCOL=responses", "MODEL_NAME=scripted", "MODEL_BASE_URL="+model, "MODEL_API_KEY=none", "MODEL_HEADERS=",
			"MODEL_INPUT_PRICE="+scriptedInput, "MODEL_OUTPUT_PRICE="+scriptedOutput)
	}
	return env
}

// open starts a server for a form.
func (b *bench) open(ctx context.Context, f form, folder, model string) (*site, error) {
	options := configs.Options{File: b.shell.File, Environ: b.environment(f, folder, model)}
	a, err := b.shell.Open(ctx, options, slog.LevelError)
	if err != nil {
		return nil, err
	}
	s := &site{bench: b, app: a}
	if err := s.start(ctx, options); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

func (s *site) start(ctx context.Context, options configs.Options) error {
	if err := s.bench.choose(s.app); err != nil {
		return err
	}
	if _, err := s.app.Prepare(ctx); err != nil {
		return err
	}
	if err := s.install(ctx); err != nil {
		return err
	}
	var err error
	if s.serve, err = s.app.Start(ctx, options); err != nil {
		return err
	}
	s.url = "http://" + s.serve.Addr().String()
	for n := range s.bench.plan.parallel {
		u, err := s.newUser(ctx, n+1)
		if err != nil {
			return err
		}
		s.users = append(s.users, u)
	}
	return nil
}

// choose makes sure that there is the model that is to be tried.
func (b *bench) choose(a *app.App) error {
	switch {
	case a.Models == nil:
		return agent.ErrNoModel
	case !a.Models.Has(b.plan.model):
		return errs.Newf(errs.NotFound, "There is no model %q.", b.plan.model).Do("portico model list shows those that there are.")
	}
	m := a.Models.Find(b.plan.model)
	b.model = m.Name
	if b.plan.budget != nil && m.Prices == (named.Prices{}) {
		return errs.Newf(errs.Conflict, "Model %s has no price, so that a budget would never end.", m.Name).
			Do("Set its price (MODEL_INPUT_PRICE and MODEL_OUTPUT_PRICE, or prices in MODEL_FILE), or leave --budget out.")
	}
	return nil
}

// install loads the toolsets of the services.
func (s *site) install(ctx context.Context) error {
	texts, err := services.Toolsets(s.bench.url)
	if err != nil {
		return err
	}
	var files []file.File
	for _, key := range services.Keys() {
		name := key + ".yaml"
		files = append(files, file.File{Name: name, Content: texts[name]})
	}
	_, err = s.app.ToolsetFiles.Apply(ctx, files)
	return err
}

// newUser makes a user who has the toolsets, with credits to spend.
func (s *site) newUser(ctx context.Context, n int) (u user, err error) {
	u.world = fmt.Sprintf("world-%d", n)
	made, err := s.app.Accounts.Service.CreateUser(ctx, fmt.Sprintf("eval-%d", n), "")
	if err != nil {
		return u, err
	}
	u.Actor = actor.Actor{UID: made.UID, Scope: actor.Full}
	err = s.app.Credits.Service.Grant(ctx, u.UID, billing.Recharge{
		ID: "eval-" + u.UID, Amount: plenty, Source: "gift", Text: "credits for the comparison", ExpiresAt: time.Now().AddDate(1, 0, 0),
	})
	if err != nil {
		return u, err
	}
	_, key, err := s.app.Accounts.Service.CreateKey(ctx, u.Actor, "eval", 1)
	if err != nil {
		return u, err
	}
	u.key = key.Reveal()
	for _, name := range services.Keys() {
		err = errors.Join(err, s.ask(ctx, u, call{http.MethodPost, "/v1/tool/toolset/create", map[string]any{
			"name": name, "key": name, "authType": "credentials", "authData": map[string]string{"apiKey": u.world},
		}}, &struct{}{}))
	}
	return u, err
}

// close ends the server. Runs that are under way are ended with it.
func (s *site) close(ctx context.Context) (err error) {
	if s.serve != nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = s.serve.Stop(stopping)
	}
	return errors.Join(err, s.app.Close())
}
