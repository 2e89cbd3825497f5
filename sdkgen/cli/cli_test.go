package cli_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/sdkgen/cli"
)

const (
	alpha = `{"key":"alpha","name":"Alpha","description":"","tools":[{"name":"go-on","description":"","inputSchema":{"type":"object"}}]}`
	beta  = `{"key":"beta","name":"Beta","description":"","tools":[]}`
)

// api is a server that exports alpha and beta to the right key.
func api(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data := alpha + "," + beta
		switch keys := r.URL.Query().Get("toolsetKeys"); {
		case r.Header.Get("Authorization") != "Bearer rf_secret":
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"success":false,"errCode":"E0012","errMsg":"Invalid API key"}`)
			return
		case keys == "alpha":
			data = alpha
		case keys != "":
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"success":false,"errCode":"E1020","errMsg":"Toolset not found: `+keys+`"}`)
			return
		}
		_, _ = io.WriteString(w, `{"success":true,"data":[`+data+`]}`)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

type outcome struct {
	code           int
	stdout, stderr string
}

func sdkgen(env []string, args ...string) outcome {
	var out, problems bytes.Buffer
	code := cli.Main(context.Background(), args, env, &out, &problems)
	return outcome{code, out.String(), problems.String()}
}

func ok(t *testing.T, env []string, args ...string) outcome {
	t.Helper()
	o := sdkgen(env, args...)
	require.Equal(t, 0, o.code, "%v: %s", args, o.stderr)
	return o
}

// TestPipeline is a user's session: fetch, generate, publish, activate, and
// import what was published.
func TestPipeline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, objects, config := filepath.Join(dir, "out"), filepath.Join(dir, "objects"), filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte("# mine\nsandbox:\n  s3lib:\n    hash: old # current\n"), 0o600))
	env := []string{"PORTICO_API=" + api(t), "PORTICO_API_KEY=rf_secret", "SANDBOX_S3LIB_PATH_PREFIX=team/sdk/"}

	o := ok(t, env, "definition", "all", "--out", out)
	require.Equal(t, filepath.Join(out, "tool-definition", "alpha.json")+"\n"+filepath.Join(out, "tool-definition", "beta.json")+"\n", o.stdout)
	require.Equal(t, "definitions 1/2 alpha: 1 tools\ndefinitions 2/2 beta: 0 tools\n", o.stderr)

	o = ok(t, env, "generate", "all", "--out", out)
	require.Regexp(t, `^[0-9a-f]{16}\n$`, o.stdout)
	require.Contains(t, o.stderr, "modules 1/2 alpha: from refly_tools.alpha import Alpha\n")
	hash := strings.TrimSpace(o.stdout)

	o = ok(t, env, "upload", "alpha", "--out", out, "--local", objects, "--activate", config)
	require.Equal(t, hash+"\n", o.stdout)
	require.Contains(t, o.stderr, "files 1/8 ")
	require.Contains(t, o.stderr, "8 of 8 files were new")
	raw, err := os.ReadFile(config)
	require.NoError(t, err)
	require.Equal(t, "# mine\nsandbox:\n  s3lib:\n    hash: \""+hash+"\" # current\n", string(raw))
	require.Contains(t, ok(t, env, "upload", "all", "--out", out, "--local", objects).stderr, "0 of 8 files were new")

	cmd := exec.CommandContext(context.Background(), "python3", "-c", "from refly_tools.alpha import Alpha; print(Alpha.go_on()['error'])")
	cmd.Dir = filepath.Join(objects, "team", "sdk", hash)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1"}
	printed, err := cmd.CombinedOutput()
	require.NoError(t, err, string(printed))
	require.Contains(t, string(printed), "REFLY_TOOL_SERVICE_API_URL is not set")

	ok(t, env, "upload", "all", "--out", out, "--local", objects, "--hash", "PTC0g4v14", "--prefix", "p")
	require.FileExists(t, filepath.Join(objects, "p", "PTC0g4v14", "refly_tools", "docs", "beta.md"))

	require.NoError(t, os.Remove(filepath.Join(out, "tool-definition", "beta.json")))
	o = ok(t, env, "generate", "all", "--out", out)
	require.Contains(t, o.stderr, "taken out: beta\n")
	require.NoFileExists(t, filepath.Join(out, "refly_tools", "beta.py"))
	o = sdkgen(env, "upload", "all", "--out", out, "--local", objects, "--hash", "PTC0g4v14", "--prefix", "p", "--prune")
	require.Equal(t, 1, o.code)
	require.Contains(t, o.stderr, "already published with different content")
	o = sdkgen(env, "upload", "beta", "--out", out, "--local", objects)
	require.Equal(t, 1, o.code)
	require.Contains(t, o.stderr, `toolset "beta" is not in the generated package; first run: sdkgen generate beta`)
}

func TestUploadToS3(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	t.Cleanup(srv.Close)
	client := s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(srv.URL), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("a", "s", ""),
	})
	_, err := client.CreateBucket(context.Background(), &s3.CreateBucketInput{Bucket: aws.String("sdk")})
	require.NoError(t, err)
	out := t.TempDir()
	ok(t, []string{"PORTICO_API=" + api(t)}, "definition", "alpha", "--key", "rf_secret", "--out", out)
	ok(t, nil, "generate", "alpha", "--out", out)
	env := []string{"S3_ENDPOINT=" + srv.URL, "S3_BUCKET=sdk", "S3_ACCESS_KEY=a", "S3_SECRET_KEY=s"}
	ok(t, env, "upload", "all", "--s3", "--out", out, "--hash", "v1")
	got, err := client.GetObject(context.Background(), &s3.GetObjectInput{
		Bucket: aws.String("sdk"), Key: aws.String("refly-tools/v1/refly_tools/alpha.py"),
	})
	require.NoError(t, err)
	code, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	require.NoError(t, got.Body.Close())
	require.Contains(t, string(code), "class Alpha(ToolsetBase):")
}

func TestFailures(t *testing.T) {
	t.Parallel()
	url := api(t)
	env := []string{"PORTICO_API=" + url, "PORTICO_API_KEY=rf_secret"}
	for name, tc := range map[string]struct {
		env  []string
		args []string
		code int
		want string
	}{
		"no toolset":        {env, []string{"definition"}, 2, "name one or more toolsets, or all; see sdkgen definition --help"},
		"all and more":      {env, []string{"generate", "all", "x"}, 2, "all cannot be combined"},
		"twice":             {env, []string{"generate", "x", "x"}, 2, `"x" is named twice`},
		"unknown command":   {env, []string{"publish"}, 2, `unknown command "publish"`},
		"unknown flag":      {env, []string{"generate", "--fast", "all"}, 2, "unknown flag: --fast"},
		"no key":            {nil, []string{"definition", "all"}, 2, "set PORTICO_API_KEY"},
		"wrong key":         {env, []string{"definition", "all", "--key", "rf_topsecret"}, 1, "E0012: Invalid API key"},
		"unknown toolset":   {env, []string{"definition", "nope"}, 1, "E1020: Toolset not found: nope"},
		"no server":         {env, []string{"definition", "all", "--api", "http://127.0.0.1:1"}, 1, "cannot reach the API at http://127.0.0.1:1"},
		"nothing fetched":   {env, []string{"generate", "all"}, 1, "first run: sdkgen definition all"},
		"not fetched":       {env, []string{"generate", "nope"}, 1, "first run: sdkgen definition nope"},
		"nothing generated": {env, []string{"upload", "all", "--local", "objects"}, 1, "first run: sdkgen generate all"},
		"nowhere to":        {env, []string{"upload", "all"}, 2, "either --local [DIR] or --s3"},
		"two places":        {env, []string{"upload", "all", "--s3", "--local", "x"}, 2, "either --local [DIR] or --s3"},
		"no bucket":         {env, []string{"upload", "all", "--s3"}, 2, "set S3_BUCKET"},
		"empty folder":      {env, []string{"upload", "--local", ""}, 2, "--local has an empty value"},
		"folder or all":     {env, []string{"upload", "--local", "all"}, 2, "--local all may mean the folder or all toolsets: write --local=all for the folder, or all --local for all toolsets"},
		"folder beside S3":  {append(env, "OBJECT_STORAGE_DRIVER=s3"), []string{"upload", "--local", "--hash", "h"}, 2, "publish with --s3"},
		"prune of some":     {env, []string{"definition", "alpha", "--prune"}, 2, "--prune goes with all"},
		"unknown tool":      {env, []string{"tool", "definitions"}, 2, `unknown command "definitions" for "sdkgen tool"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := sdkgen(tc.env, append(tc.args, "--out", t.TempDir())...)
			require.Equal(t, tc.code, o.code, o.stderr)
			require.Contains(t, o.stderr, tc.want)
			require.True(t, strings.HasPrefix(o.stderr, "sdkgen: "))
			require.Empty(t, o.stdout)
			require.NotContains(t, o.stderr, "rf_")
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--help"}, {"upload", "--help"}} {
		o := ok(t, nil, args...)
		require.Contains(t, o.stdout, "Usage:")
		require.Empty(t, o.stderr)
	}
}
