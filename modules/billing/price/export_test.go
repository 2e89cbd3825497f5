package price

import "encoding/json"

// TypeAt is the type a schema declares at a path.
func TypeAt(schema, path string) string {
	var s any
	p, err := parsePath(path)
	if err != nil || json.Unmarshal([]byte(schema), &s) != nil {
		return "broken"
	}
	return typeAt(s, p)
}
