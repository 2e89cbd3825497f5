package httpapi_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
)

// refusals finds every error of the server that means too much at once, by the
// place in the source that makes it. What it finds says nothing of the time to
// wait yet.
func refusals(t *testing.T) map[string]*errs.Error {
	t.Helper()
	found, files := map[string]*errs.Error{}, token.NewFileSet()
	err := filepath.WalkDir("../../modules", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is || len(call.Args) < 2 || !named(call.Fun, "errs", "New", "Newf") || !named(call.Args[0], "errs", "RateLimited") {
				return true
			}
			text, is := call.Args[1].(*ast.BasicLit)
			if !is {
				t.Errorf("%s: the message is not a literal", files.Position(call.Pos()))
				return true
			}
			message, err := strconv.Unquote(text.Value)
			if err != nil {
				t.Error(err)
			}
			found[files.Position(call.Pos()).String()] = errs.New(errs.RateLimited, message)
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func named(e ast.Expr, from string, names ...string) bool {
	s, is := e.(*ast.SelectorExpr)
	if !is {
		return false
	}
	x, is := s.X.(*ast.Ident)
	for _, name := range names {
		if is && x.Name == from && s.Sel.Name == name {
			return true
		}
	}
	return false
}

// Whoever makes the refusal and whichever kind of route answers with it: a 429
// says when to come back, also where its maker did not.
func TestEveryRefusalOfTooMuchSaysWhenToComeBack(t *testing.T) {
	t.Parallel()
	all := refusals(t)
	if len(all) < 7 {
		t.Fatalf("only %d places were found: %v", len(all), all)
	}
	api, _ := newAPI(t)
	var refused error
	op := func(id string) httpapi.Operation {
		return httpapi.Operation{ID: "refused-" + id, Method: http.MethodGet, Path: "/v1/refused/" + id, Access: httpapi.Public, Tag: "t", Summary: id}
	}
	httpapi.Register(api, op("enveloped"), func(context.Context, actor.Actor, *struct{}) (string, error) { return "", refused })
	httpapi.RegisterPlain(api, op("plain"), func(context.Context, actor.Actor, *struct{}) (string, error) { return "", refused })
	raw := func(http.ResponseWriter, *http.Request, actor.Actor) error { return refused }
	api.Raw(op("raw"), raw)
	worded := op("worded")
	worded.Refusal = func(e *errs.Error, _ string) any { return e.Message }
	api.Raw(worded, raw)
	for place, e := range all {
		refused = e
		for _, path := range []string{"enveloped", "plain", "raw", "worded"} {
			if got := send(t, api, "GET", "/v1/refused/"+path, "", nil); got.status != 429 || got.header.Get("Retry-After") != "1" {
				t.Errorf("%s at %s: %d %v", place, path, got.status, got.header)
			}
		}
		w := httptest.NewRecorder()
		httpapi.Fail(w, e)
		if w.Code != 429 || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%s by Fail: %d %v", place, w.Code, w.Header())
		}
	}
}
