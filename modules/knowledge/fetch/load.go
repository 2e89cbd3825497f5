package fetch

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/knowledge/read"
	"github.com/portico-run/portico/modules/tool/function"
)

// Value is a file as a variable: what it is called there, and how its content
// becomes a value. The helper of the runtime makes it one.
type Value struct {
	Name string `json:"name"`
	Form Form   `json:"form"`
	// Encoding of the content: "json" for a value as it is, "utf-8" for a text,
	// "base64" for bytes in one. Separator is that of the columns of a CSV file.
	Encoding  string          `json:"encoding"`
	Separator string          `json:"separator,omitempty"`
	Content   json.RawMessage `json:"content"`
}

// Form is what a variable becomes.
type Form string

// The forms of variables: str, what JSON says, a pandas DataFrame for CSV and Parquet,
// bytes.
const (
	TextForm    Form = "text"
	JSONForm    Form = "json"
	CSVForm     Form = "csv"
	ParquetForm Form = "parquet"
	BytesForm   Form = "bytes"
)

func (s *Service) loadFile() function.Function {
	return function.Function{
		Name:        "load_file",
		Description: "Set a variable to a file's content and return it: str, JSON value, DataFrame or bytes.",
		Input: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string","minLength":1,"maxLength":4096},` +
			`"var_name":{"type":"string"}},"required":["path","var_name"],"additionalProperties":false}`),
		// In a program it is the value, of any type.
		Output:   json.RawMessage(`{}`),
		ReadOnly: true, Idempotent: true, SandboxCallable: true,
		Run: func(ctx context.Context, c function.Caller, arguments json.RawMessage) (json.RawMessage, error) {
			var given struct {
				Path    string `json:"path"`
				VarName string `json:"var_name"`
			}
			if err := json.Unmarshal(arguments, &given); err != nil {
				return nil, ErrPath.With(err)
			}
			v, err := s.Load(ctx, c, given.Path, given.VarName)
			if err != nil {
				return nil, err
			}
			return json.Marshal(v)
		},
	}
}

// Load reads a file of the caller's canvas, or of an opened folder. A name that
// both have is the canvas's file. Errors are ErrName, ErrPath, ErrFull and
// ErrContent.
func (s *Service) Load(ctx context.Context, c function.Caller, name, variable string) (Value, error) {
	if err := checkName(variable); err != nil {
		return Value{}, err
	}
	if err := s.enter(ctx); err != nil {
		return Value{}, err
	}
	defer s.leave()
	content, found, err := s.ofCanvas(ctx, c.Actor, c.CanvasID, name)
	if err == nil && !found {
		content, found, err = s.ofFolder(name)
	}
	if err == nil && !found {
		err = ErrPath.Do("Give the name of a file of the canvas, or a path in a folder that the operator opened (LOAD_FILE_ROOTS).")
	}
	if err != nil {
		return Value{}, err
	}
	v, err := valueOf(name, content)
	v.Name = variable
	return v, err
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)

// keywords of Python, which name nothing else.
func keywords() []string {
	return strings.Fields(`False None True and as assert async await break class continue def del elif else except
		finally for from global if import in is lambda nonlocal not or pass raise return try while with yield`)
}

func checkName(name string) error {
	switch {
	case !identifier.MatchString(name):
		return ErrName.Do("var_name must begin with a letter or _, and have letters, digits and _ only, such as sales_2026.")
	case slices.Contains(keywords(), name):
		return ErrName.Do("var_name is a keyword of Python. Choose another, such as " + strings.ToLower(name) + "_file.")
	case strings.HasPrefix(name, "__"):
		return ErrName.Do("var_name begins with __, as names of Python itself do. Choose another.")
	}
	return nil
}

func (s *Service) full(size int64) error {
	return ErrFull.Do(fmt.Sprintf("It has %d bytes; at most %d are loaded (LOAD_FILE_MAX_BYTES). Give the program a part of it.", size, s.settings.MaxFile))
}

func (s *Service) ofCanvas(ctx context.Context, a actor.Actor, canvasID, name string) (content []byte, found bool, err error) {
	if canvasID == "" {
		return nil, false, nil
	}
	f, err := s.files.Find(ctx, a, canvasID, name)
	if missing(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if f.Size > s.settings.MaxFile {
		return nil, false, s.full(f.Size)
	}
	_, r, err := s.files.Open(ctx, a, f.FileID)
	if err != nil {
		return nil, false, err
	}
	content, err = s.all(r)
	return content, err == nil, err
}

// all is the content of a file that may have grown since its size was asked.
func (s *Service) all(r io.ReadCloser) ([]byte, error) {
	defer func() { _ = r.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(r, s.settings.MaxFile+1))
	if err == nil && int64(len(b)) > s.settings.MaxFile {
		return nil, s.full(int64(len(b)))
	}
	return b, err
}

// ofFolder looks a file up in the opened folders, in their order. os.Root lets
// neither ".." nor a link lead out of a folder.
func (s *Service) ofFolder(name string) (content []byte, found bool, err error) {
	for _, folder := range s.settings.Roots {
		local := name
		if filepath.IsAbs(name) {
			if local, err = filepath.Rel(folder, name); err != nil {
				continue
			}
		}
		if !filepath.IsLocal(local) {
			continue
		}
		content, err = s.inFolder(folder, local)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		return content, err == nil, err
	}
	return nil, false, nil
}

func (s *Service) inFolder(folder, name string) ([]byte, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("open a folder of LOAD_FILE_ROOTS: %w", err)
	}
	defer func() { _ = root.Close() }()
	// Not to wait for whoever writes into a pipe.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, ErrPath.Do("The file may not be read, or lies outside of the opened folder.").With(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = ErrPath.Do("It is a folder or a device, and no file.")
	}
	if err == nil && info.Size() > s.settings.MaxFile {
		err = s.full(info.Size())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s.all(f)
}

// valueOf is content as its name says it is to be read; what is no text is
// bytes.
func valueOf(name string, content []byte) (Value, error) {
	switch ext := strings.ToLower(path.Ext(name)); ext {
	case ".parquet":
		return inBase64(ParquetForm, content)
	case ".json":
		if !json.Valid(content) {
			return Value{}, ErrContent.Do("It is called .json and is not JSON. Correct it, or give it another name to load it as text.")
		}
		return Value{Form: JSONForm, Encoding: "json", Content: content}, nil
	case ".csv", ".tsv":
		separator := ","
		if ext == ".tsv" {
			separator = "\t"
		}
		text, err := read.Decode(content, "text/csv")
		if err != nil {
			return Value{}, ErrContent.Do("It is called " + ext + " and is no text.").With(err)
		}
		v, err := inText(CSVForm, text)
		v.Separator = separator
		return v, err
	}
	text, err := read.Decode(content, "")
	if err != nil {
		return inBase64(BytesForm, content)
	}
	return inText(TextForm, text)
}

func inText(f Form, text string) (Value, error) {
	content, err := json.Marshal(text)
	return Value{Form: f, Encoding: "utf-8", Content: content}, err
}

func inBase64(f Form, b []byte) (Value, error) {
	content, err := json.Marshal(base64.StdEncoding.EncodeToString(b))
	return Value{Form: f, Encoding: "base64", Content: content}, err
}

// missing reports whether a canvas has no such file.
func missing(err error) bool { return errors.Is(err, drive.ErrMissing) }
