package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// Report says what Store did, by toolset key in the order of the specs.
type Report struct{ Created, Updated, Unchanged []string }

// Store writes toolsets into the inventory, all or none. Whatever was there
// before, a toolset then is what its spec says. Storing the same again changes
// nothing. Toolsets that are not among them stay as they are.
func (s *Service) Store(ctx context.Context, specs []Spec) (Report, error) {
	report, err := s.store(ctx, specs)
	if database.IsDuplicate(err) { // another process stores the same
		report, err = s.store(ctx, specs)
	}
	return report, err
}

func (s *Service) store(ctx context.Context, specs []Spec) (Report, error) {
	var r Report
	err := s.db.InTx(ctx, func(tx database.Tx) error {
		r = Report{}
		for _, i := range specs {
			created, changed, err := s.applyItem(tx, i)
			switch {
			case err != nil:
				return fmt.Errorf("toolset %s: %w", i.Key, err)
			case created:
				r.Created = append(r.Created, i.Key)
			case changed:
				r.Updated = append(r.Updated, i.Key)
			default:
				r.Unchanged = append(r.Unchanged, i.Key)
			}
		}
		return nil
	})
	return r, err
}

func (s *Service) applyItem(tx database.Tx, i Spec) (created, changed bool, err error) {
	now := s.now()
	before, err := s.rows.AnyInventory(tx.Handle, i.Key)
	created = errors.Is(err, database.ErrNotFound)
	if err != nil && !created {
		return false, false, err
	}
	if !created && !now.After(before.UpdatedAt) {
		// Readers keep what they parsed while updated_at stays: it has to move,
		// also between two processes whose clocks differ.
		now = before.UpdatedAt.Add(time.Microsecond)
	}
	if created {
		if err := s.rows.InsertInventory(tx, s.inventoryOf(i, now)); err != nil {
			return false, false, err
		}
		if err := s.auditCredential(tx, i.Key, i.Credential != nil); err != nil {
			return false, false, err
		}
	}
	steps := []func() (bool, error){
		func() (bool, error) { return s.applySchemas(tx, i) },
		func() (bool, error) { return s.applyMethods(tx, i, now) },
		func() (bool, error) { return s.applyFormulas(tx, i, now) },
		func() (bool, error) { return s.applyGlobal(tx, i, now) },
		func() (bool, error) { return s.applyMarks(tx, i, now) },
	}
	for _, step := range steps {
		did, err := step()
		if err != nil {
			return false, false, err
		}
		changed = changed || did
	}
	if created {
		return true, true, nil
	}
	columns := s.differences(before, i)
	if changed = changed || len(columns) > 0; changed {
		// Also where only a method changed: readers keep what they parsed
		// until this moment moves.
		_, credential := columns["api_key"]
		columns["updated_at"] = now
		if err := s.rows.UpdateInventory(tx, i.Key, columns); err != nil {
			return false, changed, err
		}
		err = s.auditCredential(tx, i.Key, credential)
	}
	return false, changed, err
}

// auditCredential keeps that an operator changed the credential of a toolset.
func (s *Service) auditCredential(tx database.Tx, key string, changed bool) error {
	if !changed {
		return nil
	}
	return audit.Write(tx, audit.Change{By: actor.Actor{UID: audit.Operator}, Action: "inventory.credential", Subject: key}, s.now())
}

func (s *Service) inventoryOf(i Spec, now time.Time) rows.Inventory {
	row := rows.Inventory{
		Key: i.Key, Name: i.Name, Domain: database.Optional(i.Domain), LabelDict: jsonOf(i.Labels, "{}"), DescriptionDict: jsonOf(i.Descriptions, "{}"),
		APIKey: s.seal(i.Credential.Plain()), Type: i.Type, Enabled: i.Enabled, CreditBilling: database.Optional(string(i.Prices)),
		AuthPatterns: jsonOf(i.Patterns, "[]"), ConfigItems: jsonOf(i.Items, "[]"), Approval: i.Approval,
		CreatedAt: now, UpdatedAt: now,
	}
	if len(i.Egress) > 0 {
		row.Egress = database.Optional(jsonOf(i.Egress, ""))
	}
	return row
}

// jsonOf is a part of a spec as a column keeps it, or what stands for none.
func jsonOf(v any, none string) string {
	text, _ := json.Marshal(v) // texts, networks, and what was decoded from JSON
	if string(text) == "null" {
		return none
	}
	return string(text)
}

func (s *Service) seal(credential []byte) *string {
	if credential == nil {
		return nil
	}
	sealed := s.box.Seal(credential)
	return &sealed
}

type methodKey struct {
	name    string
	version int
}

func (s *Service) applyMethods(tx database.Tx, i Spec, now time.Time) (changed bool, err error) {
	stored, err := s.rows.AllMethods(tx.Handle, i.Key)
	if err != nil {
		return false, err
	}
	left := map[methodKey]rows.Method{}
	for _, r := range stored {
		left[methodKey{r.Name, r.VersionID}] = r
	}
	var added []rows.Method
	for _, m := range i.Methods {
		want, err := rowOf(i.Key, m, now)
		if err != nil {
			return false, err
		}
		before, ok := left[methodKey{m.Name, m.Version}]
		delete(left, methodKey{m.Name, m.Version})
		if !ok {
			added = append(added, want)
			continue
		}
		if columns := changes(methodColumns(before), methodColumns(want)); len(columns) > 0 {
			changed = true
			columns["updated_at"] = now
			if err := s.rows.UpdateMethod(tx, before.PK, columns); err != nil {
				return false, err
			}
		}
	}
	for r := range maps.Values(left) {
		if !r.Enabled {
			continue
		}
		changed = true
		if err := s.rows.UpdateMethod(tx, r.PK, map[string]any{"enabled": false, "updated_at": now}); err != nil {
			return false, err
		}
	}
	if len(added) == 0 {
		return changed, nil
	}
	return true, s.rows.InsertMethods(tx, added)
}

// applyFormulas keeps the prices that depend on the call. A formula that is no
// longer in the file is switched off.
func (s *Service) applyFormulas(tx database.Tx, i Spec, now time.Time) (changed bool, err error) {
	stored, err := s.rows.Formulas(tx.Handle, i.Key)
	if err != nil {
		return false, err
	}
	before := map[string]rows.Formula{}
	for _, r := range stored {
		before[r.MethodName] = r
	}
	for _, m := range i.Methods {
		had, ok := before[m.Name]
		want := rows.Formula{
			InventoryKey: i.Key, MethodName: m.Name, BillingRules: string(m.Rules), TokenPricing: database.Optional(string(m.TokenPricing)),
			Enabled: len(m.Rules) > 0, CreatedAt: now, UpdatedAt: now,
		}
		delete(before, m.Name)
		switch {
		case !ok && !want.Enabled, !had.Enabled && !want.Enabled:
			continue
		case ok && had.Enabled == want.Enabled && had.BillingRules == want.BillingRules && database.Text(had.TokenPricing) == database.Text(want.TokenPricing):
			continue
		case !want.Enabled:
			want.BillingRules, want.TokenPricing = had.BillingRules, had.TokenPricing
		}
		changed = true
		if err := s.rows.SaveFormula(tx, want); err != nil {
			return false, err
		}
	}
	for r := range maps.Values(before) {
		if !r.Enabled {
			continue
		}
		r.Enabled, r.UpdatedAt, r.PK, changed = false, now, 0, true
		if err := s.rows.SaveFormula(tx, r); err != nil {
			return false, err
		}
	}
	return changed, nil
}

func rowOf(key string, m toolset.Method, now time.Time) (rows.Method, error) {
	adapter, err := json.Marshal(m.Adapter)
	if err != nil {
		return rows.Method{}, fmt.Errorf("adapter of %s: %w", m.Name, err)
	}
	return rows.Method{
		InventoryKey: key, VersionID: m.Version, Name: m.Name, Description: m.Description, Endpoint: m.Endpoint, HTTPMethod: m.HTTPMethod,
		RequestSchema: string(m.Request), ResponseSchema: string(m.Response), AdapterConfig: database.Optional(string(adapter)),
		AllowedCallers: m.AllowedCallers, Approval: m.Approval, Effect: m.Effect,
		Enabled: true, CreatedAt: now, UpdatedAt: now,
	}, nil
}

// applyGlobal keeps the row that makes a toolset everybody's, or deletes it
// where the toolset is nobody's until a user installs it.
func (s *Service) applyGlobal(tx database.Tx, i Spec, now time.Time) (changed bool, err error) {
	want := rows.Toolset{
		ToolsetID: ids.New(ids.Toolset), IsGlobal: true, Name: i.Name, Key: i.Key, AuthType: &i.AuthType, Config: database.Optional(jsonOf(i.Config, "")), Enabled: i.Enabled,
		CreatedAt: now, UpdatedAt: now,
	}
	before, err := s.rows.Global(tx.Handle, i.Key)
	switch {
	case errors.Is(err, database.ErrNotFound) && !i.Global:
		return false, nil
	case errors.Is(err, database.ErrNotFound):
		return true, s.rows.InsertToolset(tx, want)
	case err != nil:
		return false, err
	case !i.Global:
		return true, s.rows.UpdateGlobal(tx, i.Key, map[string]any{"deleted_at": now, "updated_at": now})
	}
	columns := changes(globalColumns(before), globalColumns(want))
	if len(columns) == 0 {
		return false, nil
	}
	columns["updated_at"] = now
	return true, s.rows.UpdateGlobal(tx, i.Key, columns)
}
