package toolset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
)

// Report says what Apply did, by toolset key in the order of the files.
type Report struct{ Created, Updated, Unchanged []string }

// Apply loads toolset files into the inventory, all or nothing. Whatever was
// there before, a toolset then is what its file says, as if the database had
// been empty. Applying the same files again changes nothing. Toolsets without
// a file stay as they are. The error lists everything that is wrong, as
// file:line: message; it is ErrOtherKey where what is stored was sealed with
// another key.
func (s *Service) Apply(ctx context.Context, files []File) (Report, error) {
	if err := s.CheckKey(ctx); err != nil {
		return Report{}, err
	}
	items, problems, err := s.check(ctx, files)
	if err != nil || len(problems) > 0 {
		return Report{}, errors.Join(joinProblems(problems), err)
	}
	return s.storeItems(ctx, items)
}

// Load is Apply for a server that starts: a file that is not valid is left out,
// whole, with what is wrong with it; its toolsets stay as they are.
func (s *Service) Load(ctx context.Context, files []File) (Report, []FileProblem, error) {
	items, problems, err := s.check(ctx, files)
	if err != nil {
		return Report{}, problems, err
	}
	report, err := s.storeItems(ctx, valid(items, problems))
	return report, problems, err
}

// valid are the items of files with which nothing is wrong.
func valid(items []item, problems []FileProblem) []item {
	return slices.DeleteFunc(slices.Clone(items), func(i item) bool {
		return slices.ContainsFunc(problems, func(p FileProblem) bool { return p.File == i.file })
	})
}

// Check says what is wrong with toolset files, by file and line, and changes
// nothing.
func (s *Service) Check(ctx context.Context, files []File) ([]FileProblem, error) {
	_, problems, err := s.check(ctx, files)
	return problems, err
}

func (s *Service) check(ctx context.Context, files []File) ([]item, []FileProblem, error) {
	items, problems := checkFiles(files, s.Variables, s.Pricer, slices.Collect(maps.Keys(s.legacy)))
	wrong, err := s.checkRates(ctx, valid(items, problems))
	problems = append(problems, wrong...)
	sortProblems(problems)
	return items, problems, err
}

func (s *Service) storeItems(ctx context.Context, items []item) (Report, error) {
	report, err := s.store(ctx, items)
	if database.IsDuplicate(err) { // another process applied the same files
		report, err = s.store(ctx, items)
	}
	return report, err
}

// checkRates refuses prices by tiers of a provider whose rates nobody has set: a
// call would have no price.
func (s *Service) checkRates(ctx context.Context, items []item) ([]FileProblem, error) {
	if !slices.ContainsFunc(items, func(i item) bool { return i.kind != typeRegular }) {
		return nil, nil
	}
	rates, err := s.Rates.Rates(ctx, composioName)
	if err != nil {
		return nil, err
	}
	var problems []FileProblem
	for _, i := range items {
		if i.kind == typeRegular {
			continue
		}
		if _, err := s.Pricer.ParseProvided(i.prices, rates); err != nil {
			problems = append(problems, FileProblem{File: i.file, Line: i.line, Message: fmt.Sprintf("toolset %s: %s", i.key, strings.ReplaceAll(err.Error(), "\n", "; "))})
		}
	}
	return problems, nil
}

func (s *Service) store(ctx context.Context, items []item) (Report, error) {
	var r Report
	err := s.DB.InTx(ctx, func(tx database.Tx) error {
		r = Report{}
		for _, i := range items {
			created, changed, err := s.applyItem(tx, i)
			switch {
			case err != nil:
				return fmt.Errorf("toolset %s: %w", i.key, err)
			case created:
				r.Created = append(r.Created, i.key)
			case changed:
				r.Updated = append(r.Updated, i.key)
			default:
				r.Unchanged = append(r.Unchanged, i.key)
			}
		}
		return nil
	})
	return r, err
}

func (s *Service) applyItem(tx database.Tx, i item) (created, changed bool, err error) {
	now := s.Now()
	before, err := s.rows.anyInventory(tx.Handle, i.key)
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
		if err := s.rows.insertInventory(tx, s.inventoryOf(i, now)); err != nil {
			return false, false, err
		}
		if err := s.auditCredential(tx, i.key, i.credential != nil); err != nil {
			return false, false, err
		}
	}
	steps := []func() (bool, error){
		func() (bool, error) { return s.applyMethods(tx, i, now) },
		func() (bool, error) { return s.applyFormulas(tx, i, now) },
		func() (bool, error) { return s.applyGlobal(tx, i, now) },
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
		if err := s.rows.updateInventory(tx, i.key, columns); err != nil {
			return false, changed, err
		}
		err = s.auditCredential(tx, i.key, credential)
	}
	return false, changed, err
}

// auditCredential keeps that an operator changed the credential of a toolset.
func (s *Service) auditCredential(tx database.Tx, key string, changed bool) error {
	if !changed {
		return nil
	}
	return s.audit(tx, actor.Actor{UID: audit.Operator}, "inventory.credential", key, nil)
}

func (s *Service) inventoryOf(i item, now time.Time) inventoryRow {
	return inventoryRow{
		Key: i.key, Name: i.name, Domain: optional(i.domain), LabelDict: i.labels, DescriptionDict: i.descriptions,
		APIKey: s.seal(i.credential), Type: i.kind, Enabled: i.enabled, CreditBilling: optional(i.prices), Egress: optional(i.egress),
		AuthPatterns: i.patterns, ConfigItems: i.items,
		CreatedAt: now, UpdatedAt: now,
	}
}

func (s *Service) seal(credential []byte) *string {
	if credential == nil {
		return nil
	}
	sealed := s.Box.Seal(credential)
	return &sealed
}

// differences are the columns in which a stored toolset is not what its file
// says.
func (s *Service) differences(before inventoryRow, i item) map[string]any {
	want := s.inventoryOf(i, before.CreatedAt)
	columns := map[string]any{}
	compare(columns, "name", before.Name, want.Name)
	compareOptional(columns, "domain", before.Domain, want.Domain)
	compare(columns, "label_dict", before.LabelDict, want.LabelDict)
	compare(columns, "description_dict", before.DescriptionDict, want.DescriptionDict)
	compare(columns, "type", before.Type, want.Type)
	compare(columns, "enabled", before.Enabled, want.Enabled)
	compareOptional(columns, "credit_billing", before.CreditBilling, want.CreditBilling)
	compareOptional(columns, "egress", before.Egress, want.Egress)
	compare(columns, "auth_patterns", before.AuthPatterns, want.AuthPatterns)
	compare(columns, "config_items", before.ConfigItems, want.ConfigItems)
	if !s.sameCredential(before.APIKey, i.credential) {
		columns["api_key"] = want.APIKey
	}
	if before.DeletedAt != nil {
		columns["deleted_at"] = nil
	}
	return columns
}

func compare[T comparable](columns map[string]any, name string, before, want T) {
	if before != want {
		columns[name] = want
	}
}

// compareOptional is compare for a column that is NULL where there is nothing:
// an empty text is not nothing, and readers may fail on it.
func compareOptional(columns map[string]any, name string, before, want *string) {
	if (before == nil) != (want == nil) || deref(before) != deref(want) {
		columns[name] = want
	}
}

// sameCredential reports whether a sealed credential is the given one. One
// that cannot be opened, after a change of the key, is replaced.
func (s *Service) sameCredential(sealed *string, want []byte) bool {
	if sealed == nil || want == nil {
		return sealed == nil && want == nil
	}
	opened, err := s.Box.Open(*sealed)
	return err == nil && bytes.Equal(opened, want)
}

type methodKey struct {
	name    string
	version int
}

func (s *Service) applyMethods(tx database.Tx, i item, now time.Time) (changed bool, err error) {
	rows, err := s.rows.allMethods(tx.Handle, i.key)
	if err != nil {
		return false, err
	}
	left := map[methodKey]methodRow{}
	for _, r := range rows {
		left[methodKey{r.Name, r.VersionID}] = r
	}
	for _, m := range i.methods {
		want, err := rowOf(i.key, m, now)
		if err != nil {
			return false, err
		}
		before, ok := left[methodKey{m.Name, m.Version}]
		delete(left, methodKey{m.Name, m.Version})
		if !ok {
			changed = true
			if err := s.rows.insertMethod(tx, want); err != nil {
				return false, err
			}
			continue
		}
		if columns := methodDifferences(before, want); len(columns) > 0 {
			changed = true
			columns["updated_at"] = now
			if err := s.rows.updateMethod(tx, before.PK, columns); err != nil {
				return false, err
			}
		}
	}
	for r := range maps.Values(left) {
		if !r.Enabled {
			continue
		}
		changed = true
		if err := s.rows.updateMethod(tx, r.PK, map[string]any{"enabled": false, "updated_at": now}); err != nil {
			return false, err
		}
	}
	return changed, nil
}

// applyFormulas keeps the prices that depend on the call. A formula that is no
// longer in the file is switched off.
func (s *Service) applyFormulas(tx database.Tx, i item, now time.Time) (changed bool, err error) {
	rows, err := s.rows.formulas(tx.Handle, i.key)
	if err != nil {
		return false, err
	}
	before := map[string]formulaRow{}
	for _, r := range rows {
		before[r.MethodName] = r
	}
	for _, m := range i.methods {
		had, ok := before[m.Name]
		want := formulaRow{
			InventoryKey: i.key, MethodName: m.Name, BillingRules: string(m.Rules), TokenPricing: optional(string(m.TokenPricing)),
			Enabled: len(m.Rules) > 0, CreatedAt: now, UpdatedAt: now,
		}
		delete(before, m.Name)
		switch {
		case !ok && !want.Enabled, !had.Enabled && !want.Enabled:
			continue
		case ok && had.Enabled == want.Enabled && had.BillingRules == want.BillingRules && deref(had.TokenPricing) == deref(want.TokenPricing):
			continue
		case !want.Enabled:
			want.BillingRules, want.TokenPricing = had.BillingRules, had.TokenPricing
		}
		changed = true
		if err := s.rows.saveFormula(tx, want); err != nil {
			return false, err
		}
	}
	for r := range maps.Values(before) {
		if !r.Enabled {
			continue
		}
		r.Enabled, r.UpdatedAt, r.PK, changed = false, now, 0, true
		if err := s.rows.saveFormula(tx, r); err != nil {
			return false, err
		}
	}
	return changed, nil
}

func rowOf(key string, m Method, now time.Time) (methodRow, error) {
	adapter, err := json.Marshal(m.Adapter)
	if err != nil {
		return methodRow{}, fmt.Errorf("adapter of %s: %w", m.Name, err)
	}
	return methodRow{
		InventoryKey: key, VersionID: m.Version, Name: m.Name, Description: m.Description, Endpoint: m.Endpoint, HTTPMethod: m.HTTPMethod,
		RequestSchema: string(m.Request), ResponseSchema: string(m.Response), AdapterConfig: optional(string(adapter)),
		AllowedCallers: m.AllowedCallers,
		Enabled:        true, CreatedAt: now, UpdatedAt: now,
	}, nil
}

func methodDifferences(before, want methodRow) map[string]any {
	columns := map[string]any{}
	compare(columns, "description", before.Description, want.Description)
	compare(columns, "endpoint", before.Endpoint, want.Endpoint)
	compare(columns, "http_method", before.HTTPMethod, want.HTTPMethod)
	compare(columns, "request_schema", before.RequestSchema, want.RequestSchema)
	compare(columns, "response_schema", before.ResponseSchema, want.ResponseSchema)
	compareOptional(columns, "adapter_config", before.AdapterConfig, want.AdapterConfig)
	compare(columns, "allowed_callers", before.AllowedCallers, want.AllowedCallers)
	compare(columns, "enabled", before.Enabled, true)
	if before.DeletedAt != nil {
		columns["deleted_at"] = nil
	}
	return columns
}

// applyGlobal keeps the row that makes a toolset everybody's, or deletes it
// where the toolset is nobody's until a user installs it.
func (s *Service) applyGlobal(tx database.Tx, i item, now time.Time) (changed bool, err error) {
	before, err := s.rows.global(tx.Handle, i.key)
	switch {
	case errors.Is(err, database.ErrNotFound) && !i.global:
		return false, nil
	case errors.Is(err, database.ErrNotFound):
		return true, s.rows.insertToolset(tx, toolsetRow{
			ToolsetID: ids.New(ids.Toolset), IsGlobal: true, Name: i.name, Key: i.key, AuthType: &i.authType, Config: optional(i.config), Enabled: i.enabled,
			CreatedAt: now, UpdatedAt: now,
		})
	case err != nil:
		return false, err
	case !i.global:
		return true, s.rows.updateGlobal(tx, i.key, map[string]any{"deleted_at": now, "updated_at": now})
	}
	columns := map[string]any{}
	compare(columns, "name", before.Name, i.name)
	compareOptional(columns, "auth_type", before.AuthType, &i.authType)
	compareOptional(columns, "auth_data", before.AuthData, nil)
	compareOptional(columns, "config", before.Config, optional(i.config))
	compare(columns, "enabled", before.Enabled, i.enabled)
	compare(columns, "uninstalled", before.Uninstalled, false)
	if len(columns) == 0 {
		return false, nil
	}
	columns["updated_at"] = now
	return true, s.rows.updateGlobal(tx, i.key, columns)
}
