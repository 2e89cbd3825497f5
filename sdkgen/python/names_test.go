package python

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

func toolName(s string) string { return Name(s, "tool") }

func TestName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"generate_image":     "generate_image",
		"fal-image-to-video": "fal_image_to_video",
		"resource-group":     "resource_group",
		"greet (structured)": "greet_structured",
		"getUserInfo":        "getUserInfo",
		"a.b/c":              "a_b_c",
		"3d-model":           "_3d_model",
		"from":               "from_",
		"None":               "None_",
		"print":              "print",
		"match":              "match",
		"self":               "self",
		"trailing_":          "trailing_",
		"trailing-":          "trailing",
		"@type":              "type",
		"__init__":           "init",
		"__class__":          "class_",
		"_private":           "private",
		"":                   "tool",
		"___":                "tool",
		"日本語":                "tool",
		"größe":              "gr_e",
		"ﬁle":                "le",
		"a\x00b":             "a_b",
		"\xff\xfe":           "tool",
		"a__b":               "a__b",
	} {
		require.Equal(t, want, toolName(in), "%q", in)
	}
}

func TestClassName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"fal_image": "FalImage", "apify-13f": "Apify13f", "3d": "Toolset3d", "none": "None_",
		"": "Toolset", "日本": "Toolset", "alreadyCamel": "AlreadyCamel", "a": "A", "True": "True_",
	} {
		require.Equal(t, want, ClassName(in), "%q", in)
	}
}

func TestNameSetCollisions(t *testing.T) {
	t.Parallel()
	texts := []string{"a b", "a_b", "a-b", "a_b_2", "cls", "cls_", "日", "本", "class"}
	want := map[string]string{
		"a_b": "a_b", "a_b_2": "a_b_2", "cls_": "cls_",
		"a b": "a_b_3", "a-b": "a_b_4",
		"cls": "cls_2", "class": "class_",
		"日": "tool", "本": "tool_2",
	}
	require.Empty(t, cmp.Diff(want, nameSet(texts, toolName, "cls")))
	slices.Reverse(texts)
	require.Empty(t, cmp.Diff(want, nameSet(texts, toolName, "cls")))
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// FuzzPythonName holds the promises of Name and nameSet for any texts: valid,
// not a keyword, not private by accident, and one name per text.
func FuzzPythonName(f *testing.F) {
	for _, s := range []string{"a-b\na_b\na b", "from\nfrom_\nFrom", "3\n_3\n__3", "日\n本\ntool\ntool_2", "cls\nself\n__class__", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, joined string) {
		texts := strings.Split(joined, "\n")
		slices.Sort(texts)
		texts = slices.Compact(texts)
		reserved := []string{"cls", "self", "Any"}
		names := nameSet(texts, toolName, reserved...)
		backwards := slices.Clone(texts)
		slices.Reverse(backwards)
		if diff := cmp.Diff(names, nameSet(backwards, toolName, reserved...)); diff != "" {
			t.Fatalf("order matters: %s", diff)
		}
		owner := map[string]string{}
		for _, text := range texts {
			name := names[text]
			if !identifier.MatchString(name) || isKeyword(name) || slices.Contains(reserved, name) {
				t.Fatalf("%q became %q", text, name)
			}
			if strings.HasPrefix(name, "_") && (len(name) < 2 || name[1] < '0' || name[1] > '9') {
				t.Fatalf("%q became private: %q", text, name)
			}
			if other, dup := owner[name]; dup {
				t.Fatalf("%q and %q both became %q", text, other, name)
			}
			owner[name] = text
			if class := ClassName(text); !identifier.MatchString(class) || isKeyword(class) {
				t.Fatalf("%q became class %q", text, class)
			}
		}
	})
}
