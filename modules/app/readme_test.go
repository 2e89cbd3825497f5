package app_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/configs/dotenv"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/account/hosttoken/hosttokentest"
)

// The lines with curl in README.md work as they are printed, one block after
// the other, in a shell that ends at the first answer which is an error.
func TestLinesOfTheReadmeWork(t *testing.T) {
	t.Parallel()
	_, env := script(t, `
- expect: [get_weather, "How warm is it in Oslo and Rome?"]
  output: [{text: "Warm enough."}]
`)
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	var lines []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(readme, -1) {
		if strings.Contains(string(block[1]), "curl ") {
			lines = append(lines, string(block[1]))
		}
	}
	require.GreaterOrEqual(t, len(lines), 4)
	// Only the key and the address are the reader's own.
	text := strings.NewReplacer("KEY=rf_…", "KEY="+s.key, "URL=http://localhost:5800", "URL="+s.url).Replace(strings.Join(lines, "\n"))
	require.NotContains(t, text, "…")

	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "sales.csv"), []byte("region,sold\nNorth,3\nSouth,4\n"), 0o600))
	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", "curl() { command curl --fail-with-body \"$@\" && echo; }\n"+text)
	shell.Dir = folder
	out, err := shell.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, seen := range []string{
		`"status":"success","data":{"city":"Rome"`, // the first call
		`"stdout":"{'status': 'success', 'data': {'city': 'Oslo'`,
		`"event":"tool_call_end"`, `"event":"end"`,
		"Warm enough.",
		`"sales.parquet"`,
		`"status":"tool_call_required"`,
	} {
		require.Contains(t, string(out), seen)
	}
	require.NotContains(t, string(out), `"success":false`)
}

// The lines that make the keys of signed tokens give both sides what they need.
func TestKeysOfTheReadmeWork(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	lines := regexp.MustCompile("(?s)```sh\n(openssl genpkey.*?)```").FindSubmatch(readme)
	require.NotNil(t, lines)
	folder := t.TempDir()
	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", string(lines[1]))
	shell.Dir = folder
	out, err := shell.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var here []string
	require.NoError(t, dotenv.Load(filepath.Join(folder, "portico.env"), nil, func(name, value string) error {
		here = append(here, name+"="+value)
		return nil
	}))
	there, err := os.ReadFile(filepath.Join(folder, "librechat.env"))
	require.NoError(t, err)

	// LibreChat turns \n into line ends and reads PEM.
	host := toMap(strings.Split(strings.TrimSpace(string(there)), "\n"))
	require.Equal(t, "librechat-jwt", host["CODEAPI_AUTH_PROVIDER"])
	block, _ := pem.Decode([]byte(strings.ReplaceAll(host["CODEAPI_JWT_PRIVATE_KEY"], `\n`, "\n")))
	require.NotNil(t, block)
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	require.NoError(t, err)
	s := serve(t, databasetest.URL(t, database.SQLite), here...)
	s.whose(hosttokentest.Host{KeyID: defaultKeyID, Method: jwt.SigningMethodEdDSA, Private: private}.For(t, "anna"))
	require.Equal(t, 1, s.count("SELECT count(*) FROM external_identities"))
}
