package roster

import (
	"cmp"
	"context"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/account"
)

// UserBody is a user as administrators see one.
type UserBody struct {
	UID       string    `json:"uid"`
	Name      string    `json:"name" example:"anna"`
	Email     string    `json:"email"`
	Role      string    `json:"role" enum:"user,admin"`
	Disabled  bool      `json:"disabled" doc:"Refused, whatever the credential"`
	CreatedAt time.Time `json:"createdAt"`
}

func toUser(u account.User) UserBody {
	return UserBody{UID: u.UID, Name: u.Name, Email: u.Email, Role: u.Role(), Disabled: u.Disabled, CreatedAt: u.CreatedAt}
}

type listUsersInput struct {
	httpapi.PageQuery

	Query string `query:"q" maxLength:"100" doc:"Only users with this in their name or e-mail address" example:"anna"`
}

func (m *Module) list(ctx context.Context, _ actor.Actor, in *listUsersInput) (httpapi.Page[UserBody], error) {
	page, err := m.deps.Accounts.Search(ctx, in.Query, in.PageQuery)
	return httpapi.MapPage(page, toUser), err
}

type createUserInput struct {
	Body struct {
		Name  string `json:"name" documented:"pattern=^[A-Za-z0-9._-]{1,64}$" doc:"1 to 64 letters, digits, dots, dashes or underscores; nobody else's" example:"anna"`
		Email string `json:"email,omitempty" maxLength:"320" doc:"Nobody else's"`
	}
}

func (m *Module) create(ctx context.Context, who actor.Actor, in *createUserInput) (body UserBody, err error) {
	err = m.deps.DB.InTx(ctx, func(tx database.Tx) error {
		u, err := m.deps.Accounts.Add(tx, who, account.NewUser{Name: in.Body.Name, Email: in.Body.Email})
		body = toUser(u)
		return err
	})
	return body, err
}

type userKeyBody struct {
	KeyID      string     `json:"keyId"`
	Name       string     `json:"name" example:"laptop"`
	KeyPrefix  string     `json:"keyPrefix"`
	Scopes     []string   `json:"scopes" nullable:"false" doc:"What it may do; empty for everything"`
	CreatedAt  time.Time  `json:"createdAt"`
	LastUsedAt *time.Time `json:"lastUsedAt"`
	ExpiresAt  *time.Time `json:"expiresAt"`
}

type wholeUserBody struct {
	UserBody

	Keys          []userKeyBody `json:"keys" nullable:"false"`
	CreditBalance money.Amount  `json:"creditBalance" doc:"What is left, less open debts"`
	Plan          string        `json:"plan" doc:"The lookup key of the plan, or free" example:"free"`
}

type oneUserInput struct {
	UID string `path:"uid" maxLength:"64"`
}

func (m *Module) get(ctx context.Context, _ actor.Actor, in *oneUserInput) (wholeUserBody, error) {
	u, err := m.deps.Accounts.User(ctx, actor.Actor{UID: in.UID})
	if err != nil {
		return wholeUserBody{}, err
	}
	keys, err := m.deps.Accounts.KeysOf(ctx, u.UID)
	if err != nil {
		return wholeUserBody{}, err
	}
	body := wholeUserBody{UserBody: toUser(u), Keys: make([]userKeyBody, len(keys))}
	for i, k := range keys {
		body.Keys[i] = userKeyBody{
			KeyID: k.ID, Name: k.Name, KeyPrefix: k.Prefix, Scopes: k.Rights.Names(), CreatedAt: k.CreatedAt, LastUsedAt: k.LastUsedAt, ExpiresAt: k.ExpiresAt,
		}
	}
	if body.CreditBalance, err = m.deps.Credits.Balance(ctx, u.UID); err != nil {
		return wholeUserBody{}, err
	}
	body.Plan, err = m.deps.Credits.Plan(ctx, u.UID)
	return body, err
}

type changeUserInput struct {
	UID  string `path:"uid" maxLength:"64"`
	Body struct {
		Disabled *bool   `json:"disabled,omitempty"`
		Role     string  `json:"role,omitempty" enum:"user,admin"`
		Plan     *string `json:"plan,omitempty" maxLength:"100" doc:"The lookup key of a plan; empty ends the one there is" example:"plus_monthly"`
		Password string  `json:"password,omitempty" minLength:"10" maxLength:"1024" doc:"Ends the user's sessions" example:"correct horse"`
	}
}

var errNothing = errs.New(errs.Invalid, "Nothing is to be changed.").Do("Send disabled, role, plan or password.")

// change applies one after the other, each as a whole: where one is refused, those
// before it stay.
func (m *Module) change(ctx context.Context, who actor.Actor, in *changeUserInput) (wholeUserBody, error) {
	b := in.Body
	if b.Disabled == nil && b.Role == "" && b.Plan == nil && b.Password == "" {
		return wholeUserBody{}, errNothing
	}
	if _, err := m.deps.Accounts.User(ctx, actor.Actor{UID: in.UID}); err != nil {
		return wholeUserBody{}, err
	}
	if b.Role != "" {
		if err := m.deps.Accounts.SetRole(ctx, who, in.UID, b.Role == "admin"); err != nil {
			return wholeUserBody{}, err
		}
	}
	if b.Disabled != nil {
		if err := m.deps.Accounts.DisableBy(ctx, who, in.UID, *b.Disabled); err != nil {
			return wholeUserBody{}, err
		}
	}
	if b.Password != "" {
		if err := m.deps.Passwords.SetPassword(ctx, who, in.UID, b.Password); err != nil {
			return wholeUserBody{}, err
		}
	}
	if b.Plan != nil {
		if err := m.deps.Credits.SetPlan(ctx, in.UID, *b.Plan); err != nil {
			return wholeUserBody{}, err
		}
		if err := m.note(ctx, who, "user.plan", in.UID, map[string]string{"plan": cmp.Or(*b.Plan, "free")}); err != nil {
			return wholeUserBody{}, err
		}
	}
	return m.get(ctx, who, &oneUserInput{in.UID})
}

type grantUserInput struct {
	UID  string `path:"uid" maxLength:"64"`
	Body struct {
		Amount money.Amount `json:"amount" minimum:"0.000001" doc:"Such as 100 or 2.5"`
		Days   int          `json:"days,omitempty" minimum:"0" maximum:"3650" doc:"Until they expire; 30 when left out"`
		Text   string       `json:"text,omitempty" maxLength:"200" doc:"What they are for" example:"Welcome"`
		ID     string       `json:"id,omitempty" maxLength:"64" documented:"pattern=^[A-Za-z0-9_-]{0,64}$" doc:"The same id grants once, however often it is sent" example:"cr-gift-2026-03"`
	}
}

type userBalanceBody struct {
	CreditBalance money.Amount `json:"creditBalance" doc:"What is left, less open debts"`
}

const grantDays = 30

func (m *Module) grant(ctx context.Context, who actor.Actor, in *grantUserInput) (userBalanceBody, error) {
	if _, err := m.deps.Accounts.User(ctx, actor.Actor{UID: in.UID}); err != nil {
		return userBalanceBody{}, err
	}
	g := Grant{ID: cmp.Or(in.Body.ID, ids.New(ids.Recharge)), Amount: in.Body.Amount, Text: in.Body.Text}
	g.ExpiresAt = m.deps.Now().AddDate(0, 0, cmp.Or(in.Body.Days, grantDays))
	if err := m.deps.Credits.Grant(ctx, in.UID, g); err != nil {
		return userBalanceBody{}, err
	}
	if err := m.note(ctx, who, "credit.grant", in.UID, map[string]string{"id": g.ID, "amount": g.Amount.String()}); err != nil {
		return userBalanceBody{}, err
	}
	left, err := m.deps.Credits.Balance(ctx, in.UID)
	return userBalanceBody{left}, err
}

type erasedBody struct {
	Rows    int64 `json:"rows" doc:"How many rows were deleted, or lost what was personal in them" example:"112"`
	Objects int64 `json:"objects" doc:"How many files and results were deleted from the object storage" example:"3"`
}

var errYourself = errs.New(errs.Conflict, "You cannot erase yourself.").Do("Ask another administrator, or the operator.")

func (m *Module) erase(ctx context.Context, who actor.Actor, in *oneUserInput) (erasedBody, error) {
	if in.UID == who.UID {
		return erasedBody{}, errYourself
	}
	rows, objects, err := m.deps.Erasure.Erase(ctx, who, in.UID)
	return erasedBody{rows, objects}, err
}
