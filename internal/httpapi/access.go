package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
)

// lookEvery is how often the credential of a request is looked at again whose
// answer lasts. Together with the second for which others may know it, a stream
// ends within five seconds.
const lookEvery = 3 * time.Second

// authenticate puts the actor into the request's context, or refuses.
func (a *API) authenticate(c *gin.Context) {
	op, known := a.route(c)
	if !known {
		return
	}
	if op.TraceHeader != "" {
		c.Header(op.TraceHeader, TraceID(c.Request.Context()))
	}
	if op.SignsIn && a.guard.Check(c.Request) != nil {
		a.fail(c, errOrigin)
		return
	}
	if op.Access == Public {
		return
	}
	ctx := c.Request.Context()
	who, err := a.identity(ctx, c.Request, op)
	if err != nil {
		a.fail(c, err)
		return
	}
	c.Request = c.Request.WithContext(actor.With(ctx, who))
	if err := op.admits(who); err != nil {
		a.fail(c, err)
		return
	}
	if err := a.ask(ctx, who, c.Request, op); err != nil {
		a.fail(c, err)
	}
}

// Question is what an administrator asks: an operation's id, the path that was
// asked for, and the parameters behind it.
type Question struct {
	Operation, Path string
	Parameters      map[string]string
}

// maxQuestion is the longest address of a route for administrators, in bytes:
// all of it is kept.
const maxQuestion = 4 << 10

// ask keeps what is asked of a route for administrators.
func (a *API) ask(ctx context.Context, who actor.Actor, r *http.Request, op Operation) error {
	if op.Access != Admin || a.deps.Asked == nil {
		return nil
	}
	path := r.URL.EscapedPath()
	if len(path)+len(r.URL.RawQuery) > maxQuestion {
		return errs.Newf(errs.Invalid, "The address is longer than %d bytes.", maxQuestion).Do("Ask for less at once.")
	}
	q := Question{Operation: op.ID, Path: path, Parameters: map[string]string{}}
	for name, values := range r.URL.Query() {
		q.Parameters[name] = strings.Join(values, ", ")
	}
	return a.deps.Asked(ctx, who, q)
}

// identity is who a request comes from.
func (a *API) identity(ctx context.Context, r *http.Request, op Operation) (actor.Actor, error) {
	if op.Access == Code && ambiguous(r) {
		return actor.Actor{}, errs.New(errs.Invalid, "Ambiguous authentication headers").Do("Send X-API-Key or Authorization: Bearer, not both.")
	}
	creds, err := a.credentials(r, op)
	switch {
	case err == nil:
		return a.deps.Auth.Authenticate(ctx, creds)
	case errors.Is(err, errNoCredential) && op.Trusted && a.deps.Trusted != nil && r.Header.Get("Authorization") == "":
		return a.deps.Trusted(ctx)
	}
	return actor.Actor{}, err
}

const useOwnKey = "Use an API key of your own for this route."

// admits says why a caller may not call the operation, if so.
func (o Operation) admits(who actor.Actor) error {
	switch {
	case who.Scope == actor.ToolExecute && o.Access != Tools:
		return errs.New(errs.Forbidden, "This key may only execute tools.").Do(useOwnKey)
	case who.Scope == actor.CodeAPI && o.Access != Code:
		return errs.New(errs.Forbidden, "This token is for the code interpreter API only.").Do(useOwnKey)
	case (who.Scope == actor.MCP || who.Scope == actor.MCPRead) && o.Access != Apps:
		return errs.New(errs.Forbidden, "This token is for the MCP server only.").Do(useOwnKey)
	case who.Scope == actor.Watch && !o.Tickets:
		return errs.New(errs.Forbidden, "This ticket is for the events of one run only.").Do(useOwnKey)
	case o.Access == Admin && who.Rights != 0:
		return errs.New(errs.Forbidden, "This key may not do everything, so that no route for administrators is open to it.").Do("Use a key without scopes.")
	case o.Access == Admin && !who.Admin:
		return errs.New(errs.Forbidden, "This route is for administrators.").Do("Ask an administrator of this server.")
	case who.Scope == actor.Full && who.Rights != 0 && who.Rights&o.needs() == 0:
		return o.lacks(who.Rights)
	}
	return nil
}

// needs are the rights each of which is enough for the operation; none where a key
// must be one without scopes.
func (o Operation) needs() (rights actor.Rights) {
	if o.Method == http.MethodGet || o.Reads {
		rights |= actor.Read
	}
	switch {
	case o.Access == Tools:
		rights |= actor.Tools | actor.Run
	case o.Runs, o.Access == Code && o.Method != http.MethodGet:
		rights |= actor.Run
	}
	return rights
}

func (o Operation) lacks(has actor.Rights) error {
	e := errs.Newf(errs.Forbidden, "This key has the scopes %s only.", has)
	if need := o.needs(); need != 0 {
		return e.Do("Use a key with one of the scopes " + need.String() + ", or with none, which may do everything.")
	}
	return e.Do("Use a key without scopes: it may do everything.")
}

// attend returns a context that ends a few seconds after the caller's credential
// does, or when that cannot be found out. Leave must be called when the answer is
// over.
func (a *API) attend(ctx context.Context, who actor.Actor) (_ context.Context, leave func()) {
	ctx, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer end()
		tick := time.NewTicker(a.lookTime)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := a.deps.Still(ctx, who); err != nil {
				return
			}
		}
	}()
	return ctx, func() {
		end()
		<-ended
	}
}
