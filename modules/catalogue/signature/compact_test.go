package signature_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/catalogue/signature"
)

var update = flag.Bool("update", false, "write the golden files")

// Signatures have the form of docs/wire/refly.md#signatures.
func TestSignaturesOfTheSeed(t *testing.T) {
	t.Parallel()
	for want, schema := range map[string]string{
		"bash(command: str, timeout?: int) -> str":                         `{"properties":{"command":{"type":"string"},"timeout":{"type":"integer"}},"required":["command"]}`,
		"read(file_path: str) -> str":                                      `{"properties":{"file_path":{"type":"string"}},"required":["file_path"]}`,
		"write(file_path: str, content: str) -> str":                       `{"properties":{"file_path":{"type":"string"},"content":{"type":"string"}},"required":["file_path","content"]}`,
		"recall(query: str, limit?: int) -> str":                           `{"properties":{"limit":{"type":"integer"},"query":{"type":"string"}},"required":["query"]}`,
		"web_search(query: str, num_results?: int) -> str":                 `{"properties":{"query":{"type":"string"},"num_results":{"type":"integer"}},"required":["query"]}`,
		"code_graph_query(projectId: str, query: str, limit?: int) -> str": `{"properties":{"projectId":{"type":"string"},"query":{"type":"string"},"limit":{"type":"integer"}},"required":["query","projectId"]}`,
	} {
		name, _, _ := strings.Cut(want, "(")
		require.Equal(t, want, signature.Signature("", signature.Tool{Name: name, Input: json.RawMessage(schema), Output: json.RawMessage(`{"type":"string"}`)}))
	}
}

func TestTypes(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"type":"number"}`:                        "float",
		`{"type":"boolean"}`:                       "bool",
		`{"type":"array"}`:                         "list",
		`{"type":"array","items":{}}`:              "list",
		`{"items":{"type":"string"}}`:              "list[str]",
		`{"type":"object"}`:                        "dict",
		`{"type":["string","null"]}`:               "str|None",
		`{"enum":["a","b c",1,true,null]}`:         `"a"|"b c"|1|True|None`,
		`{"const":"x\ny"}`:                         `"x\ny"`,
		`{"enum":[1,2,3,4,5,6,7,8,9,10,11,12,13]}`: "1|2|3|float",
		`{"type":"string","enum":["1","2","3","4","5","6","7","8","9","10","11","12","13"]}`:                           `"1"|"2"|"3"|str`,
		`{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}},{"type":"string"}]}`:                   "str|list[str]",
		`{"anyOf":[{"required":["a"]},{"required":["b"]}],"properties":{"a":{"type":"string"},"b":{"type":"string"}}}`: "{a?:str,b?:str}",
		`{"type":"object","additionalProperties":{"type":"integer"}}`:                                                  "dict[str,int]",
		`{"type":"object","properties":{"from":{"type":"string"},"a-b":{"type":"string"}},"required":["from"]}`:        `{"from":str,"a-b"?:str}`,
		`{"properties":{"a":{"properties":{"b":{"properties":{"c":{"properties":{"d":{"type":"string"}}}}}}}}}`:        "{a?:{b?:{c?:dict}}}",
		`{"allOf":[{"type":"string"}]}`:         "str",
		`{"$ref":"https://example.com/schema"}`: "Any",
		`{}`:                                    "Any",
		`true`:                                  "Any",
	} {
		got := signature.Signature("", signature.Tool{Name: "f", Input: json.RawMessage(`{"properties":{"x":` + schema + `},"required":["x"]}`)})
		require.Equal(t, "f(x: "+want+") -> Any", got, schema)
	}
}

func TestForms(t *testing.T) {
	t.Parallel()
	for want, tool := range map[string]signature.Tool{
		`f() -> Any`: {Name: "f"},
		`get_it(a: str, **{"from"?:int,"resource-group":str}) -> Any  # Gets it`: {
			Name: "get-it", Description: " Gets  it.\nAnd more.", Input: json.RawMessage(`{"properties":{"from":{"type":"integer"},"resource-group":{"type":"string"},"a":{"type":"string"}},"required":["a","resource-group"]}`),
		},
		`f(**Any) -> {a?: str}`: {Name: "f", Input: json.RawMessage(`{"additionalProperties":true}`), Output: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)},
		`list_users() -> Any`:   {Name: "list_users", Description: "List the users"},
		`listUsers() -> Any`:    {Name: "listUsers", Description: "List users."},
		`f(n?: {v:int,next?:{v:int,next?:{v:int,next?:dict}}}) -> Any`: {
			Name: "f", Input: json.RawMessage(`{"properties":{"n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"next":{"$ref":"#/$defs/n"}},"required":["v"]}}}`),
		},
		`f(v?: list) -> Any`: {Name: "f", Input: json.RawMessage(`{"properties":{"v":{"$ref":"#/$defs/v"}},"$defs":{"v":{"type":"array","items":{"$ref":"#/$defs/v"}}}}`)},
		`f(v?: str|list[str]|dict[str,Any]) -> Any`: {
			Name: "f", Input: json.RawMessage(`{"properties":{"v":{"$ref":"#/$defs/v"}},"$defs":{"v":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}},{"additionalProperties":{"$ref":"#/$defs/v"},"type":"object"}]}}}`),
		},
		`f(v?: Any, w?: Any, x?: Any) -> Any`: {
			Name: "f", Input: json.RawMessage(`{"properties":{"v":{"$ref":"#/$defs/v"},"w":{"$ref":"#/$defs/w"},"x":{"$ref":"#/$defs/x"}},
				"$defs":{"v":{"$ref":"#/$defs/v"},"w":{"anyOf":[{"type":"string"},{"$ref":"#/$defs/w"}]},"x":{"allOf":[{"$ref":"#/$defs/x"}]}}}`),
		},
		`g() -> Any`: {Name: "g", Input: json.RawMessage(`{`)},
	} {
		require.Equal(t, want, signature.Line("", tool))
	}
	long := signature.Sentence(strings.Repeat("word ", 60))
	require.LessOrEqual(t, len([]rune(long)), 120)
	require.True(t, strings.HasSuffix(long, "word…"))
	require.Equal(t, "Uses e.g. this", signature.Sentence("Uses e.g. this. Or that."))
	require.Equal(t, "First", signature.Sentence("First\n\nSecond."))
}

// Parts of a short schema may refer to each other so that its type would be longer
// than any memory.
func TestAShortSchemaOfALongType(t *testing.T) {
	t.Parallel()
	properties, defs := "", ""
	for i := range 10 {
		properties += fmt.Sprintf(`,"p%d":{"$ref":"#/$defs/d"}`, i)
	}
	branches := strings.Repeat(`,{"$ref":"#/$defs/X"}`, 10)[1:]
	for i := range 15 {
		defs += fmt.Sprintf(`,"l%d":{"anyOf":[%s]}`, i, strings.ReplaceAll(branches, "X", fmt.Sprintf("l%d", i+1)))
	}
	for _, d := range []string{
		`{"properties":{` + properties[1:] + `,"` + strings.Repeat("n", 100<<10) + `":{}}}`,
		`{"$ref":"#/$defs/l0"}`,
	} {
		line := signature.Signature("", signature.Tool{Name: "f", Input: json.RawMessage(`{"properties":{"a":{"$ref":"#/$defs/d"}},"$defs":{"d":` + d + defs + `}}`)})
		require.Less(t, len(line), 8<<20)
	}
}

// The type of a result is what the schema says, Any where none does, and never
// long.
func TestResults(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		``:                  "Any",
		`{}`:                "Any",
		`not JSON`:          "Any",
		`{"type":"object"}`: "dict",
		`{"type":"array"}`:  "list",
		`{"type":"string"}`: "str",
		`{"type":"object","properties":{"a":{"type":"string"}}}`:                                                                              "{a?: str}",
		`{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string"}},"required":["id","name"]}}`: "list[{id: int, name: str}]",
		`{"$ref":"#/$defs/u","$defs":{"u":{"type":["object","null"],"properties":{"from":{"enum":["x"]}},"required":["from"]}}}`:              `{"from": "x"}|None`,
	} {
		require.Equal(t, want, signature.Result(json.RawMessage(schema)), schema)
	}
	wide, deep := []string{}, `{"type":"string"}`
	for i := range 40 {
		wide = append(wide, fmt.Sprintf(`"member_%d":{"type":"object","properties":{"inner":{"type":"string"}}}`, i))
	}
	for range 30 {
		deep = `{"type":"object","properties":{"a_long_name":` + deep + `,"another_long_name":{"type":"integer"}}}`
	}
	require.Equal(t, "{member_0?: dict, member_1?: dict, member_2?: dict, member_3?: dict, member_4?: dict, **Any}",
		signature.Result(json.RawMessage(`{"properties":{`+strings.Join(wide, ",")+`}}`)))
	require.Equal(t, "{a_long_name?: {a_long_name?: dict, another_long_name?: int}, another_long_name?: int}", signature.Result(json.RawMessage(deep)))
}

// lines are those of the whole corpus, in the order of servers.
func lines(t *testing.T) []string {
	t.Helper()
	servers, err := signature.ReadCorpus("testdata/corpus")
	require.NoError(t, err)
	var all []string
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		for _, tool := range servers[name] {
			require.LessOrEqual(t, len(signature.Result(tool.Output)), 100)
			all = append(all, signature.Line("", tool))
		}
	}
	require.Len(t, all, 376)
	return all
}

func TestCorpusLines(t *testing.T) {
	t.Parallel()
	got := strings.Join(lines(t), "\n") + "\n"
	golden := filepath.Join("testdata", "lines.golden")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// Python itself reads every line, once the question marks are gone.
func TestEveryLineIsPython(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-I", "-c", `
import ast, re, sys
count = 0
for line in sys.stdin:
    stub = re.sub(r'"(?:[^"\\]|\\.)*"|\?(?=:)', lambda m: "" if m[0] == "?" else m[0], line.rstrip("\n"))
    stub = re.sub(r"\*\*(?=\{|Any\))", "**others: ", stub)
    signature, _, comment = stub.partition("  # ")
    ast.parse("def " + signature + ": pass  # " + comment)
    count += 1
print(count)`)
	cmd.Stdin = strings.NewReader(strings.Join(lines(t), "\n"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "376\n", string(out))
}

// Signatures with the types of results take 80 % fewer tokens than schemas, and
// 78 % on average over the servers with five tools or more.
func TestTokens(t *testing.T) {
	t.Parallel()
	c := signature.NewCounter()
	n, err := c.Count("hello world")
	require.NoError(t, err)
	require.Equal(t, 2, n)
	servers, err := signature.ReadCorpus("testdata/corpus")
	require.NoError(t, err)
	sum, err := c.Total(servers)
	require.NoError(t, err)
	require.Len(t, sum.Servers, 17)
	require.Equal(t, 376, sum.All.Tools)
	require.GreaterOrEqual(t, sum.All.SignaturesSaved(), 0.80)
	require.GreaterOrEqual(t, sum.Average(5, signature.Measurement.SignaturesSaved), 0.78)
	require.GreaterOrEqual(t, sum.All.LinesSaved(), 0.80)
	require.GreaterOrEqual(t, sum.Average(5, signature.Measurement.LinesSaved), 0.77)
	_, err = signature.ReadCorpus(t.TempDir())
	require.ErrorContains(t, err, "no *.json")
}
