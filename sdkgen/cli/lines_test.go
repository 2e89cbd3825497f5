package cli_test

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/sdkgen/cli"
)

// program makes this test binary the program.
const program = "SDKGEN_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(program) != "" {
		os.Exit(cli.Main(context.Background(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// folder is a place in which command lines are typed.
type folder struct {
	t   *testing.T
	dir string
	env []string
}

func newFolder(t *testing.T, env ...string) folder {
	t.Helper()
	return folder{t, t.TempDir(), append(env, "PORTICO_API="+api(t), "PORTICO_API_KEY=rf_secret", program+"=1")}
}

// run types a line.
func (f folder) run(line string, more ...string) outcome {
	f.t.Helper()
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(f.t.Context(), os.Args[0], append(strings.Fields(line), more...)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = f.dir, f.env, &out, &problems
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return outcome{exit.ExitCode(), out.String(), problems.String()}
	}
	require.NoError(f.t, err)
	return outcome{0, out.String(), problems.String()}
}

func (f folder) ok(line string, more ...string) outcome {
	f.t.Helper()
	o := f.run(line, more...)
	require.Equal(f.t, 0, o.code, "%s: %s", line, o.stderr)
	return o
}

func (f folder) read(name string) string {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, name))
	require.NoError(f.t, err)
	return string(text)
}

// The lines of the pipeline, typed as they are documented elsewhere, in a folder
// with nothing in it.
func TestLinesInAnEmptyFolder(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		env  []string
		libs string
	}{
		"defaults":             {nil, "data"},
		"folders of their own": {[]string{"SDKGEN_LIBS=libs"}, "libs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFolder(t, tc.env...)
			f.ok("tool definition alpha")
			require.Contains(t, f.read("data/tool-definition/alpha.json"), `"key": "alpha"`)
			f.ok("tool definition all")
			f.ok("generate beta")
			f.ok("generate all")
			f.read(tc.libs + "/refly_tools/alpha.py")
			f.read(tc.libs + "/refly_tools/docs/beta.md")
			o := f.ok("upload --local --hash PTC0g4v14")
			require.Equal(t, "PTC0g4v14\n", o.stdout)
			require.Contains(t, o.stderr, "8 of 8 files were new in data/objects/refly-tools/PTC0g4v14\n")
			f.read("data/objects/refly-tools/PTC0g4v14/refly_tools/docs/alpha.md")
			require.Contains(t, f.ok("upload --hash PTC0g4v14 --local").stderr, "0 of 8")
		})
	}
}

// The server's own variables say where it looks.
func TestLocalIsTheFolderOfTheServer(t *testing.T) {
	t.Parallel()
	f := newFolder(t, "OBJECT_STORAGE_FOLDER=elsewhere/objects", "SANDBOX_S3LIB_PATH_PREFIX=tmp/dev/")
	f.ok("definition all")
	f.ok("generate all")
	require.Contains(t, f.ok("upload --local --hash H").stderr, "new in elsewhere/objects/tmp/dev/H\n")
	f.read("elsewhere/objects/tmp/dev/H/refly_tools/manifest.json")
}

func TestLinesWithS3(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	t.Cleanup(srv.Close)
	client := s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(srv.URL), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("a", "s", ""),
	})
	_, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("sdk")})
	require.NoError(t, err)
	f := newFolder(t, "OBJECT_STORAGE_DRIVER=s3", "S3_ENDPOINT="+srv.URL, "S3_BUCKET=sdk", "S3_ACCESS_KEY=a", "S3_SECRET_KEY=s")
	f.ok("tool definition all")
	f.ok("generate all")
	require.Contains(t, f.ok("upload --s3 --hash H").stderr, "8 of 8 files were new in s3://sdk/refly-tools/H\n")
	got, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("sdk"), Key: aws.String("refly-tools/H/refly_tools/alpha.py")})
	require.NoError(t, err)
	require.NoError(t, got.Body.Close())
}

// What comes behind --local is the folder, unless it could as well be a toolset.
func TestWhatLocalMeans(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.ok("definition all")
	f.ok("generate all")
	for line, where := range map[string]string{
		"upload --hash h --local":                   "data/objects",
		"upload --local --hash h":                   "data/objects",
		"upload all --local":                        "data/objects",
		"upload alpha --local --hash h":             "data/objects",
		"upload --local one":                        "one",
		"upload --local=two":                        "two",
		"upload --local=alpha":                      "alpha",
		"upload --local=all":                        "all",
		"upload all --local beta":                   "beta",
		"upload --local ./three/ alpha":             "./three/",
		"upload alpha beta --local four --s3=false": "four",
		"upload --local -- alpha":                   "data/objects",
	} {
		require.Contains(t, f.ok(line).stderr, "files were new in "+where+"/refly-tools/", line)
	}
	for _, line := range []string{"upload --local alpha", "upload --hash h --local beta", "upload alpha --local beta"} {
		o := f.run(line)
		require.Equal(t, 2, o.code, line)
		require.Contains(t, o.stderr, "may mean the folder or the toolset: write --local=", line)
		require.Empty(t, o.stdout)
	}
	require.Contains(t, f.ok("upload --help").stdout, `--local string[="data/objects"]`)
}

// One toolset that is generated replaces itself; what is published stays whole.
func TestOneToolsetLeavesTheOthers(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.ok("definition all")
	f.ok("generate all")
	f.ok("upload --local --hash one")
	before := f.read("data/refly_tools/beta.py")
	manifest := f.read("data/refly_tools/manifest.json")
	changed := strings.ReplaceAll(f.read("data/tool-definition/alpha.json"), "go-on", "go-back")
	require.NoError(t, os.WriteFile(filepath.Join(f.dir, "data/tool-definition/alpha.json"), []byte(changed), 0o600))
	beta := filepath.Join(f.dir, "data/tool-definition/beta.json")
	require.NoError(t, os.Remove(beta))
	o := f.ok("generate alpha")
	require.Equal(t, "modules 1/1 alpha: from refly_tools.alpha import Alpha\n", o.stderr)
	require.Contains(t, f.read("data/refly_tools/alpha.py"), "def go_back(")
	require.Contains(t, f.read("data/refly_tools/docs/alpha.md"), "go_back")
	require.Equal(t, before, f.read("data/refly_tools/beta.py"))
	require.Equal(t, strings.ReplaceAll(manifest, `"go-on": "go_on"`, `"go-back": "go_back"`), f.read("data/refly_tools/manifest.json"))
	require.Equal(t, o.stdout, f.ok("upload --local").stdout, "the hash is that of the content")

	// What lost a toolset is not published by mistake.
	require.Contains(t, f.ok("generate alpha --prune").stderr, "taken out: beta\n")
	lost := f.run("upload --local --hash two")
	require.Equal(t, 1, lost.code)
	require.Contains(t, lost.stderr, "the package lost toolsets since "+strings.TrimSpace(o.stdout)+" was published: beta; ")
	require.Contains(t, lost.stderr, "--prune")
	require.NoDirExists(t, filepath.Join(f.dir, "data/objects/refly-tools/two"))
	f.ok("upload --local --hash two --prune")
	f.ok("upload --local --hash two")

	require.NoError(t, os.Remove(filepath.Join(f.dir, "data/refly_tools/manifest.json")))
	o = f.run("generate alpha")
	require.Equal(t, 1, o.code)
	require.Contains(t, o.stderr, "to replace the whole package, run: sdkgen generate all")
	f.ok("generate all")
}

// A definition that the server does not export any more is named, and deleted
// only when that is wanted.
func TestStaleDefinitions(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.ok("definition all")
	old := filepath.Join(f.dir, "data/tool-definition/old.json")
	require.NoError(t, os.WriteFile(old, []byte(strings.ReplaceAll(beta, "beta", "old")), 0o600))
	require.NotContains(t, f.ok("definition alpha").stderr, "old")
	require.Contains(t, f.ok("definition all").stderr, "not exported any more, kept without --prune: old\n")
	require.FileExists(t, old)
	require.Contains(t, f.ok("definition all --prune").stderr, "not exported any more, deleted: old\n")
	require.NoFileExists(t, old)
}

// Programs that generate one toolset each at the same time lose none.
func TestGeneratingAtOnceLosesNothing(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.ok("definition all")
	var wg sync.WaitGroup
	keys := []string{"a", "b", "c", "d", "e", "f"}
	for _, key := range keys {
		require.NoError(t, os.WriteFile(filepath.Join(f.dir, "data/tool-definition", key+".json"), []byte(strings.ReplaceAll(alpha, "alpha", key)), 0o600))
		wg.Go(func() {
			if o := f.run("generate " + key); o.code != 0 {
				t.Errorf("%s: %s", key, o.stderr)
			}
		})
	}
	wg.Wait()
	for _, key := range keys {
		require.FileExists(t, filepath.Join(f.dir, "data/refly_tools", key+".py"))
		require.Contains(t, f.read("data/refly_tools/manifest.json"), `"key": "`+key+`"`)
	}
	left, err := os.ReadDir(filepath.Join(f.dir, "data"))
	require.NoError(t, err)
	require.Len(t, left, 2, "temporary folders are gone")
}
