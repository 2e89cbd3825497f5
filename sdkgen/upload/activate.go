package upload

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Activate sets sandbox.s3lib.hash in a YAML configuration file, which a
// running server watches. Everything else in the file stays: where the key is
// already there only its value is replaced. Names are compared without case,
// as the server reads them. The file is replaced in one step.
func Activate(file, hash string) error {
	if !hashPattern.MatchString(hash) {
		return fmt.Errorf("hash %q must be 1 to 64 letters, digits, dots, dashes or underscores", hash)
	}
	// A link is followed: what it points to is replaced, not the link.
	target, err := filepath.EvalSymlinks(file)
	if err != nil {
		return fmt.Errorf("activate: %w", err)
	}
	info, err := os.Stat(target)
	if err != nil {
		return fmt.Errorf("activate: %w", err)
	}
	source, err := os.ReadFile(target)
	if err != nil {
		return fmt.Errorf("activate: %w", err)
	}
	changed, err := setHash(source, hash)
	if err != nil {
		return fmt.Errorf("activate in %s: %w", file, err)
	}
	if bytes.Equal(changed, source) {
		return nil
	}
	tmp, err := writeTemporary(filepath.Dir(target), changed)
	if err == nil {
		err = os.Chmod(tmp, info.Mode().Perm())
	}
	if err == nil {
		err = os.Rename(tmp, target)
	}
	if err != nil {
		return fmt.Errorf("activate in %s: %w", file, err)
	}
	return nil
}

// setHash returns the document with the hash set.
func setHash(source []byte, hash string) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(source, &doc); err != nil {
		return nil, fmt.Errorf("not a YAML file: %w", err)
	}
	if doc.Kind == 0 { // empty, or comments only
		doc = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode}}}
	}
	node := doc.Content[0]
	for _, key := range []string{"sandbox", "s3lib", "hash"} {
		if node.Kind == yaml.ScalarNode && node.Tag == "!!null" {
			*node = yaml.Node{Kind: yaml.MappingNode, HeadComment: node.HeadComment, LineComment: node.LineComment, FootComment: node.FootComment}
		}
		if node.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("line %d: %q must be below a mapping", node.Line, key)
		}
		node = member(node, key)
	}
	if node.Kind != yaml.ScalarNode {
		return nil, fmt.Errorf("line %d: sandbox.s3lib.hash must be text", node.Line)
	}
	if node.Value == hash && node.Tag == "!!str" {
		return source, nil
	}
	if changed, ok := replaceScalar(source, node, hash); ok {
		return changed, nil
	}
	node.Kind, node.Tag, node.Style, node.Value = yaml.ScalarNode, "!!str", yaml.DoubleQuotedStyle, hash
	return encode(source, &doc)
}

// member returns the value of a key, added when missing.
func member(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if strings.EqualFold(mapping.Content[i].Value, key) {
			return mapping.Content[i+1]
		}
	}
	value := &yaml.Node{Kind: yaml.MappingNode}
	if key == "hash" {
		value = &yaml.Node{Kind: yaml.ScalarNode}
	}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
	return value
}

// replaceScalar puts the hash where the scalar stands in the source, and
// touches nothing else. It gives up on a scalar that is not written plainly.
func replaceScalar(source []byte, node *yaml.Node, hash string) ([]byte, bool) {
	if node.Line == 0 || node.Value == "" && node.Style == 0 || node.Anchor != "" {
		return nil, false
	}
	offset := 0
	for range node.Line - 1 {
		end := bytes.IndexByte(source[offset:], '\n')
		if end < 0 {
			return nil, false
		}
		offset += end + 1
	}
	offset += len(string([]rune(string(source[offset:]))[:node.Column-1]))
	written := node.Value
	switch node.Style {
	case yaml.DoubleQuotedStyle:
		written = `"` + written + `"`
	case yaml.SingleQuotedStyle:
		written = "'" + written + "'"
	}
	if !bytes.HasPrefix(source[offset:], []byte(written)) {
		return nil, false
	}
	changed := append([]byte(nil), source[:offset]...)
	changed = append(changed, `"`+hash+`"`...)
	changed = append(changed, source[offset+len(written):]...)
	return changed, true
}

// encode writes the document anew, with its comments.
func encode(source []byte, doc *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	if len(doc.Content[0].Content) == 2 && len(bytes.TrimSpace(source)) > 0 && doc.Line == 0 {
		// Comments alone are no document; yaml would drop them.
		b.Write(bytes.TrimRight(source, "\n"))
		b.WriteByte('\n')
	}
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(doc), enc.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
