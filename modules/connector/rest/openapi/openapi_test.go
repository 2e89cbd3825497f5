package openapi_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/connector/rest/openapi"
)

var update = flag.Bool("update", false, "write the golden files anew")

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return text
}

func TestConvert(t *testing.T) {
	t.Parallel()
	got, err := openapi.Convert(t.Context(), read(t, "pets.yaml"), openapi.Options{Key: "pets", Price: "2"})
	require.NoError(t, err)
	require.Equal(t, 4, got.Methods)
	require.Empty(t, got.LeftOut)
	if *update {
		require.NoError(t, os.WriteFile("testdata/pets.golden.yaml", got.File, 0o644))
	}
	require.Equal(t, string(read(t, "pets.golden.yaml")), string(got.File))
}

func TestChoice(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]openapi.Options{
		"list_pets":                      {Tags: []string{"read"}},
		"createPet put_pets_petId_photo": {Tags: []string{"write"}},
		"batch createPet":                {Operations: []string{"batch", "createPet"}},
		"batch list_pets":                {Tags: []string{"read"}, Operations: []string{"batch"}},
	} {
		o.Key, o.Price = "pets", "0"
		got, err := openapi.Convert(t.Context(), read(t, "pets.yaml"), o)
		require.NoError(t, err)
		var names []string
		for line := range strings.Lines(string(got.File)) {
			if name, ok := strings.CutPrefix(line, "    - name: "); ok {
				names = append(names, strings.TrimSpace(name))
			}
		}
		require.Equal(t, want, strings.Join(names, " "))
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	const pets = "openapi: 3.0.3\ninfo: {title: x, version: '1'}\n"
	for says, c := range map[string]struct {
		document string
		o        openapi.Options
	}{
		"cannot be read":     {"{", openapi.Options{}},
		"neither OpenAPI 3":  {"swagger: '1.2'\ninfo: {title: x, version: '1'}\npaths: {}\n", openapi.Options{}},
		"--domain":           {pets + "paths: {}\nservers: [{url: /v1}]\n", openapi.Options{}},
		"has no operation":   {pets + "paths: {}\n", openapi.Options{Domain: "https://x.example.com"}},
		`no operation "fly"`: {string(read(t, "pets.yaml")), openapi.Options{Operations: []string{"fly"}}},
	} {
		_, err := openapi.Convert(t.Context(), []byte(c.document), c.o)
		require.ErrorContains(t, err, says)
	}
	// Nothing outside the document is loaded.
	_, err := openapi.Convert(t.Context(), []byte(pets+"paths: {/x: {$ref: 'file:///etc/passwd'}, /y: {$ref: '/etc/passwd'}}\n"), openapi.Options{Domain: "https://x.example.com"})
	require.ErrorContains(t, err, "no operation of the document can be taken")
	require.NotContains(t, err.Error(), "root:")
}

// A parameter of an operation replaces that of its path with the same name in
// the same part of the request, and no other one.
func TestParameterOfAnOperationReplacesThatOfItsPath(t *testing.T) {
	t.Parallel()
	document := func(in string) []byte {
		return []byte(`{"openapi":"3.0.3","info":{"title":"a","version":"1"},"servers":[{"url":"https://a.example.com"}],"paths":{"/pets/{id}":{
			"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"},"description":"Of the path"},{"name":"limit","in":"query","schema":{"type":"string"}}],
			"post":{"operationId":"send","parameters":[{"name":"limit","in":"` + in + `","required":true,"schema":{"type":"integer"}}],"responses":{"200":{"description":"ok"}}}}}}`)
	}
	got, err := openapi.Convert(t.Context(), document("query"), openapi.Options{Key: "a", Price: "0"})
	require.NoError(t, err)
	require.Contains(t, string(got.File), `
      adapter:
        queryParameters:
            - limit
        body: none
      request:
        additionalProperties: false
        properties:
            id:
                description: Of the path
                type: string
            limit:
                type: integer
        required:
            - id
            - limit
`)
	got, err = openapi.Convert(t.Context(), document("header"), openapi.Options{Key: "a", Price: "0"})
	require.NoError(t, err)
	require.Contains(t, string(got.File), `
        headerParameters:
            header_limit: limit
`)
}
