package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/portico-run/portico/dev/demo"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/file"
)

// FolderFiles are the toolset files of the configured folder. That of the bundled
// toolset is left out where its upstream does not run.
func (a *App) FolderFiles() ([]file.File, error) {
	files, err := file.Read(a.Config.Toolsets.Dir)
	if a.Config.Demo.Enabled {
		return files, err
	}
	kept := files[:0]
	for _, f := range files {
		if !strings.HasSuffix(f.Name, demo.File) {
			kept = append(kept, f)
		}
	}
	return kept, err
}

// toolsetFiles are what is loaded at boot.
func (a *App) toolsetFiles() ([]file.File, error) {
	dir := a.Config.Toolsets.Dir
	if dir == "" {
		return nil, nil
	}
	files, err := a.FolderFiles()
	if errors.Is(err, os.ErrNotExist) {
		a.Logger.Warn("there is no folder of toolset files", "TOOLSETS_DIR", dir)
		return nil, nil
	}
	return files, err
}

// loadToolsets brings the toolset files into the database. One that is not
// valid stops neither the others nor the server: its toolsets stay as they
// were, and operators are told here, by the doctor and by /readyz?verbose.
func (a *App) loadToolsets(ctx context.Context) error {
	files, err := a.toolsetFiles()
	if err != nil {
		return err
	}
	report, problems, err := a.ToolsetFiles.Load(ctx, files)
	if err != nil {
		return fmt.Errorf("toolset files: %w", err)
	}
	a.invalid.Store(&problems)
	for _, p := range problems {
		a.Logger.ErrorContext(ctx, "a toolset file is not valid; its toolsets stay as they were", "file", p.File, "line", p.Line, "problem", p.Message)
	}
	a.Logger.InfoContext(ctx, "toolset files loaded", "created", report.Created, "updated", report.Updated, "unchanged", len(report.Unchanged))
	return nil
}

// invalidFile is a toolset file that is not in force. What is wrong with it is
// for operators only: it may quote what the file says.
type invalidFile struct {
	File string `json:"file" doc:"Name of the file"`
	Line int    `json:"line" doc:"Where the first problem is"`
}

// invalidFiles are the files that were not loaded.
func (a *App) invalidFiles() []invalidFile {
	files := []invalidFile{}
	problems := a.invalid.Load()
	if problems == nil {
		return files
	}
	for _, p := range *problems { // by file and line
		name := filepath.Base(p.File)
		if n := len(files); n == 0 || files[n-1].File != name {
			files = append(files, invalidFile{File: name, Line: p.Line})
		}
	}
	return files
}

// definitions are what the SDK of a user is made from.
func (a *App) definitions(ctx context.Context, who actor.Actor) ([]byte, error) {
	sets, _, err := a.Toolsets.Service.ExportForSDK(ctx, who, nil)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(toolset.ForCode(sets))
	if err != nil {
		return nil, fmt.Errorf("definitions of the SDK: %w", err)
	}
	return text, nil
}
