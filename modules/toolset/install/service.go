package install

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// Upsert is what a user says of a toolset: docs/wire/refly.md#installing-a-toolset.
type Upsert struct {
	ToolsetID string         `json:"toolsetId,omitempty" maxLength:"64"`
	Name      string         `json:"name,omitempty" maxLength:"100"`
	Key       string         `json:"key,omitempty" maxLength:"64"`
	Enabled   *bool          `json:"enabled,omitempty"`
	AuthType  string         `json:"authType,omitempty" enum:"credentials,oauth,config_based,external_apikey"`
	AuthData  map[string]any `json:"authData,omitempty" doc:"The credential, by the keys of the toolset's credentialItems; it is never shown again"`
	Config    map[string]any `json:"config,omitempty" doc:"Settings, by the keys of the toolset's configItems"`
	Provider  string         `json:"provider,omitempty"`
	Scope     []string       `json:"scope,omitempty" nullable:"false"`
}

// Errors about a user's own toolsets.
var (
	ErrInstalled  = errs.New(errs.Conflict, "You have a toolset of this key.").Do("POST /v1/tool/toolset/update changes it.")
	ErrGlobal     = errs.New(errs.Invalid, "A toolset that all users share is changed by operators only.").Do("Create one of your own with the same key.")
	errBadUpsert  = errs.New(errs.Invalid, "The toolset cannot be installed like this.")
	errKeyChanged = errs.New(errs.Invalid, "The key of a toolset cannot be changed.").Do("Delete it and create another one.")
)

// Install gives the actor a toolset of the inventory, or again one that was
// uninstalled. Credential and settings are checked against what the toolset
// asks for.
func (s *Service) Install(ctx context.Context, a actor.Actor, in Upsert) (Instance, error) {
	if strings.TrimSpace(in.Name) == "" || in.Key == "" {
		return Instance{}, errBadUpsert.Do("name and key must be there.")
	}
	item, err := s.rows.Inventory(s.db.Read(ctx), in.Key)
	if err != nil {
		return Instance{}, err
	}
	form, err := s.formOf(item)
	if err != nil {
		return Instance{}, err
	}
	authType, sealed, err := s.credentialOf(ctx, a, item, form, in)
	if err != nil {
		return Instance{}, err
	}
	config, err := configText(form.Items, in.Config)
	if err != nil {
		return Instance{}, err
	}
	var row rows.Toolset
	err = s.db.InTx(ctx, func(tx database.Tx) error {
		now := s.now()
		before, err := s.rows.Own(tx.Handle, a.UID, in.Key)
		switch {
		case errors.Is(err, database.ErrNotFound):
			row = rows.Toolset{
				ToolsetID: ids.New(ids.Toolset), UID: &a.UID, Name: in.Name, Key: in.Key, AuthType: &authType, AuthData: sealed, Config: config,
				Enabled: in.Enabled == nil || *in.Enabled, CreatedAt: now, UpdatedAt: now,
			}
			err = s.rows.InsertToolset(tx, row)
		case err == nil && !before.Uninstalled:
			return ErrInstalled
		case err == nil:
			err = s.rows.UpdateOwn(tx, a.UID, before.ToolsetID, map[string]any{
				"name": in.Name, "auth_type": authType, "auth_data": sealed, "config": config, "enabled": in.Enabled == nil || *in.Enabled,
				"uninstalled": false, "updated_at": now,
			})
		}
		if err != nil {
			return err
		}
		if row, err = s.rows.Own(tx.Handle, a.UID, in.Key); err != nil {
			return err
		}
		return s.audit(tx, a, "toolset.install", in.Key, map[string]string{"toolsetId": row.ToolsetID, "authType": authType})
	})
	if database.IsDuplicate(err) {
		err = ErrInstalled
	}
	return instanceOf(row), err
}

// credentialOf checks and seals what the actor gives to authenticate.
func (s *Service) credentialOf(ctx context.Context, a actor.Actor, item rows.Inventory, form Form, in Upsert) (authType string, sealed *string, err error) {
	kind, _ := s.kinds.Offered(item.Type, item.Key)
	if len(form.Patterns) == 0 && kind.Accounts != nil {
		return "", nil, errBadUpsert.Do(fmt.Sprintf("Toolset %s is everybody's and is not installed. %s", item.Key, kind.Accounts.HowTo(item.Key)))
	}
	if len(form.Patterns) == 0 {
		if len(in.AuthData) > 0 {
			return "", nil, errBadUpsert.Do(fmt.Sprintf("Toolset %s takes no credential; leave authData out.", item.Key))
		}
		return cmp.Or(kind.AuthType, toolset.AuthConfigBased), nil, nil
	}
	asked := in.AuthType
	if asked == "" {
		return "", nil, errBadUpsert.Do("authType must be there: " + strings.Join(typesOf(form.Patterns), " or ") + ".")
	}
	if asked == "external_apikey" { // what some clients call it
		asked = toolset.AuthCredentials
	}
	i := slices.IndexFunc(form.Patterns, func(p Pattern) bool { return p.Type == asked })
	if i < 0 {
		return "", nil, errBadUpsert.Do(fmt.Sprintf("authType %s does not go with %s; it takes %s.", in.AuthType, item.Key, strings.Join(typesOf(form.Patterns), " or ")))
	}
	if by, _ := s.kinds.Installed(asked, item.Key); by.Accounts != nil {
		keys, err := by.Accounts.Connected(ctx, a.UID)
		if err == nil && !slices.Contains(keys, item.Key) {
			err = errBadUpsert.Do(by.Accounts.HowTo(item.Key))
		}
		return asked, nil, err
	}
	if asked != toolset.AuthConfigBased {
		sealed, err = s.sealed(form.Patterns[i].CredentialItems, in.AuthData)
	}
	return cmp.Or(kind.AuthType, asked), sealed, err
}

func typesOf(patterns []Pattern) []string {
	types := make([]string, len(patterns))
	for i, p := range patterns {
		types[i] = p.Type
	}
	return types
}

// sealed checks a credential against its items. What is wrong names the items,
// and never the values.
func (s *Service) sealed(items []Item, values map[string]any) (*string, error) {
	if problems := checkItems(items, values); len(problems) > 0 {
		return nil, errBadUpsert.Do("authData: " + strings.Join(problems, "; ") + ".")
	}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	if _, err := toolset.ParseCredential(text); err != nil {
		return nil, err
	}
	box := s.box.Seal(text)
	return &box, nil
}

func configText(items []Item, values map[string]any) (*string, error) {
	if problems := checkItems(items, values); len(problems) > 0 {
		return nil, errBadUpsert.Do("config: " + strings.Join(problems, "; ") + ".")
	}
	if len(values) == 0 {
		return nil, nil //nolint:nilnil // nothing is configured
	}
	text, err := json.Marshal(values)
	return database.Optional(string(text)), err
}

// Update changes a toolset of the actor's own. What is left out stays.
func (s *Service) Update(ctx context.Context, a actor.Actor, in Upsert) (Instance, error) {
	if in.ToolsetID == "" {
		return Instance{}, errBadUpsert.Do("toolsetId must be there.")
	}
	before, err := s.rows.VisibleByID(s.db.Read(ctx), a.UID, in.ToolsetID)
	switch {
	case err != nil:
		return Instance{}, err
	case before.IsGlobal:
		return Instance{}, ErrGlobal
	case in.Key != "" && in.Key != before.Key:
		return Instance{}, errKeyChanged
	}
	columns, credential, err := s.changes(ctx, a, before, in)
	if err != nil {
		return Instance{}, err
	}
	var row rows.Toolset
	err = s.db.InTx(ctx, func(tx database.Tx) error {
		columns["updated_at"] = s.now()
		if err := s.rows.UpdateOwn(tx, a.UID, in.ToolsetID, columns); err != nil {
			return err
		}
		if row, err = s.rows.VisibleByID(tx.Handle, a.UID, in.ToolsetID); err != nil {
			return err
		}
		return s.audit(tx, a, "toolset.update", before.Key, map[string]string{"toolsetId": in.ToolsetID, "credential": credential})
	})
	return instanceOf(row), err
}

// changes are the columns that an update changes, and whether the credential is
// among them.
func (s *Service) changes(ctx context.Context, a actor.Actor, before rows.Toolset, in Upsert) (columns map[string]any, credential string, err error) {
	columns, credential = map[string]any{}, "kept"
	if name := strings.TrimSpace(in.Name); name != "" {
		columns["name"] = name
	}
	if in.Enabled != nil {
		columns["enabled"] = *in.Enabled
	}
	if in.AuthData == nil && in.Config == nil {
		return columns, credential, nil
	}
	item, err := s.rows.Inventory(s.db.Read(ctx), before.Key)
	if err != nil {
		return nil, "", err
	}
	form, err := s.formOf(item)
	if err != nil {
		return nil, "", err
	}
	if in.AuthData != nil {
		if in.AuthType == "" {
			in.AuthType = database.Text(before.AuthType)
		}
		authType, sealed, err := s.credentialOf(ctx, a, item, form, in)
		if err != nil {
			return nil, "", err
		}
		columns["auth_type"], columns["auth_data"], credential = authType, sealed, "changed"
	}
	if in.Config != nil {
		if columns["config"], err = configText(form.Items, in.Config); err != nil {
			return nil, "", err
		}
	}
	return columns, credential, nil
}

// Uninstall takes a toolset of the actor's own away, with its credential. It may
// be installed again.
func (s *Service) Uninstall(ctx context.Context, a actor.Actor, toolsetID string) error {
	return s.db.InTx(ctx, func(tx database.Tx) error {
		row, err := s.rows.VisibleByID(tx.Handle, a.UID, toolsetID)
		if err == nil && row.IsGlobal {
			err = toolset.Missing(toolsetID) // only a user's own can be deleted
		}
		if err != nil {
			return err
		}
		err = s.rows.UpdateOwn(tx, a.UID, toolsetID, map[string]any{"uninstalled": true, "enabled": false, "auth_data": nil, "updated_at": s.now()})
		if err != nil {
			return err
		}
		return s.audit(tx, a, "toolset.uninstall", row.Key, map[string]string{"toolsetId": toolsetID})
	})
}

func instanceOf(r rows.Toolset) Instance {
	i := Instance{
		ToolsetID: r.ToolsetID, Name: r.Name, Key: r.Key, Global: r.IsGlobal, Enabled: r.Enabled, AuthType: database.Text(r.AuthType),
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	if r.Config != nil && !r.IsGlobal {
		i.Config = json.RawMessage(*r.Config)
	}
	return i
}
