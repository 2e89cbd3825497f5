package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/sdkgen/definition"
	"github.com/portico-run/portico/sdkgen/python"
	"github.com/portico-run/portico/sdkgen/upload"
)

const (
	defaultAPI = "http://localhost:5800"
	// defaultPrefix is where a server with default settings looks.
	defaultPrefix = "refly-tools"
)

func (a *app) definitionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "definition <toolset...|all>",
		Short: "Fetch tool definitions from a server into <out>/tool-definition/",
		Args:  wanted,
		RunE:  func(cmd *cobra.Command, args []string) error { return a.definition(cmd.Context(), args) },
	}
	c.Flags().StringVar(&a.api, "api", "", "address of the server (PORTICO_API, default "+defaultAPI+")")
	c.Flags().StringVar(&a.key, "key", "", "API key (better: PORTICO_API_KEY, which other users of the machine cannot see)")
	return c
}

func (a *app) definition(ctx context.Context, args []string) error {
	client := definition.Client{API: a.envOr(a.api, "PORTICO_API"), Key: a.envOr(a.key, "PORTICO_API_KEY")}
	if client.API == "" {
		client.API = defaultAPI
	}
	if client.Key == "" {
		return usageError{errors.New("an API key is needed: set PORTICO_API_KEY or pass --key")}
	}
	keys := args
	if isAll(args) {
		keys = nil
	}
	toolsets, err := client.Fetch(ctx, keys)
	if err != nil {
		return err
	}
	if len(toolsets) == 0 {
		return errors.New("the server exports no toolset to this key")
	}
	p := newProgress(a.stderr, isTerminal(a.stderr), "definitions", len(toolsets))
	defer p.done()
	var paths []string
	for _, t := range toolsets {
		path, err := definition.Write(a.out, t)
		if err != nil {
			return err
		}
		paths = append(paths, path)
		p.step(fmt.Sprintf("%s: %d tools", t.Key, len(t.Tools)))
	}
	return a.print(strings.Join(paths, "\n"))
}

func (a *app) generateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "generate <toolset...|all>",
		Short: "Write the Python package <out>/refly_tools from fetched definitions",
		Long: "Write the Python package <out>/refly_tools from the definitions in <out>/tool-definition/.\n\n" +
			"The package holds exactly the toolsets that are named, and replaces the one before. Its hash is printed.",
		Args: wanted,
		RunE: func(_ *cobra.Command, args []string) error { return a.generate(args) },
	}
}

func (a *app) generate(args []string) error {
	toolsets, err := a.stored(args)
	if errors.Is(err, definition.ErrMissing) {
		return fmt.Errorf("%w; first run: sdkgen definition %s", err, strings.Join(args, " "))
	}
	if err != nil {
		return err
	}
	b, err := python.Generate(toolsets)
	if err != nil {
		return err
	}
	p := newProgress(a.stderr, isTerminal(a.stderr), "modules", len(b.Toolsets))
	defer p.done()
	for _, t := range b.Toolsets {
		p.step(fmt.Sprintf("%s: from refly_tools.%s import %s", t.Key, t.Module, t.Class))
	}
	if _, err := upload.WritePackage(a.out, b); err != nil {
		return err
	}
	return a.print(b.Hash())
}

func (a *app) stored(args []string) ([]definition.Toolset, error) {
	if isAll(args) {
		return definition.ReadAll(a.out)
	}
	var toolsets []definition.Toolset
	for _, key := range args {
		t, err := definition.Read(a.out, key)
		if err != nil {
			return nil, err
		}
		toolsets = append(toolsets, t)
	}
	return toolsets, nil
}

func (a *app) uploadCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "upload <toolset...|all>",
		Short: "Publish <out>/refly_tools as <prefix>/<hash>/refly_tools/",
		Long: "Publish <out>/refly_tools as <prefix>/<hash>/refly_tools/ in a folder or a bucket, and print the hash.\n\n" +
			"A package is always published whole; naming toolsets checks that it holds them.\n" +
			"A hash never changes its content: publishing the same again does nothing, anything else is refused.",
		Args: wanted,
		RunE: func(cmd *cobra.Command, args []string) error { return a.upload(cmd.Context(), args) },
	}
	f := c.Flags()
	f.StringVar(&a.hash, "hash", "", "name of this version (default: the hash of the content)")
	f.StringVar(&a.prefix, "prefix", "", "path above the hash (SANDBOX_S3LIB_PATH_PREFIX, default "+defaultPrefix+")")
	f.StringVar(&a.local, "local", "", "publish to this folder")
	f.BoolVar(&a.s3, "s3", false, "publish to S3, with the keys in S3_ACCESS_KEY and S3_SECRET_KEY")
	f.StringVar(&a.endpoint, "s3-endpoint", "", "URL of the S3 server (S3_ENDPOINT, default AWS)")
	f.StringVar(&a.region, "s3-region", "", "region (S3_REGION)")
	f.StringVar(&a.bucket, "s3-bucket", "", "bucket (S3_BUCKET)")
	f.StringVar(&a.activate, "activate", "", "then set sandbox.s3lib.hash in this YAML file")
	return c
}

func (a *app) upload(ctx context.Context, args []string) error {
	store, err := a.store()
	if err != nil {
		return err
	}
	b, err := upload.ReadPackage(a.out)
	if errors.Is(err, upload.ErrNoPackage) {
		return fmt.Errorf("%w; first run: sdkgen generate %s", err, strings.Join(args, " "))
	}
	if err != nil {
		return err
	}
	if err := contains(b, args); err != nil {
		return err
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
	written, err := upload.Publish(ctx, store, prefix, hash, b, p.step)
	if err != nil {
		return err
	}
	p.note(fmt.Sprintf("%d of %d files were new", written, len(b.Files)))
	if a.activate != "" {
		if err := upload.Activate(a.activate, hash); err != nil {
			return err
		}
	}
	return a.print(hash)
}

// store returns the one place that was asked for.
func (a *app) store() (upload.Store, error) {
	if (a.local != "") == a.s3 {
		return nil, usageError{errors.New("say where to publish: either --local DIR or --s3")}
	}
	if a.local != "" {
		return upload.Folder(a.local), nil
	}
	s, err := upload.NewS3(upload.S3Config{
		Endpoint:  a.envOr(a.endpoint, "S3_ENDPOINT"),
		Region:    a.envOr(a.region, "S3_REGION"),
		Bucket:    a.envOr(a.bucket, "S3_BUCKET"),
		AccessKey: a.envOr("", "S3_ACCESS_KEY", "AWS_ACCESS_KEY_ID"),
		SecretKey: a.envOr("", "S3_SECRET_KEY", "AWS_SECRET_ACCESS_KEY"),
	})
	if err != nil {
		return nil, usageError{fmt.Errorf("%w; set S3_BUCKET, S3_ACCESS_KEY and S3_SECRET_KEY", err)}
	}
	return s, nil
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

func (a *app) print(line string) error {
	_, err := fmt.Fprintln(a.stdout, line)
	return err
}
