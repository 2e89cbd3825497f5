package pages_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/console/form"
	"github.com/portico-run/portico/modules/console/pages"
)

// around is as little as a page needs around it. The console has more.
const around = `{{define "around"}}<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Title}}</title>
<link rel="stylesheet" href="/console/static/console.css"><link rel="stylesheet" href="/console/static/pages.css"></head>
<body><main id="main"><h1>{{.Title}}</h1>{{.Body}}</main></body></html>{{end}}
{{define "problem"}}<div class="problems" role="alert"><p><strong>{{.Message}}</strong> {{.Detail}}</p><p>{{.TraceID}}</p></div>{{end}}
{{define "next"}}{{with .}}<p class="next"><a class="button" href="{{.}}">Older</a></p>{{end}}{{end}}
{{define "command"}}<p class="command"><code>{{.}}</code></p>{{end}}
{{define "copy"}}<button type="button" class="copy" data-copy="{{.}}" hidden>Copy</button>{{end}}`

// serve shows the pages below /console, of an API.
func serve(t *testing.T, api http.Handler) http.Handler {
	t.Helper()
	p, err := pages.New("/console", time.Now)
	require.NoError(t, err)
	all := template.Must(template.New("").Funcs(template.FuncMap{
		"path": address, "when": func(v any) string { return fmt.Sprint(v) }, "size": func(v any) string { return fmt.Sprint(v) },
		"icon": func(string) string { return "" }, "pair": func(a, b any) any { return struct{ First, Second any }{a, b} },
	}).Parse(form.Template + around))
	all = template.Must(all.ParseFS(pages.Templates, "templates/*.html"))
	mux := http.NewServeMux()
	for pattern, show := range p.Routes() {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /console"+path, func(w http.ResponseWriter, r *http.Request) {
			answer, err := show(&pages.Visit{R: r, W: w, API: client{api, r}})
			if err != nil {
				answer = failed(err)
			}
			switch {
			case answer.To != "":
				http.Redirect(w, r, "/console"+answer.To, http.StatusSeeOther)
			case answer.Template != "":
				write(t, w, all, answer)
			}
		})
	}
	mux.HandleFunc("GET /console/static/{name}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, "../static/"+r.PathValue("name"))
	})
	return mux
}

func address(parts ...string) string {
	all := "/console"
	for _, p := range parts {
		if !strings.HasPrefix(p, "/") {
			p = strings.ReplaceAll(url.PathEscape(p), "%2F", "/")
		}
		all += p
	}
	return all
}

func write(t *testing.T, w http.ResponseWriter, all *template.Template, a pages.Answer) {
	t.Helper()
	var body, page bytes.Buffer
	require.NoError(t, all.ExecuteTemplate(&body, a.Template, a.Data))
	require.NoError(t, all.ExecuteTemplate(&page, "around", map[string]any{"Title": a.Title, "Body": template.HTML(body.String())}))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'")
	w.WriteHeader(max(a.Status, http.StatusOK))
	_, _ = w.Write(page.Bytes())
}

func failed(err error) pages.Answer {
	p, said := pages.ProblemOf(err)
	if e, ok := errors.AsType[*errs.Error](err); !said && ok {
		p = pages.Problem{Status: e.Code.Status(), Message: e.Message, Detail: e.Detail}
	} else if !said {
		p = pages.Problem{Status: http.StatusInternalServerError, Message: err.Error()}
	}
	return pages.Answer{Title: "That did not work", Template: "problem", Data: p, Status: p.Status}
}

// client asks an API as the person whose cookie came with a request.
type client struct {
	api  http.Handler
	from *http.Request
}

func (c client) Call(ctx context.Context, q pages.Request, into any) error {
	body, media := q.Stream, q.Type
	if q.Body != nil {
		text, err := json.Marshal(q.Body)
		if err != nil {
			return err
		}
		body, media = bytes.NewReader(text), "application/json"
	}
	r := httptest.NewRequestWithContext(ctx, q.Method, q.Path, body)
	if q.Query != nil {
		r.URL.RawQuery = q.Query.Encode()
	}
	r.Header.Set("Content-Type", media)
	r.Header.Set("Idempotency-Key", q.Once)
	if cookie, err := c.from.Cookie("_rf_access"); err == nil {
		r.Header.Set("Authorization", "Bearer "+cookie.Value)
	}
	w := httptest.NewRecorder()
	c.api.ServeHTTP(w, r)
	var envelope struct {
		Data                       json.RawMessage
		ErrMsg, ErrDetail, TraceID string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &envelope); err != nil {
		return err
	}
	if w.Code >= http.StatusBadRequest {
		return pages.Refusal{Problem: pages.Problem{Status: w.Code, Message: envelope.ErrMsg, Detail: envelope.ErrDetail, TraceID: envelope.TraceID}}
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(envelope.Data, into)
}
