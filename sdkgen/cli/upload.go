package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/sdkgen/python"
	"github.com/portico-run/portico/sdkgen/upload"
)

// Where a server with default settings looks: the folder of its objects, and
// the path in it.
const (
	defaultFolder = "data/objects"
	defaultPrefix = "refly-tools"
)

func (a *app) uploadCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "upload [toolset...|all] {--local [DIR] | --s3}",
		Short: "Publish refly_tools as <prefix>/<hash>/refly_tools/",
		Long: "Publish the generated package as <prefix>/<hash>/refly_tools/ in a folder or a bucket, and print the hash.\n\n" +
			"A package is always published whole; naming toolsets checks that it holds them.\n" +
			"A hash never changes its content: publishing the same again does nothing, anything else is refused.\n" +
			"So is a package that lacks toolsets of the one published before below the prefix, without --prune.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil // all
			}
			return wanted(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.upload(cmd.Context(), args, cmd.Flags().Changed("local"))
		},
	}
	f := c.Flags()
	f.StringVar(&a.hash, "hash", "", "name of this version (default: the hash of the content)")
	f.StringVar(&a.prefix, "prefix", "", "path above the hash (SANDBOX_S3LIB_PATH_PREFIX, default "+defaultPrefix+")")
	f.StringVar(&a.local, "local", "", "publish to this folder; without a value to the one that the server reads")
	f.Lookup("local").NoOptDefVal = a.folder()
	f.BoolVar(&a.s3, "s3", false, "publish to S3, with the keys in S3_ACCESS_KEY and S3_SECRET_KEY")
	f.StringVar(&a.endpoint, "s3-endpoint", "", "URL of the S3 server (S3_ENDPOINT, default AWS)")
	f.StringVar(&a.region, "s3-region", "", "region (S3_REGION)")
	f.StringVar(&a.bucket, "s3-bucket", "", "bucket (S3_BUCKET)")
	f.BoolVar(&a.prune, "prune", false, "publish although toolsets of the package before are not in this one")
	f.StringVar(&a.activate, "activate", "", "then set sandbox.s3lib.hash in this YAML file")
	return c
}

func (a *app) upload(ctx context.Context, args []string, local bool) error {
	store, where, err := a.store(local)
	if err != nil {
		return err
	}
	folderOnly := isAll(args) // and nothing else can be meant by the value of --local
	if len(args) == 0 {
		args = []string{everything}
	}
	b, err := upload.ReadPackage(a.libs)
	if errors.Is(err, upload.ErrNoPackage) {
		return fmt.Errorf("%w; first run: sdkgen generate %s", err, strings.Join(args, " "))
	}
	if err != nil {
		return err
	}
	if err := contains(b, args); err != nil {
		return err
	}
	if a.apart && !folderOnly && slices.Contains(keys(b), a.local) {
		return ambiguous(a.local, "the toolset")
	}
	hash, prefix := a.hash, a.envOr(a.prefix, "SANDBOX_S3LIB_PATH_PREFIX")
	if hash == "" {
		hash = b.Hash()
	}
	if prefix == "" {
		prefix = defaultPrefix
	}
	p := newProgress(a.stderr, isTerminal(a.stderr), "files", len(b.Files))
	defer p.done()
	written, err := upload.Release{Prefix: prefix, Hash: hash, Bundle: b, Prune: a.prune, Progress: p.step}.To(ctx, store)
	if _, lost := errors.AsType[*upload.LostError](err); lost {
		return fmt.Errorf("%w; put them back with sdkgen generate, or publish without them with --prune", err)
	}
	if err != nil {
		return err
	}
	p.note(fmt.Sprintf("%d of %d files were new in %s", written, len(b.Files), strings.Join([]string{where, strings.Trim(prefix, "/"), hash}, "/")))
	if a.activate == "" {
		p.note("a server uses it that is started with SANDBOX_S3LIB_HASH=" + hash)
	} else if err := upload.Activate(a.activate, hash); err != nil {
		return err
	}
	return a.print(hash)
}

// store returns the one place that was asked for, and its name.
func (a *app) store(local bool) (upload.Store, string, error) {
	if local == a.s3 {
		return nil, "", usageError{errors.New("say where to publish: either --local [DIR] or --s3")}
	}
	if local {
		return upload.Folder(a.local), a.local, a.checkLocal()
	}
	bucket := a.envOr(a.bucket, "S3_BUCKET")
	s, err := upload.NewS3(upload.S3Config{
		Endpoint:  a.envOr(a.endpoint, "S3_ENDPOINT"),
		Region:    a.envOr(a.region, "S3_REGION"),
		Bucket:    bucket,
		AccessKey: a.envOr("", "S3_ACCESS_KEY", "AWS_ACCESS_KEY_ID"),
		SecretKey: a.envOr("", "S3_SECRET_KEY", "AWS_SECRET_ACCESS_KEY"),
	})
	if err != nil {
		return nil, "", usageError{fmt.Errorf("%w; set S3_BUCKET, S3_ACCESS_KEY and S3_SECRET_KEY", err)}
	}
	return s, "s3://" + bucket, nil
}

// localArgs writes the value of --local into the same argument, because a flag
// that may stand alone does not take the argument behind it. One that begins
// with a dash is another flag.
func (a *app) localArgs(args []string) []string {
	var joined []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(joined, args[i:]...)
		}
		if arg == "--local" && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
			arg += "=" + args[i]
			a.apart = true
		}
		a.named = a.named || strings.HasPrefix(arg, "--local=")
		joined = append(joined, arg)
	}
	return joined
}

// checkLocal refuses a --local that is not clear.
func (a *app) checkLocal() error {
	switch {
	case a.local == "":
		return usageError{errors.New("--local has an empty value: name a folder, or leave the value out for " + a.folder())}
	case a.apart && a.local == everything:
		return ambiguous(a.local, "all toolsets")
	case !a.named && strings.EqualFold(a.envOr("", "OBJECT_STORAGE_DRIVER"), "s3"):
		return usageError{errors.New("the server keeps its objects in S3 (OBJECT_STORAGE_DRIVER): publish with --s3, or name a folder with --local=DIR")}
	}
	return nil
}

func ambiguous(value, other string) error {
	return usageError{fmt.Errorf("--local %[1]s may mean the folder or %[2]s: write --local=%[1]s for the folder, or %[1]s --local for %[2]s", value, other)}
}

// folder is where a server keeps its objects that is started in this folder.
func (a *app) folder() string {
	if folder := a.envOr("", "OBJECT_STORAGE_FOLDER"); folder != "" {
		return folder
	}
	return defaultFolder
}

// contains checks that every named toolset is in the bundle.
func contains(b python.Bundle, args []string) error {
	if isAll(args) {
		return nil
	}
	have := map[string]bool{}
	for _, t := range b.Toolsets {
		have[t.Key] = true
	}
	for _, key := range args {
		if !have[key] {
			return fmt.Errorf("toolset %q is not in the generated package; first run: sdkgen generate %s", key, strings.Join(args, " "))
		}
	}
	return nil
}
