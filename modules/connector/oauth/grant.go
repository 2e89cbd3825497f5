package oauth

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
)

// grant is what a user has at a server, opened.
type grant struct {
	row grantRow
	tokens
}

// none reports whether there are no tokens.
func (g grant) none() bool { return g.Access == "" }

// of reports whether the tokens were issued for a target as it is now: one whose
// address has changed does not get those for the one before.
func (g grant) of(t Target) bool {
	if t.fixed() {
		return g.row.Resource == t.URL && g.row.Issuer == t.Endpoints.Token
	}
	return covers(g.row.Resource, t.URL)
}

// early is how long before its end a token is refreshed.
const early = 30 * time.Second

func (g grant) ends(now time.Time) bool {
	return g.row.ExpiresAt != nil && !now.Add(early).Before(*g.row.ExpiresAt)
}

func (g grant) ended(now time.Time) bool {
	return g.row.ExpiresAt != nil && !now.Before(*g.row.ExpiresAt)
}

// read reads what a user has at a server.
func (s *Service) read(ctx context.Context, k key) (grant, error) {
	row, err := s.rows.grant(s.db.Read(ctx), k)
	g := grant{row: row}
	if err != nil || row.Tokens == nil {
		return g, err
	}
	if err := s.open(*row.Tokens, &g.tokens); err != nil {
		s.logger.ErrorContext(ctx, "the tokens of a user cannot be read; a new authorization is needed", "uid", k.uid, s.kind.Noun, k.of, "error", err)
		g.tokens = tokens{}
	}
	return g, nil
}

// fresh is what a user has at a server, refreshed if it is about to end.
func (s *Service) fresh(ctx context.Context, of Target, k key) (grant, error) {
	g, err := s.grants.Get(ctx, k, func(ctx context.Context) (grant, error) { return s.read(ctx, k) })
	if err != nil || g.none() || !g.of(of) || !g.ends(s.now()) {
		return g, err
	}
	renewed, err := s.renew(ctx, of, k, g)
	if err != nil && !g.ended(s.now()) && ctx.Err() == nil {
		s.logger.WarnContext(ctx, "a token is not refreshed yet", s.kind.Noun, of.Name, "uid", k.uid, "error", err)
		return g, nil
	}
	return renewed, err
}

// refreshing names a refresh that callers share: of tokens as they are stored.
type refreshing struct {
	key

	sealed string
}

// Bounds of a refresh: how long one process may take before another one tries, and
// how often the others look.
const (
	refreshTime = 30 * time.Second
	refreshLook = 100 * time.Millisecond
)

// renew refreshes tokens once for all callers, in this process and in others. The
// authorization server may take a refresh token once only, so that nobody may use
// one while somebody else does, and a refresh that was begun is brought to its end.
func (s *Service) renew(ctx context.Context, of Target, k key, g grant) (grant, error) {
	if g.Refresh == "" {
		return grant{row: g.row}, s.lose(ctx, g, of.Name, "the token has expired and cannot be refreshed")
	}
	return s.refresh.Do(ctx, refreshing{k, *g.row.Tokens}, func(ctx context.Context) (grant, error) {
		for {
			mine, err := s.claim(ctx, g)
			if err != nil {
				return grant{}, err
			}
			if mine {
				return s.exchangeRefresh(context.WithoutCancel(ctx), of, k, g)
			}
			now, err := s.read(ctx, k)
			if err != nil || now.none() {
				return now, err
			}
			if *now.row.Tokens != *g.row.Tokens {
				if !now.ended(s.now()) {
					return now, nil
				}
				g = now // the same ones, sealed with another key meanwhile
			}
			if err := s.wait(ctx, refreshLook); err != nil {
				return grant{}, err
			}
		}
	})
}

func (s *Service) claim(ctx context.Context, g grant) (mine bool, err error) {
	err = s.db.InTx(ctx, func(tx database.Tx) (err error) {
		mine, err = s.rows.claim(tx, g.row, s.now(), s.now().Add(refreshTime))
		return err
	})
	return mine, err
}

// exchangeRefresh asks for new tokens and stores them. The caller has the claim.
func (s *Service) exchangeRefresh(ctx context.Context, of Target, k key, g grant) (grant, error) {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}}
	if !of.fixed() {
		form.Set("resource", g.row.Resource)
	}
	got, err := s.request(ctx, placeOf(of), g.Endpoint, g.Client, form)
	if refused, ok := errors.AsType[errRefused](err); ok && (refused.Code == "invalid_grant" || refused.Code == "invalid_client" || refused.Code == "unauthorized_client") {
		if refused.Code != "invalid_grant" && g.Client.Registered {
			err = s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.forgetClient(tx, g.row.Issuer, s.callback()) })
		} else {
			err = nil
		}
		return grant{row: g.row}, errors.Join(err, s.lose(ctx, g, of.Name, refused.Error()))
	}
	if err != nil {
		release := s.db.InTx(ctx, func(tx database.Tx) error {
			return s.rows.replace(tx, g.row, map[string]any{"refreshing_until": nil})
		})
		s.logger.WarnContext(ctx, "a token cannot be refreshed now", s.kind.Noun, of.Name, "uid", k.uid, "error", err)
		return grant{}, errors.Join(s.unavailable(of.Name, err), release)
	}
	after := g.tokens
	after.Access = got.Access
	if got.Refresh != "" {
		after.Refresh = got.Refresh
	}
	sealed, err := s.seal(after)
	if err != nil {
		return grant{}, err
	}
	err = s.db.InTx(ctx, func(tx database.Tx) error {
		return s.rows.replace(tx, g.row, map[string]any{
			"tokens": sealed, "scopes": strings.Join(got.scopes(strings.Fields(g.row.Scopes)), " "), "expires_at": got.expiry(s.now()),
			"refreshing_until": nil, "updated_at": s.now(),
		})
	})
	if err != nil && !errors.Is(err, errGone) { // gone: the user has authorized anew or ended it
		return grant{}, err
	}
	return s.read(ctx, k)
}

// lose forgets tokens that are not good any more. Its error is nil, or that of the
// database.
func (s *Service) lose(ctx context.Context, g grant, name, why string) error {
	s.logger.InfoContext(ctx, "an authorization has ended", s.kind.Noun, name, "uid", g.row.UID, "reason", why)
	err := s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.replace(tx, g.row, map[string]any{"tokens": nil, "expires_at": nil, "refreshing_until": nil, "version": ids.New("mc"), "updated_at": s.now()}); err != nil {
			return err
		}
		return audit.Write(tx, audit.Change{By: actor.Actor{UID: g.row.UID}, Action: s.kind.Action + ".lost", Subject: name}, s.now())
	})
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}

// unavailable is an authorization server that does not do its work.
func (s *Service) unavailable(name string, err error) error {
	e := errs.Newf(errs.Unavailable, "The authorization server of %s %s does not answer as it should.", s.kind.Noun, name)
	if refused, ok := errors.AsType[errRefused](err); ok {
		e = errs.Newf(errs.Unavailable, "The authorization server of %s %s refuses: %s.", s.kind.Noun, name, strings.TrimSuffix(strings.TrimPrefix(refused.Error(), "the authorization server answered "), "."))
	}
	return e.Do("Try again; if it stays, the operator finds the cause in the log.").With(err)
}

// Disconnect ends the actor's authorization for a server: here, and at the
// authorization server if that can be reached and has a way.
func (s *Service) Disconnect(ctx context.Context, a actor.Actor, name string) error {
	of, err := s.kind.Targets.Find(ctx, a, name)
	if err != nil {
		return err
	}
	g, err := s.read(ctx, key{a.UID, of.ID})
	if err != nil {
		return err
	}
	if g.row.Tokens == nil {
		return errs.Newf(errs.NotFound, "There is no authorization for %s %s.", s.kind.Noun, name).Do("POST " + s.kind.Routes + "/" + name + "/connect begins one.")
	}
	err = s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.replace(tx, g.row, map[string]any{
			"tokens": nil, "issuer": "", "resource": "", "scopes": "", "wanted": "", "expires_at": nil, "refreshing_until": nil, "version": ids.New("mc"), "updated_at": s.now(),
		}); err != nil {
			return err
		}
		return audit.Write(tx, audit.Change{By: a, Action: s.kind.Action + ".disconnect", Subject: name}, s.now())
	})
	if errors.Is(err, errGone) {
		return errs.Newf(errs.Conflict, "The authorization for %s %s has just changed.", s.kind.Noun, name).Do("Try again.")
	}
	if err != nil || g.none() || g.Revocation == "" {
		return err
	}
	form := url.Values{"token": {g.Access}}
	if g.Refresh != "" {
		form = url.Values{"token": {g.Refresh}, "token_type_hint": {"refresh_token"}}
	}
	if _, _, err := s.post(ctx, placeOf(of), g.Revocation, g.Client, form); err != nil {
		s.logger.WarnContext(ctx, "a token is not ended at the authorization server", s.kind.Noun, name, "error", err)
	}
	return nil
}

// union is all scopes of two lists, in order.
func union(a, b []string) []string {
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return slices.Compact(all)
}
