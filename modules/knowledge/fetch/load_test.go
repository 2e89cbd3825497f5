package fetch_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/knowledge/fetch"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/tool/function"
)

// canvas has files by their names.
type canvas map[string]string

func (c canvas) Find(_ context.Context, a actor.Actor, canvasID, name string) (drive.File, error) {
	content, found := c[name]
	if !found || a.UID != "u-1" || canvasID != "c-1" {
		return drive.File{}, drive.ErrMissing
	}
	return drive.File{FileID: name, Name: name, Size: int64(len(content))}, nil
}

func (c canvas) Open(_ context.Context, _ actor.Actor, id string) (drive.File, io.ReadSeekCloser, error) {
	if strings.HasPrefix(id, "large") {
		return drive.File{}, nil, errors.New("it was opened")
	}
	return drive.File{}, content{strings.NewReader(c[id])}, nil
}

type content struct{ *strings.Reader }

func (content) Close() error { return nil }

func caller() function.Caller {
	return function.Caller{Actor: actor.Actor{UID: "u-1"}, CanvasID: "c-1"}
}

func folders(t *testing.T) (root, other string) {
	t.Helper()
	root, other = t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(root, "in", "a.txt"): "inside", filepath.Join(root, "both.txt"): "of the folder", filepath.Join(other, "secret.txt"): "secret",
		filepath.Join(root, "large.bin"): strings.Repeat("x", 1<<20+1),
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	require.NoError(t, os.Symlink(other, filepath.Join(root, "out")))
	require.NoError(t, os.Symlink(filepath.Join(other, "secret.txt"), filepath.Join(root, "link.txt")))
	require.NoError(t, os.Symlink("in/a.txt", filepath.Join(root, "inner.txt")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600))
	return root, other
}

func TestFilesAreLoadedFromTheCanvasAndFromOpenedFolders(t *testing.T) {
	t.Parallel()
	root, other := folders(t)
	s := service(t, func(d *fetch.Deps) {
		d.Settings.Roots = []string{t.TempDir(), root}
		d.Files = canvas{"both.txt": "of the canvas", "large.csv": strings.Repeat("x", 1<<20+1), "bad.json": "{"}
	})
	for path, want := range map[string]string{
		"both.txt": "of the canvas", "in/a.txt": "inside", filepath.Join(root, "in/a.txt"): "inside", "inner.txt": "inside", "in/../in/a.txt": "inside",
	} {
		v, err := s.Load(t.Context(), caller(), path, "v")
		require.NoError(t, err, path)
		require.JSONEq(t, `"`+want+`"`, string(v.Content), path)
	}
	for path, want := range map[string]error{
		"link.txt": fetch.ErrPath, "out/secret.txt": fetch.ErrPath, "../" + filepath.Base(other) + "/secret.txt": fetch.ErrPath,
		filepath.Join(other, "secret.txt"): fetch.ErrPath, "/etc/passwd": fetch.ErrPath, "pipe": fetch.ErrPath, "in": fetch.ErrPath, "none.txt": fetch.ErrPath,
		"large.bin": fetch.ErrFull, "large.csv": fetch.ErrFull, "bad.json": fetch.ErrContent,
	} {
		_, err := s.Load(t.Context(), caller(), path, "v")
		require.ErrorIs(t, err, want, "%s: %v", path, err)
		require.NotContains(t, words(err), other)
	}
	for _, c := range []function.Caller{{Actor: actor.Actor{UID: "u-2"}, CanvasID: "c-1"}, {Actor: actor.Actor{UID: "u-1"}}} {
		v, err := s.Load(t.Context(), c, "both.txt", "v")
		require.NoError(t, err)
		require.JSONEq(t, `"of the folder"`, string(v.Content))
	}
	for _, name := range []string{"", "1a", "a b", "a.b", "class", "None", "__name__", "a;b", strings.Repeat("a", 101)} {
		_, err := s.Load(t.Context(), caller(), "both.txt", name)
		require.ErrorIs(t, err, fetch.ErrName, name)
		require.Equal(t, errs.Invalid, errs.CodeOf(err))
		require.Contains(t, words(err), "var_name")
	}
}

// What load_file answers is set in the program's globals by the helper of the
// runtime, and by the same text in a Python of its own.
func TestFilesBecomeVariables(t *testing.T) {
	t.Parallel()
	e := engine(t)
	made, err := e.Run(t.Context(), sandbox.Job{Timeout: time.Minute, Collect: sandbox.Collect{MaxFiles: 1, MaxBytes: 1 << 20}, Code: `
import pandas
pandas.DataFrame({"n": [1, 2], "s": ["a", "b"]}).to_parquet("made")`})
	require.NoError(t, err)
	require.Len(t, made.Outputs, 1, made.Stderr)
	s := service(t, func(d *fetch.Deps) {
		d.Files = canvas{
			"a.txt": "caf\xe9", "a.json": `{"big": 12345678901234567890, "list": [1.5, null]}`, "a.csv": "x,y\n1,ä\n2,\"b,c\"\n", "a.tsv": "x\ty\n1\t2\n",
			"a.parquet": string(made.Outputs[0].Content), "a.bin": "\x00\x01\xff", "Makefile": "all:\n",
		}
	})
	load := s.Functions()[1]
	require.Equal(t, "load_file", load.Name)
	answers := map[string]json.RawMessage{}
	for file := range map[string]bool{"a.txt": true, "a.json": true, "a.csv": true, "a.tsv": true, "a.parquet": true, "a.bin": true, "Makefile": true} {
		arguments, err := json.Marshal(map[string]string{"path": file, "var_name": "v_" + strings.ReplaceAll(file, ".", "_")})
		require.NoError(t, err)
		answers[file], err = load.Run(t.Context(), caller(), arguments)
		require.NoError(t, err, file)
	}
	given, err := json.Marshal(answers)
	require.NoError(t, err)
	helper, err := guest.VariableHelper()
	require.NoError(t, err)
	const show = `
import json
answers = json.load(open("answers.json"))
def inside():
    for answer in answers.values():
        value = portico_variable(answer)
        assert value is globals()[answer["name"]], "the value is returned as well"
inside()
print(repr(v_a_txt), v_a_json["big"], v_a_json["list"], v_a_bin, repr(v_Makefile))
print(v_a_csv.to_dict("list"), v_a_tsv.to_dict("list"), v_a_parquet.to_dict("list"))
try:
    portico_variable({"name": "class", "form": "text", "encoding": "utf-8", "content": ""})
except ValueError as error:
    print(error)
`
	const want = `'café' 12345678901234567890 [1.5, None] b'\x00\x01\xff' 'all:\n'
{'x': [1, 2], 'y': ['ä', 'b,c']} {'x': [1], 'y': [2]} {'n': [1, 2], 's': ['a', 'b']}
var_name is no name of a variable: 'class'
`
	for name, code := range map[string]string{"of the runtime": "from portico_runtime.variable import portico_variable\n" + show, "as text": helper + show} {
		result, err := e.Run(t.Context(), sandbox.Job{Code: code, Timeout: time.Minute, Inputs: []sandbox.File{{Path: "answers.json", Content: given}}})
		require.NoError(t, err)
		require.Equal(t, want, result.Stdout, "%s: %s", name, result.Stderr)
	}
}
