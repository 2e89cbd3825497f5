package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/portico-run/portico/modules/connector/mcp/server"
)

// Separator stands between the names of server and tool.
const Separator = "__"

// maxName is the most characters of a name that model providers take.
const maxName = 64

// Names are the names of a server's tools in Portico, by those that the server
// uses: server__tool, of letters, digits, _ and - only. One that is longer than 64
// characters, or that another tool has, ends in a hash of the server's own name.
func Names(of string, tools []server.Tool) map[string]string {
	names, taken := make(map[string]string, len(tools)), map[string]bool{}
	var rest []string
	for _, t := range tools { // first those that keep theirs
		if name := of + Separator + t.Name; name == plain(name) && len(name) <= maxName {
			names[t.Name], taken[name] = name, true
			continue
		}
		rest = append(rest, t.Name)
	}
	for _, tool := range rest {
		name := plain(of + Separator + tool)
		if len(name) > maxName || taken[name] {
			name = hashed(name, tool)
		}
		names[tool], taken[name] = name, true
	}
	return names
}

// plain replaces what providers refuse in names.
func plain(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
			return c
		}
		return '_'
	}, name)
}

func hashed(name, tool string) string {
	const digits = 8
	sum := sha256.Sum256([]byte(tool))
	suffix := "_" + hex.EncodeToString(sum[:])[:digits]
	return name[:min(len(name), maxName-len(suffix))] + suffix
}
