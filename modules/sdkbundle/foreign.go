package sdkbundle

import (
	"path"
	"regexp"
	"strings"
)

var (
	classLine = regexp.MustCompile(`(?m)^class ([A-Za-z_][A-Za-z0-9_]*)[ \t]*(?:\(([^)]*)\))?[ \t]*:`)
	keyLine   = regexp.MustCompile(`(?m)^[ \t]+_toolset_key\b[^=\n]*=[ \t]*["']([^"'\n]+)["']`)
)

// modules are the toolsets of a bundle without a manifest: a module each, with
// the name of the file as key unless its class says another in _toolset_key.
func (b Bundle) modules() []entry {
	var found []entry
	for _, f := range b.Files {
		module, ok := strings.CutSuffix(f.Path, ".py")
		if !ok || strings.HasPrefix(module, "_") || strings.Contains(module, "/") {
			continue
		}
		e := entry{Key: module, Module: module, Code: f.Path}
		var key string
		if e.Class, key = toolsetClass(string(f.Content)); key != "" {
			e.Key = key
		}
		e.Docs = path.Join(docsFolder, e.Key+".md")
		if _, ok := b.file(e.Docs); !ok {
			e.Docs = path.Join(docsFolder, module+".md")
		}
		found = append(found, e)
	}
	return found
}

// toolsetClass finds the class of a module that has the tools, and the key it
// names: the one with _toolset_key, or else the first that is no exception.
func toolsetClass(code string) (class, key string) {
	lines := classLine.FindAllStringSubmatchIndex(code, -1)
	for i, at := range lines {
		end := len(code)
		if i+1 < len(lines) {
			end = lines[i+1][0]
		}
		name, bases := code[at[2]:at[3]], ""
		if at[4] >= 0 {
			bases = code[at[4]:at[5]]
		}
		if m := keyLine.FindStringSubmatch(code[at[1]:end]); m != nil {
			return name, m[1]
		}
		if class == "" && !strings.Contains(bases, "Exception") && !strings.Contains(bases, "Error") {
			class = name
		}
	}
	return class, ""
}
