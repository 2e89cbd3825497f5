package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/portico-run/portico/modules/tool/resource"
	"github.com/portico-run/portico/modules/toolset"
)

// setBody writes arguments as the kind of body the method asks for.
func (p *request) setBody(a toolset.Adapter, arguments map[string]any) error {
	declared, _, err := mime.ParseMediaType(p.Header.Get("Content-Type"))
	switch {
	case a.Body == toolset.BodyNone, len(arguments) == 0 && (p.Method == http.MethodDelete || a.Body == toolset.BodyOptional):
		p.Header.Del("Content-Type")
		return nil
	case a.UseFormData:
		return p.setMultipart(a, arguments)
	case err == nil && declared == typeForm:
		p.Body = []byte(formOf(a, arguments))
		return nil
	case a.BodyParameter != "":
		return p.setWhole(declared, arguments, a.BodyParameter)
	}
	p.defaultType()
	p.Body, err = json.Marshal(renamed(a, arguments))
	return err
}

func (p *request) defaultType() {
	if p.Header.Get("Content-Type") == "" {
		p.Header.Set("Content-Type", typeJSON)
	}
}

// setWhole sends one argument as the body: JSON, or text or a file as it is
// where the method's type is another. Nothing is sent where it is missing.
func (p *request) setWhole(declared string, arguments map[string]any, name string) (err error) {
	v, has := arguments[name]
	if !has {
		p.Header.Del("Content-Type")
		return nil
	}
	if declared != "" && !isJSON(declared) {
		switch v := v.(type) {
		case string:
			p.Body = []byte(v)
			return nil
		case resource.File:
			p.Body = v.Content
			return nil
		}
	}
	p.defaultType()
	p.Body, err = json.Marshal(v)
	return err
}

// renamed are arguments by the names that the upstream has for them.
func renamed(a toolset.Adapter, arguments map[string]any) map[string]any {
	if len(a.Parameters) == 0 {
		return arguments
	}
	out := make(map[string]any, len(arguments))
	for argument, v := range arguments {
		out[nameIn(a.Parameters[argument], argument)] = v
	}
	return out
}

// formOf writes arguments as a form: as the method says, or like a query.
func formOf(a toolset.Adapter, arguments map[string]any) string {
	plain := map[string]any{}
	var out []pair
	for _, argument := range slices.Sorted(maps.Keys(arguments)) {
		v, p := arguments[argument], a.Parameters[argument]
		switch {
		case v == nil:
		case p.In == toolset.InBody && (p.Style != "" || p.ContentType != ""):
			out = append(out, inQuery(p, argument, v)...)
		default:
			plain[nameIn(p, argument)] = v
		}
	}
	form := values(plain).Encode()
	if more := joined(out, "&"); more != "" && form != "" {
		return form + "&" + more
	} else if more != "" {
		return more
	}
	return form
}

// setMultipart writes arguments as multipart/form-data: items of lists are
// numbered, objects are JSON, null is left out. Of an argument that the method
// says more about, items of lists are fields of the same name.
func (p *request) setMultipart(a toolset.Adapter, arguments map[string]any) error {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, argument := range slices.Sorted(maps.Keys(arguments)) {
		says, known := a.Parameters[argument]
		list, isList := arguments[argument].([]any)
		if !isList {
			list = []any{arguments[argument]}
		}
		for i, item := range list {
			field := nameIn(says, argument)
			if isList && !known {
				field = fmt.Sprintf("%s[%d]", argument, i)
			}
			if item == nil {
				continue
			}
			if err := writePart(w, field, says.ContentType, item); err != nil {
				return err
			}
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	p.Header.Set("Content-Type", w.FormDataContentType())
	p.Body = b.Bytes()
	return nil
}

// writePart writes one field, or a file. kind is its media type; empty for text,
// or for that of the file.
func writePart(w *multipart.Writer, field, kind string, v any) error {
	f, ok := v.(resource.File)
	switch {
	case !ok && kind == "":
		return w.WriteField(field, text(v))
	case !ok:
		f = resource.File{Content: []byte(encoded(kind, v))}
	case f.Name == "":
		f.Name = field + ".bin"
	}
	if kind == "" {
		kind = f.Type
	}
	// In UTF-8: forms have no other way to write a name (RFC 7578, section 4.2).
	disposition := multipart.FileContentDisposition(field, f.Name)
	if f.Name == "" {
		disposition = strings.TrimSuffix(disposition, `; filename=""`)
	}
	part, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {disposition}, "Content-Type": {kind}})
	if err == nil {
		_, err = part.Write(f.Content)
	}
	return err
}

// asJSON writes any value as JSON.
func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "" // decoded JSON always has a JSON form
	}
	return string(b)
}
