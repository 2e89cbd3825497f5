package kubernetes_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// kustomization is what our files use of Kustomize.
type kustomization struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Namespace  string   `yaml:"namespace"`
	Resources  []string `yaml:"resources"`
	Components []string `yaml:"components"`
	Patches    []struct {
		Path   string `yaml:"path"`
		Patch  string `yaml:"patch"`
		Target struct {
			Kind          string `yaml:"kind"`
			LabelSelector string `yaml:"labelSelector"`
		} `yaml:"target"`
	} `yaml:"patches"`
	Images []struct {
		Name    string `yaml:"name"`
		NewName string `yaml:"newName"`
		NewTag  string `yaml:"newTag"`
	} `yaml:"images"`
	ConfigMapGenerator []struct {
		Name  string   `yaml:"name"`
		Files []string `yaml:"files"`
	} `yaml:"configMapGenerator"`
}

type object = map[string]any

// at is what an object has at a path; nil for nothing.
func at(o any, path ...string) any {
	for _, name := range path {
		m, isObject := o.(object)
		if !isObject {
			return nil
		}
		o = m[name]
	}
	return o
}

func text(o any, path ...string) string {
	s, _ := at(o, path...).(string)
	return s
}

// render is what `kubectl kustomize` makes of a folder, but for the hashes in names. It
// knows what our files use, and refuses all else.
func render(t *testing.T, folder string) []object {
	t.Helper()
	return add(t, folder, nil)
}

// add is what a folder makes of what there is before.
func add(t *testing.T, folder string, all []object) []object {
	t.Helper()
	var k kustomization
	strictly(t, read(t, filepath.Join(folder, "kustomization.yaml")), &k)
	for _, r := range k.Resources {
		path := filepath.Join(folder, r)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			all = append(all, render(t, path)...)
			continue
		}
		all = append(all, documents(t, read(t, path))...)
	}
	for _, g := range k.ConfigMapGenerator {
		data := object{}
		for _, f := range g.Files {
			data[f] = string(read(t, filepath.Join(folder, f)))
		}
		all = append(all, object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": g.Name}, "data": data})
	}
	for _, c := range k.Components {
		all = add(t, filepath.Join(folder, c), all)
	}
	for _, p := range k.Patches {
		content := []byte(p.Patch)
		if p.Path != "" {
			content = read(t, filepath.Join(folder, p.Path))
		}
		patch := documents(t, content)[0]
		patched := 0
		for _, o := range all {
			if p.Target.Kind == "" && (o["kind"] != patch["kind"] || text(o, "metadata", "name") != text(patch, "metadata", "name")) {
				continue
			}
			label, value, _ := strings.Cut(p.Target.LabelSelector, "=")
			if p.Target.Kind != "" && (o["kind"] != p.Target.Kind || label != "" && text(o, "metadata", "labels", label) != value) {
				continue
			}
			name := text(o, "metadata", "name")
			merge(o, patch)
			o["metadata"].(object)["name"] = name
			patched++
		}
		if patched == 0 && p.Target.Kind == "" {
			t.Errorf("%s: a patch has nothing to change", folder)
		}
	}
	for _, o := range all {
		if metadata, has := o["metadata"].(object); has && k.Namespace != "" && o["kind"] != "Namespace" {
			metadata["namespace"] = k.Namespace
		}
		for _, i := range k.Images {
			rename(o, i.Name, i.NewName+":"+i.NewTag)
		}
	}
	return all
}

// keys are what tells the items of a list apart; other lists are replaced as a whole.
func key(list string) string {
	return map[string]string{"containers": "name", "env": "name", "volumes": "name", "ports": "containerPort", "volumeMounts": "mountPath"}[list]
}

func merge(into, patch object) {
	for name, value := range patch {
		switch value := value.(type) {
		case object:
			if there, has := into[name].(object); has {
				merge(there, value)
				continue
			}
		case []any:
			if there, has := into[name].([]any); has && key(name) != "" {
				into[name] = mergeLists(there, value, key(name))
				continue
			}
		}
		into[name] = value
	}
}

// mergeLists puts what is new in front, as Kustomize does.
func mergeLists(into, patch []any, key string) (merged []any) {
	for _, item := range patch {
		i := slices.IndexFunc(into, func(there any) bool { return at(there, key) == at(item, key) })
		if i < 0 {
			merged = append(merged, item)
			continue
		}
		merge(into[i].(object), item.(object))
	}
	return append(merged, into...)
}

func rename(o any, from, to string) {
	switch o := o.(type) {
	case object:
		for name, value := range o {
			if name == "image" && value == from {
				o[name] = to
			}
			rename(value, from, to)
		}
	case []any:
		for _, value := range o {
			rename(value, from, to)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func documents(t *testing.T, content []byte) (all []object) {
	t.Helper()
	d := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, clone(o).(object))
	}
}

// clone is a copy without anything that two anchors share.
func clone(o any) any {
	switch o := o.(type) {
	case object:
		c := object{}
		for name, value := range o {
			c[name] = clone(value)
		}
		return c
	case []any:
		c := make([]any, len(o))
		for i, value := range o {
			c[i] = clone(value)
		}
		return c
	}
	return o
}

// strictly reads YAML into a value that has every field of it.
func strictly(t *testing.T, content []byte, into any) {
	t.Helper()
	d := yaml.NewDecoder(bytes.NewReader(content))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%v in\n%s", err, content)
	}
}
