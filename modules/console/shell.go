package console

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/console/form"
	"github.com/portico-run/portico/modules/console/pages"
	"github.com/portico-run/portico/modules/console/watch"
)

//go:embed templates/*.html
var templateFiles embed.FS

// shell is what all pages have around them.
type shell struct {
	api       http.Handler
	base      string // the path before all pages
	templates *template.Template
	assets    *assets
	now       func() time.Time
	logger    *slog.Logger
}

// policy lets pages load only what this server has, and run no script that is
// text: everything on them was written by a model, a user or an upstream.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// handler is the console below a path: its pages, and what they load.
func handler(d Deps, content func() (reference, error), now func() time.Time) (http.Handler, error) {
	static, err := fs.Sub(staticFiles, "static")
	if err != nil {
		return nil, fmt.Errorf("the console's files: %w", err)
	}
	base := d.Path
	s := &shell{api: d.API, base: base, now: now, logger: d.Logger}
	if s.assets, err = loadAssets(static); err != nil {
		return nil, err
	}
	t := template.New("").Funcs(s.funcs())
	if t, err = t.ParseFS(templateFiles, "templates/*.html"); err != nil {
		return nil, fmt.Errorf("the console's templates: %w", err)
	}
	if s.templates, err = t.ParseFS(watch.Templates, "templates/*.html"); err != nil {
		return nil, fmt.Errorf("the console's templates: %w", err)
	}
	if _, err = s.templates.Parse(form.Template); err != nil {
		return nil, fmt.Errorf("the console's templates: %w", err)
	}
	if _, err = s.templates.ParseFS(pages.Templates, "templates/*.html"); err != nil {
		return nil, fmt.Errorf("the console's templates: %w", err)
	}
	if _, err = s.templates.Parse(operations); err != nil {
		return nil, fmt.Errorf("the page of the API: %w", err)
	}
	w, err := watch.New(base, s.now)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	s.pages(mux, w.Routes())
	p, err := pages.New(base, s.now)
	if err != nil {
		return nil, err
	}
	s.pages(mux, p.Routes())
	mux.Handle("GET /docs", s.page(s.documented(content)))
	mux.Handle("GET "+base+"/static/{hash}/{name...}", s.assets)
	s.signIn(mux)
	return http.NewCrossOriginProtection().Handler(mux), nil
}

func (s *shell) pages(mux *http.ServeMux, routes map[string]func(*pages.Visit) (pages.Answer, error)) {
	for pattern, show := range routes {
		method, path, _ := strings.Cut(pattern, " ")
		mux.Handle(method+" "+s.base+path, s.page(show))
	}
}

// page makes a handler of a page.
func (s *shell) page(show func(*pages.Visit) (pages.Answer, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w)
		a, err := show(&pages.Visit{R: r, W: w, API: client{s.api, r}})
		if err != nil {
			a = s.failed(r, err)
		}
		s.answer(w, r, a)
	})
}

// documented is the page about the API. Its operations can be tried in a browser.
func (s *shell) documented(content func() (reference, error)) func(*pages.Visit) (pages.Answer, error) {
	made := sync.OnceValues(func() (template.HTML, error) {
		var b bytes.Buffer
		read, err := content()
		if err == nil {
			err = s.templates.ExecuteTemplate(&b, "api", read)
		}
		return template.HTML(b.String()), err //nolint:gosec // of our templates
	})
	return func(*pages.Visit) (pages.Answer, error) {
		text, err := made()
		return pages.Answer{Title: "API", Template: "made", Data: text}, err
	}
}

func (s *shell) answer(w http.ResponseWriter, r *http.Request, a pages.Answer) {
	switch {
	case a.To != "":
		http.Redirect(w, r, s.base+a.To, http.StatusSeeOther)
	case a.Template != "":
		s.write(w, r, a)
	}
}

func secure(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
}

// failed is the page of an error. Whoever is not signed in goes to sign in, and
// comes back.
func (s *shell) failed(r *http.Request, err error) pages.Answer {
	const title = "That did not work"
	if p, ok := pages.ProblemOf(err); ok {
		switch p.Status {
		case http.StatusUnauthorized:
			back := s.base
			if r.Method == http.MethodGet {
				back = r.URL.RequestURI()
			}
			return pages.Answer{To: "/login?next=" + url.QueryEscape(back)}
		case http.StatusNotFound, http.StatusForbidden: // what is another's looks like what is not there
			return missing()
		}
		return pages.Answer{Title: title, Template: "problem", Data: p, Status: p.Status}
	}
	if e, ok := errors.AsType[*errs.Error](err); ok {
		if e.Code == errs.NotFound {
			return missing()
		}
		return pages.Answer{Title: title, Template: "problem", Data: pages.Problem{Message: e.Message, Detail: e.Detail}, Status: e.Code.Status()}
	}
	s.logger.ErrorContext(r.Context(), "a page of the console failed", "path", r.URL.Path, "error", err)
	return pages.Answer{Title: title, Template: "problem", Data: pages.Problem{Message: "The page could not be made.", Detail: "Load it again; if it fails again, look into the server's log."}, Status: http.StatusInternalServerError}
}

func missing() pages.Answer {
	return pages.Answer{
		Title: "Nothing here", Template: "problem", Status: http.StatusNotFound,
		Data: pages.Problem{Message: "There is nothing at this address that you may see.", Detail: "Check the address, or choose a page above."},
	}
}

func (s *shell) write(w http.ResponseWriter, r *http.Request, a pages.Answer) {
	var body, page bytes.Buffer
	err := s.templates.ExecuteTemplate(&body, a.Template, a.Data)
	if err == nil {
		err = s.templates.ExecuteTemplate(&page, "layout", s.around(r, a, body.String()))
	}
	if err != nil { // a template that does not fit its data
		s.logger.ErrorContext(r.Context(), "a page of the console could not be rendered", "path", r.URL.Path, "error", err)
		http.Error(w, "The page could not be made. The server's log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	_, _ = w.Write(page.Bytes()) // a client that is gone
}

// around is what the layout shows.
type around struct {
	Title, Theme, Here string
	Nav                []link
	Body               template.HTML
	Signed, Wide       bool
}

type link struct {
	Path, Title string
	Current     bool
}

func (s *shell) around(r *http.Request, a pages.Answer, body string) around {
	at := strings.TrimPrefix(r.URL.Path, s.base)
	l := around{Title: a.Title, Theme: theme(r), Here: r.URL.RequestURI(), Body: template.HTML(body), Signed: a.Template != "login", Wide: a.Wide} //nolint:gosec // of our templates
	for _, n := range []link{
		{Path: "/runs", Title: "Runs"},
		{Path: "/playground", Title: "Playground"},
		{Path: "/approvals", Title: "Approvals"},
		{Path: "/toolsets", Title: "Toolsets"},
		{Path: "/files", Title: "Files"},
		{Path: "/credits", Title: "Credits"},
		{Path: "/keys", Title: "Keys"},
		{Path: "/activity", Title: "Activity"},
		{Path: "/help", Title: "Help"},
		{Path: "/account", Title: "Account"},
		{Path: "/admin", Title: "Admin"},
	} {
		if n.Path == "/admin" && !s.administers(r) {
			continue
		}
		n.Current = at == n.Path || strings.HasPrefix(at, n.Path+"/")
		l.Nav = append(l.Nav, n)
	}
	return l
}

// administers reports whether the person sees the pages of administrators. Where
// that cannot be read they are not offered; the API decides about each of them.
func (s *shell) administers(r *http.Request) bool {
	if c, err := r.Cookie(httpapi.AccessCookie); err != nil || c.Value == "" {
		return false
	}
	var me struct{ Role string }
	err := client{s.api, r}.Call(r.Context(), pages.Request{Method: http.MethodGet, Path: "/v1/auth/me"}, &me)
	return err == nil && me.Role == "admin"
}
