package console

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/portico-run/portico/modules/console/pages"
)

// themeCookie holds light or dark, for whoever does not want the system's.
const themeCookie = "_rf_theme"

// maxLogin is the largest form to sign in with.
const maxLogin = 8 << 10

// loginView is the page to sign in.
type loginView struct {
	Next, Code, Email string
	OIDC              bool
	Problem           *pages.Problem
}

func (s *shell) signIn(mux *http.ServeMux) {
	mux.Handle("GET "+s.base+"/login", s.page(s.login))
	mux.HandleFunc("POST "+s.base+"/login", s.enter)
	mux.HandleFunc("POST "+s.base+"/logout", s.leave)
	mux.HandleFunc("POST "+s.base+"/theme", s.setTheme)
	mux.Handle("GET "+s.base+"/{$}", http.RedirectHandler(s.base+"/runs", http.StatusSeeOther))
	if s.base != "" {
		mux.Handle("GET "+s.base, http.RedirectHandler(s.base+"/runs", http.StatusSeeOther))
	}
	mux.Handle(s.base+"/", s.page(func(*pages.Visit) (pages.Answer, error) { return missing(), nil }))
}

func (s *shell) login(v *pages.Visit) (pages.Answer, error) {
	q := v.R.URL.Query()
	view := loginView{Next: s.within(q.Get("next")), Code: q.Get("code")}
	if q.Get("failed") != "" {
		view.Problem = &pages.Problem{Message: "Signing in did not work.", Detail: "Try again, or sign in another way."}
	}
	return s.showLogin(v.R.Context(), v, view, http.StatusOK), nil
}

func (s *shell) showLogin(ctx context.Context, v *pages.Visit, view loginView, status int) pages.Answer {
	var ways struct{ OIDC bool }
	// Without an answer, the way that may not be there is not offered.
	_ = v.API.Call(ctx, pages.Request{Method: http.MethodGet, Path: "/v1/auth/ways"}, &ways)
	view.OIDC = ways.OIDC
	return pages.Answer{Title: "Sign in", Template: "login", Data: view, Status: status}
}

// enter gives the browser a session for what it sent.
func (s *shell) enter(w http.ResponseWriter, r *http.Request) {
	secure(w)
	r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
	proof := map[string]string{}
	for _, name := range []string{"apiKey", "code", "email", "password"} {
		value := r.PostFormValue(name)
		if name != "password" { // spaces around it are part of it
			value = strings.TrimSpace(value)
		}
		if value != "" {
			proof[name] = value
		}
	}
	next := s.within(r.PostFormValue("next"))
	c := client{s.api, r}
	header, err := c.do(r.Context(), pages.Request{Method: http.MethodPost, Path: "/v1/auth/session", Body: proof}, nil)
	if err == nil {
		for _, cookie := range header.Values("Set-Cookie") {
			w.Header().Add("Set-Cookie", cookie)
		}
		http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // within the console
		return
	}
	p, said := pages.ProblemOf(err)
	if !said {
		s.answer(w, r, s.failed(r, err))
		return
	}
	v := &pages.Visit{R: r, W: w, API: c}
	s.write(w, r, s.showLogin(r.Context(), v, loginView{Next: next, Email: proof["email"], Problem: &p}, p.Status))
}

// leave ends the session.
func (s *shell) leave(w http.ResponseWriter, r *http.Request) {
	secure(w)
	header, err := client{s.api, r}.do(r.Context(), pages.Request{Method: http.MethodDelete, Path: "/v1/auth/session"}, nil)
	if err != nil {
		s.answer(w, r, s.failed(r, err))
		return
	}
	for _, cookie := range header.Values("Set-Cookie") {
		w.Header().Add("Set-Cookie", cookie)
	}
	http.Redirect(w, r, s.base+"/login", http.StatusSeeOther)
}

func (s *shell) setTheme(w http.ResponseWriter, r *http.Request) {
	secure(w)
	const year = 365 * 24 * 60 * 60
	cookie := &http.Cookie{ //nolint:gosec // a colour scheme is no secret
		Name: themeCookie, Value: r.PostFormValue("theme"), Path: s.base + "/", MaxAge: year, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: r.TLS != nil,
	}
	if cookie.Value != "light" && cookie.Value != "dark" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, s.within(r.PostFormValue("next")), http.StatusSeeOther) //nolint:gosec // within the console
}

// theme is what the browser asked for; empty for the system's.
func theme(r *http.Request) string {
	if c, err := r.Cookie(themeCookie); err == nil && (c.Value == "light" || c.Value == "dark") {
		return c.Value
	}
	return ""
}

// within is an address of the console: the given one, or else its first page.
func (s *shell) within(address string) string {
	u, err := url.Parse(address)
	if err != nil || !strings.HasPrefix(path.Clean(u.Path), s.base+"/") || !strings.HasPrefix(address, s.base+"/") || strings.ContainsAny(address, "\\\r\n") {
		return s.base + "/runs"
	}
	return address
}
