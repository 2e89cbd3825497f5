package form_test

import (
	"bytes"
	"encoding/json"
	"html/template"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"golang.org/x/net/html"

	"github.com/portico-run/portico/modules/console/form"
)

// schemas are the input schemas of all tools that the repository describes, and
// some that are hard.
func schemas(t testing.TB) map[string]json.RawMessage {
	t.Helper()
	all := map[string]json.RawMessage{}
	text, err := os.ReadFile("testdata/hard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	for _, pattern := range []string{"../../../configs/toolsets/*.yaml", "../../toolset/testdata/*.yaml", "../../connector/rest/openapi/testdata/*.golden.yaml"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			ofToolset(t, file, all)
		}
	}
	files, err := filepath.Glob("../../connector/vendors/definitions/*.json")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var d struct {
			Tools []struct {
				Name  string
				Input json.RawMessage `json:"inputSchema"`
			}
		}
		require.NoError(t, json.Unmarshal(text, &d))
		for _, tool := range d.Tools {
			all[filepath.Base(file)+" "+tool.Name] = tool.Input
		}
	}
	require.Greater(t, len(all), 30)
	return all
}

// ofToolset adds the schemas of a toolset file.
func ofToolset(t testing.TB, file string, to map[string]json.RawMessage) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var toolset struct {
			Schemas map[string]any
			Methods []struct {
				Name    string
				Request map[string]any
			}
		}
		if d.Decode(&toolset) != nil {
			return
		}
		for _, m := range toolset.Methods {
			if m.Request == nil {
				continue
			}
			raw, err := json.Marshal(m.Request)
			require.NoError(t, err)
			if _, err := form.New(raw); err == nil { // else it refers to the file's other schemas
				to[filepath.Base(file)+" "+m.Name] = raw
			}
		}
	}
}

// pages has a page around a form.
var pages = sync.OnceValues(func() (*template.Template, error) {
	return template.New("page").Parse(form.Template + `<!doctype html><title>t</title><form novalidate>{{template "form" .}}</form>`)
})

// page renders a form as a page has it.
func page(t testing.TB, v form.View) string {
	t.Helper()
	tmpl, err := pages()
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, tmpl.Execute(&b, v))
	return b.String()
}

// submit gives what a browser posts of a page's form, in the encoding of forms.
func submit(t testing.TB, page string) url.Values {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	require.NoError(t, err)
	values := url.Values{}
	each(root, func(n *html.Node) {
		name := attr(n, "name")
		switch n.Data {
		case "input":
			if attr(n, "type") != "checkbox" || has(n, "checked") {
				add(values, name, strings.NewReplacer("\n", "", "\r", "").Replace(attr(n, "value")))
			}
		case "textarea":
			add(values, name, strings.ReplaceAll(inside(n), "\n", "\r\n"))
		case "select":
			chosen := ""
			each(n, func(o *html.Node) {
				if o.Data == "option" && has(o, "selected") {
					chosen = attr(o, "value")
				}
			})
			add(values, name, chosen)
		}
	})
	posted, err := url.ParseQuery(values.Encode())
	require.NoError(t, err)
	return posted
}

func add(values url.Values, name, value string) {
	if name != "" {
		values.Add(name, value)
	}
}

func each(n *html.Node, visit func(*html.Node)) {
	if n.Type == html.ElementNode {
		visit(n)
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		each(c, visit)
	}
}

func has(n *html.Node, name string) bool {
	for _, a := range n.Attr {
		if a.Key == name {
			return true
		}
	}
	return false
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func inside(n *html.Node) string {
	var b strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		} else {
			b.WriteString(inside(c))
		}
	}
	return b.String()
}

// canonical is a value with sorted names and all its digits.
func canonical(t testing.TB, text []byte) string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v), string(text))
	out, err := json.Marshal(v)
	require.NoError(t, err)
	return string(out)
}
