package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/sdkgen/definition"
	"github.com/portico-run/portico/sdkgen/python"
	"github.com/portico-run/portico/sdkgen/upload"
)

const defaultAPI = "http://localhost:5800"

func (a *app) definitionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "definition <toolset...|all>",
		Short: "Fetch tool definitions from a server into <out>/tool-definition/",
		Args:  wanted,
		RunE:  func(cmd *cobra.Command, args []string) error { return a.definition(cmd.Context(), args) },
	}
	c.Flags().BoolVar(&a.prune, "prune", false, "with all: delete the definitions of toolsets that the server does not export any more")
	c.Flags().StringVar(&a.api, "api", "", "address of the server (PORTICO_API or ENDPOINT, default "+defaultAPI+")")
	c.Flags().StringVar(&a.key, "key", "", "API key (better: PORTICO_API_KEY, which other users of the machine cannot see)")
	return c
}

func (a *app) definition(ctx context.Context, args []string) error {
	client := definition.Client{API: a.envOr(a.api, "PORTICO_API", "ENDPOINT"), Key: a.envOr(a.key, "PORTICO_API_KEY")}
	if client.API == "" {
		client.API = defaultAPI
	}
	if a.prune && !isAll(args) {
		return usageError{errors.New("--prune goes with all: what is not exported any more shows only then")}
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
	var paths, exported []string
	for _, t := range toolsets {
		path, err := definition.Write(a.out, t)
		if err != nil {
			return err
		}
		paths, exported = append(paths, path), append(exported, t.Key)
		p.step(fmt.Sprintf("%s: %d tools", t.Key, len(t.Tools)))
	}
	if isAll(args) {
		if err := a.stale(exported, p); err != nil {
			return err
		}
	}
	return a.print(strings.Join(paths, "\n"))
}

// stale deletes the definitions of toolsets that are not exported, or says which
// they are.
func (a *app) stale(exported []string, p *progress) error {
	stored, err := definition.Keys(a.out)
	if err != nil {
		return err
	}
	stale := slices.DeleteFunc(stored, func(key string) bool { return slices.Contains(exported, key) })
	if len(stale) == 0 {
		return nil
	}
	if !a.prune {
		p.note("not exported any more, kept without --prune: " + strings.Join(stale, ", "))
		return nil
	}
	for _, key := range stale {
		if err := definition.Remove(a.out, key); err != nil {
			return err
		}
	}
	p.note("not exported any more, deleted: " + strings.Join(stale, ", "))
	return nil
}

func (a *app) generateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "generate <toolset...|all>",
		Short: "Write the Python package refly_tools from fetched definitions",
		Long: "Write the Python package refly_tools from the definitions in <out>/tool-definition/, and print its hash.\n\n" +
			"all makes it anew of every definition. Toolsets that are named are replaced in it, or added, and the others are left as they are.",
		Args: wanted,
		RunE: func(cmd *cobra.Command, args []string) error { return a.generate(cmd.Context(), args) },
	}
	c.Flags().BoolVar(&a.prune, "prune", false, "also take out toolsets that have no definition any more, as all does")
	return c
}

func (a *app) generate(ctx context.Context, args []string) (err error) {
	toolsets, err := a.stored(args)
	if errors.Is(err, definition.ErrMissing) {
		return fmt.Errorf("%w; first run: sdkgen definition %s", err, strings.Join(args, " "))
	}
	if err != nil {
		return err
	}
	unlock, err := upload.Lock(ctx, a.libs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	before, err := upload.ReadPackage(a.libs)
	if err != nil && !errors.Is(err, upload.ErrNoPackage) && !isAll(args) {
		return fmt.Errorf("%w; to replace the whole package, run: sdkgen generate all", err)
	}
	var b python.Bundle
	if isAll(args) {
		b, err = python.Generate(toolsets)
	} else {
		b, err = a.merge(before, toolsets)
	}
	if err != nil {
		return err
	}
	if _, err := upload.WritePackage(a.libs, b); err != nil {
		return err
	}
	a.report(before, b, toolsets)
	return a.print(b.Hash())
}

// report says what is new in the package, and what is not in it any more.
func (a *app) report(before, after python.Bundle, toolsets []definition.Toolset) {
	p := newProgress(a.stderr, isTerminal(a.stderr), "modules", len(toolsets))
	defer p.done()
	for _, t := range after.Toolsets {
		if slices.ContainsFunc(toolsets, func(d definition.Toolset) bool { return d.Key == t.Key }) {
			p.step(fmt.Sprintf("%s: from refly_tools.%s import %s", t.Key, t.Module, t.Class))
		}
	}
	if gone := missing(before, after); len(gone) > 0 {
		p.note("taken out: " + strings.Join(gone, ", "))
	}
}

// merge puts the toolsets into the package that is there.
func (a *app) merge(before python.Bundle, toolsets []definition.Toolset) (python.Bundle, error) {
	b, err := before.With(toolsets)
	if err != nil || !a.prune {
		return b, err
	}
	defined, err := definition.Keys(a.out)
	if err != nil {
		return python.Bundle{}, err
	}
	return b.Without(slices.DeleteFunc(keys(b), func(key string) bool { return slices.Contains(defined, key) }))
}

func keys(b python.Bundle) []string {
	list := make([]string, len(b.Toolsets))
	for i, t := range b.Toolsets {
		list[i] = t.Key
	}
	return list
}

// missing lists the toolsets of one bundle that another lacks.
func missing(from, in python.Bundle) []string {
	have := keys(in)
	return slices.DeleteFunc(keys(from), func(key string) bool { return slices.Contains(have, key) })
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

func (a *app) print(line string) error {
	_, err := fmt.Fprintln(a.stdout, line)
	return err
}
